// Takes apart what clients of a RESP server send: arrays of bulk strings, as all client libraries
// send them, or lines of words, as a person types them ("inline commands").
//
// The rules, limits and error texts are those of Redis 7, so that its clients see nothing new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"

namespace dlsm::serve {

// One client's. One thread.
class RequestParser {
 public:
  enum class State {
    kRequest,  // There is one.
    kMore,     // Its rest has not come yet.
    kError,    // error() is what to answer before the connection is closed.
  };
  static constexpr int64_t kBulkBytesMax = int64_t{512} << 20;

  // What a client may send that has not given its password yet.
  void set_authenticated(bool authenticated) { authenticated_ = authenticated; }

  // `bytes`: all that came and belongs to no earlier request. The same bytes, with what has come
  // since, are passed again after kMore. After kRequest, `*arguments` lie in `bytes` or in this
  // parser, until the next call; the request has the first `*taken` bytes, and may be empty.
  State Next(const Slice& bytes, std::vector<Slice>* arguments, size_t* taken);

  // Forgets the request that has begun: its bytes are passed again.
  void Restart() { begun_ = false; }
  // Whether the last request was a line: its arguments are lost with the next call.
  bool was_inline() const { return was_inline_; }
  const std::string& error() const { return error_; }

 private:
  struct Span {
    size_t begin;
    size_t bytes;
  };

  State Fail(const std::string& error);
  State NextInline(const Slice& bytes, std::vector<Slice>* arguments, size_t* taken);
  State NextArray(const Slice& bytes, std::vector<Slice>* arguments, size_t* taken);
  // The number between the byte at at_ and the end of its line. `too_long`: the error if the line
  // does not end.
  State TakeNumber(const Slice& bytes, const char* too_long, const char* wrong, int64_t* number);

  bool authenticated_ = true;
  bool was_inline_ = false;
  std::string error_;
  // Of the array that has begun.
  bool begun_ = false;
  int64_t left_ = 0;         // Arguments.
  int64_t bulk_bytes_ = -1;  // Of the argument that has begun; -1: none.
  size_t at_ = 0;            // What lies before it has been looked at.
  std::vector<Span> found_;
  std::vector<std::string> words_;  // Of a line.
};

}  // namespace dlsm::serve
