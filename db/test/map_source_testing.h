// A sorted stream for tests: the entries of a map, in its order.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "dLSM/sorted_source.h"

namespace dlsm {

template <typename Compare = std::less<>>
class MapSource final : public SortedSource {
 public:
  explicit MapSource(const std::map<std::string, std::string, Compare>& entries)
      : entries_(entries), next_(entries_.begin()) {}
  explicit MapSource(std::map<std::string, std::string, Compare>&&) = delete;

  bool Next(Slice* key, Slice* value) override {
    if (next_ == entries_.end()) return false;
    *key = next_->first;
    *value = next_->second;
    ++next_;
    return true;
  }

 private:
  const std::map<std::string, std::string, Compare>& entries_;
  typename std::map<std::string, std::string, Compare>::const_iterator next_;
};

}  // namespace dlsm
