// Replies as RESP2 and RESP3 have them. What RESP2 has no type for is written as Redis does there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dLSM/slice.h"

namespace dlsm::serve {

// Appends to a string. One thread.
class Reply {
 public:
  // `to` outlives this. `protocol`: 2 or 3.
  Reply(std::string* to, int protocol) : to_(to), protocol_(protocol) {}

  int protocol() const { return protocol_; }
  void set_protocol(int protocol) { protocol_ = protocol; }

  void Ok() { *to_ += "+OK\r\n"; }
  void Simple(std::string_view text);
  // With its code first: "ERR no such key". Line ends in it become spaces.
  void Error(std::string_view text);
  void Integer(int64_t number);
  void Bulk(const Slice& bytes);
  void Null();
  void NullArray();
  void Double(double number);
  // RESP2: the number 1 or 0.
  void Boolean(bool value);
  // The head of so many elements, which follow; of a map so many pairs.
  void Array(size_t count) { Head('*', count); }
  void Map(size_t pairs) { protocol_ == 3 ? Head('%', pairs) : Head('*', 2 * pairs); }
  void Set(size_t count) { Head(protocol_ == 3 ? '~' : '*', count); }
  // A text to be shown as it is.
  void Verbatim(const Slice& text);
  // Replies that were written before.
  void Raw(std::string_view bytes) { *to_ += bytes; }

  // Where the next reply begins; and back to there.
  size_t position() const { return to_->size(); }
  void Rewind(size_t position) { to_->resize(position); }

 private:
  void Head(char type, size_t count);

  std::string* const to_;
  int protocol_;
};

// As Redis prints doubles: the shortest text that is read as the same number.
std::string DoubleText(double number);

}  // namespace dlsm::serve
