// Reads the updates of a WriteBatch one by one, without virtual calls and copies. See write_batch.h
// for the layout.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"
#include "util/coding.h"

namespace dlsm {

// Part of the batch's format; the values are those of the table format's ValueType.
enum class UpdateType : uint8_t { kDelete = 0, kPut = 1, kDeleteRange = 2 };

class WriteBatchReader {
 public:
  static constexpr size_t kHeaderBytes = 4;

  // The batch, unchanged, outlives the reader and every slice that it returns.
  explicit WriteBatchReader(const WriteBatch& batch) : WriteBatchReader(Slice(batch.rep_)) {}
  // The bytes of a batch, which may come from anywhere.
  explicit WriteBatchReader(const Slice& contents);

  static Slice Contents(const WriteBatch& batch) { return Slice(batch.rep_); }
  // Without the header.
  static Slice Entries(const WriteBatch& batch) {
    Slice entries(batch.rep_);
    entries.remove_prefix(std::min(entries.size(), kHeaderBytes));
    return entries;
  }

  // What the header says; status() tells whether it is true, once Next() has returned false.
  uint32_t count() const { return count_; }
  // Stands for an update whose key or value has 4 GiB or more, or for those that would have been
  // more than the header can count. What follows it is not looked at.
  static constexpr uint8_t kTooLarge = 0xff;
  // Of all updates: keys, values, and what the encoding adds.
  size_t payload_bytes() const { return payload_bytes_; }

  // False at the end, and where the bytes are damaged: see status(). *value is empty for a
  // deletion, and the range's end where a range is deleted.
  bool Next(UpdateType* type, Slice* key, Slice* value) {
    if (rest_.empty()) return false;
    const auto tag = static_cast<uint8_t>(rest_[0]);
    if (tag > static_cast<uint8_t>(UpdateType::kDeleteRange)) return false;
    rest_.remove_prefix(1);
    *type = static_cast<UpdateType>(tag);
    value->clear();
    if (!GetLengthPrefixed(&rest_, key) ||
        (*type != UpdateType::kDelete && !GetLengthPrefixed(&rest_, value))) {
      damaged_ = true;
      rest_.clear();
      return false;
    }
    ++seen_;
    return true;
  }

  // After Next() has returned false: OK if it was the end, InvalidArgument if the batch was given
  // an update that was too large for it or more of them than it can hold, otherwise Corruption.
  Status status() const;

 private:
  uint32_t count_ = 0;
  uint32_t seen_ = 0;
  size_t payload_bytes_ = 0;
  bool damaged_ = false;
  Slice rest_;
};

}  // namespace dlsm
