// A first-in first-out queue in one block of memory, which grows and never shrinks: in the steady
// state it allocates nothing. Not thread-safe.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "port/allocation_point.h"

namespace dlsm {

template <typename T>
class RingQueue {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }

  T& operator[](size_t i) {
    assert(i < count_);
    return items_[(head_ + i) & (items_.size() - 1)];
  }
  const T& operator[](size_t i) const {
    assert(i < count_);
    return items_[(head_ + i) & (items_.size() - 1)];
  }
  T& front() { return (*this)[0]; }
  T& back() { return (*this)[count_ - 1]; }

  // After this the next push_back() cannot fail. Both throw std::bad_alloc, and change nothing
  // then.
  void MakeRoom() {
    if (count_ == items_.size()) Grow();
  }
  void push_back(T item) {
    MakeRoom();
    ++count_;
    back() = std::move(item);
  }
  void pop_front() {
    assert(count_ > 0);
    head_ = (head_ + 1) & (items_.size() - 1);
    --count_;
  }
  void clear() { head_ = count_ = 0; }

 private:
  void Grow() {
    port::AllocationPoint();
    std::vector<T> larger(items_.empty() ? kFirstCapacity : 2 * items_.size());
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    head_ = 0;
  }

  static constexpr size_t kFirstCapacity = 16;  // A power of two, and so is every later capacity.

  std::vector<T> items_;
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace dlsm
