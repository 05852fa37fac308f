// A Slice is a pointer to bytes and their number. It does not own the bytes: the caller keeps them
// alive and unchanged for as long as the Slice is in use. Const methods may be called by many
// threads at once.
#pragma once

#include <cassert>
#include <compare>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace dlsm {

class Slice {
 public:
  constexpr Slice() : data_(""), size_(0) {}
  constexpr Slice(const char* data, size_t size) : data_(data), size_(size) {}
  Slice(const std::string& bytes) : data_(bytes.data()), size_(bytes.size()) {}  // NOLINT
  constexpr Slice(std::string_view bytes)                                        // NOLINT
      : data_(bytes.data()), size_(bytes.size()) {}
  // Null is an empty text.
  Slice(const char* text)  // NOLINT
      : data_(text == nullptr ? "" : text), size_(text == nullptr ? 0 : std::strlen(text)) {}

  constexpr const char* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  const char* begin() const { return data_; }
  const char* end() const { return data_ + size_; }

  char operator[](size_t i) const {
    assert(i < size_);
    return data_[i];
  }

  void clear() {
    data_ = "";
    size_ = 0;
  }
  void remove_prefix(size_t n) {
    assert(n <= size_);
    data_ += n;
    size_ -= n;
  }
  void remove_suffix(size_t n) {
    assert(n <= size_);
    size_ -= n;
  }

  std::string ToString() const { return std::string(data_, size_); }
  std::string_view ToStringView() const { return std::string_view(data_, size_); }

  // < 0, 0 or > 0 as *this is less than, equal to or greater than `other` bytewise.
  int compare(const Slice& other) const {
    const size_t common = size_ < other.size_ ? size_ : other.size_;
    const int order = common == 0 ? 0 : std::memcmp(data_, other.data_, common);
    if (order != 0) return order;
    return size_ < other.size_ ? -1 : (size_ > other.size_ ? 1 : 0);
  }

  bool starts_with(const Slice& prefix) const {
    return size_ >= prefix.size_ &&
           (prefix.size_ == 0 || std::memcmp(data_, prefix.data_, prefix.size_) == 0);
  }

 private:
  const char* data_;
  size_t size_;
};

inline bool operator==(const Slice& a, const Slice& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}
inline bool operator!=(const Slice& a, const Slice& b) { return !(a == b); }

}  // namespace dlsm
