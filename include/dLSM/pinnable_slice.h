// A value that is either owned, or pinned where it lies without a copy: in a memtable or a table,
// or, if it was fetched over a network, has about 8 KB or more and is not in blocks, where it was
// fetched into. Reset or destroy it before its database is closed. What is pinned keeps memtables
// and tables from being freed: those of its shard at that moment, or of all shards that its
// MultiGet has read. Values that one MultiGet has fetched share memory: who keeps a few of many for
// long copies them. What is moved is empty then, and the other one what this was. One thread at a
// time. In a child of the process that pinned it, it lets go of nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "dLSM/slice.h"

namespace dlsm {

class PinnableSlice : public Slice {
 public:
  PinnableSlice() = default;
  PinnableSlice(PinnableSlice&& other) noexcept { *this = std::move(other); }
  ~PinnableSlice() { LetGo(); }
  PinnableSlice& operator=(PinnableSlice&& other) noexcept {
    if (this == &other) return *this;
    // Short strings take their bytes along.
    const bool own = other.ShowsSelf();
    const size_t begin = own ? static_cast<size_t>(other.data() - other.self_.data()) : 0;
    self_ = std::move(other.self_);
    LetGo();
    holder_ = std::move(other.holder_);
    process_ = other.process_;
    Slice::operator=(Slice(own ? self_.data() + begin : other.data(), other.size()));
    other.Reset();
    return *this;
  }

  // `bytes` stay valid as long as `holder` lives.
  void PinSlice(const Slice& bytes, std::shared_ptr<const void> holder) {
    LetGo();
    Hold(&holder);
    Slice::operator=(bytes);
  }
  // Copies.
  void PinSelf(const Slice& bytes) {
    self_.assign(bytes.data(), bytes.size());
    PinSelf();
  }
  // After filling *GetSelf().
  void PinSelf() {
    LetGo();
    Slice::operator=(Slice(self_));
  }
  std::string* GetSelf() { return &self_; }
  bool IsPinned() const { return holder_ != nullptr; }

  void Reset() {
    LetGo();
    clear();
  }

 private:
  // Takes *holder, while it has none.
  void Hold(std::shared_ptr<const void>* holder) noexcept;
  void LetGo() noexcept {
    if (holder_ != nullptr) LetGoOfHolder();
  }
  void LetGoOfHolder() noexcept;
  // Its own bytes, or what remove_prefix() has left of them.
  bool ShowsSelf() const {
    const std::less_equal<const char*> in_order;
    return in_order(self_.data(), data()) && in_order(data(), self_.data() + self_.size());
  }

  std::string self_;
  std::shared_ptr<const void> holder_;
  uint32_t process_ = 0;  // Of the holder.
};

}  // namespace dlsm
