// Where a table's image is written, front to back. Bytes are copied once, into a window: memory
// that is the image's final place (local, shm, the memory node itself) or a registered buffer that
// NextWindow() posts while the next one fills.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

class TableSink {
 public:
  virtual ~TableSink() = default;

  Status Append(const Slice& bytes) {
    if (bytes.size() <= static_cast<size_t>(limit_ - cursor_)) [[likely]] {
      if (!bytes.empty()) {
        assert(cursor_ != nullptr);
        std::memcpy(cursor_, bytes.data(), bytes.size());
      }
      cursor_ += bytes.size();
      appended_ += bytes.size();
      return Status::OK();
    }
    return AppendAcrossWindows(bytes);
  }

  // A contiguous place for `count` bytes in the current window, or nullptr if the window is too
  // short: then the caller encodes elsewhere and calls Append(). Commit() makes them part of the
  // image.
  char* Reserve(size_t count) {
    return count <= static_cast<size_t>(limit_ - cursor_) ? cursor_ : nullptr;
  }
  void Commit(size_t count) {
    cursor_ += count;
    appended_ += count;
  }

  uint64_t appended() const { return appended_; }
  virtual uint64_t capacity() const = 0;

  // Waits until everything appended is in place remotely. To be called once, last.
  virtual Status Finish() = 0;

 protected:
  // Disposes of the bytes between the window's start and cursor_, and sets a window that is not
  // empty; fails when the capacity is used up.
  virtual Status NextWindow() = 0;

  char* cursor_ = nullptr;
  char* limit_ = nullptr;

 private:
  Status AppendAcrossWindows(const Slice& bytes);

  uint64_t appended_ = 0;
};

// An image whose final place this thread can address.
class MemorySink final : public TableSink {
 public:
  MemorySink(char* memory, uint64_t bytes) : capacity_(bytes) {
    cursor_ = memory;
    limit_ = memory + bytes;
  }
  uint64_t capacity() const override { return capacity_; }
  Status Finish() override { return Status::OK(); }

 protected:
  Status NextWindow() override;

 private:
  const uint64_t capacity_;
};

}  // namespace dlsm
