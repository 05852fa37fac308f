// A pointer to bytes that somebody else owns, and their number. The bytes outlive the Slice.
// Const methods are thread-safe.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

#include "leveldb/export.h"

namespace leveldb {

class LEVELDB_EXPORT Slice {
 public:
  Slice() : data_(""), size_(0) {}
  Slice(const char* d, size_t n) : data_(d), size_(n) {}
  Slice(const std::string& s) : data_(s.data()), size_(s.size()) {}  // NOLINT: implicit
  // Up to the first zero byte.
  Slice(const char* s) : data_(s), size_(std::strlen(s)) {}  // NOLINT: implicit
  Slice(const Slice&) = default;
  Slice& operator=(const Slice&) = default;

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // `n` is below size().
  char operator[](size_t n) const {
    assert(n < size_);
    return data_[n];
  }

  void clear() {
    data_ = "";
    size_ = 0;
  }

  // Drops the first `n` bytes, of which there are as many.
  void remove_prefix(size_t n) {
    assert(n <= size_);
    data_ += n;
    size_ -= n;
  }

  std::string ToString() const { return std::string(data_, size_); }

  // Below 0, 0 or above 0, as this is before, equal to or after `b` by unsigned bytes.
  int compare(const Slice& b) const {
    const size_t common = size_ < b.size_ ? size_ : b.size_;
    const int order = common == 0 ? 0 : std::memcmp(data_, b.data_, common);
    if (order != 0 || size_ == b.size_) return order;
    return size_ < b.size_ ? -1 : 1;
  }

  bool starts_with(const Slice& x) const {
    return x.size_ <= size_ && (x.size_ == 0 || std::memcmp(data_, x.data_, x.size_) == 0);
  }

 private:
  const char* data_;
  size_t size_;
};

inline bool operator==(const Slice& x, const Slice& y) {
  return x.size() == y.size() && x.compare(y) == 0;
}
inline bool operator!=(const Slice& x, const Slice& y) { return !(x == y); }

}  // namespace leveldb
