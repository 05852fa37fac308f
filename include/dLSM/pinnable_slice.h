// A value that is either owned, or pinned where it lies (in a memtable or a table) without a copy.
// Reset or destroy it before its database. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "dLSM/slice.h"

namespace dlsm {

class PinnableSlice : public Slice {
 public:
  PinnableSlice() = default;
  PinnableSlice(PinnableSlice&&) = delete;
  PinnableSlice& operator=(PinnableSlice&&) = delete;

  // `bytes` stay valid as long as `holder` lives.
  void PinSlice(const Slice& bytes, std::shared_ptr<const void> holder) {
    holder_ = std::move(holder);
    Slice::operator=(bytes);
  }
  // Copies.
  void PinSelf(const Slice& bytes) {
    self_.assign(bytes.data(), bytes.size());
    PinSelf();
  }
  // After filling *GetSelf().
  void PinSelf() {
    holder_.reset();
    Slice::operator=(Slice(self_));
  }
  std::string* GetSelf() { return &self_; }
  bool IsPinned() const { return holder_ != nullptr; }

  void Reset() {
    holder_.reset();
    clear();
  }

 private:
  std::string self_;
  std::shared_ptr<const void> holder_;
};

}  // namespace dlsm
