#include "table/table_run.h"

#include <algorithm>
#include <cstring>

namespace dlsm {

RunView::Target::Target(const Slice& prefix, const Slice& user_key)
    : order_(std::memcmp(user_key.data(), prefix.data(), std::min(user_key.size(), prefix.size()))),
      digest_(Digest(After(user_key, prefix.size()))) {
  if (order_ == 0 && user_key.size() < prefix.size()) order_ = -1;
}

size_t RunView::FirstNotBefore(const InternalKeyComparator& comparator, const Slice& internal_key,
                               const Target& target) const {
  size_t low = 0;
  size_t high = tables.size();  // The table is in [low, high].
  if (digests != nullptr) {
    if (target.order_ != 0) return target.order_ > 0 ? high : 0;
    low = CountBelow(digests, high, target.digest_);
    size_t equal = low;
    while (equal < high && digests[equal] == target.digest_) ++equal;
    high = equal;
  }
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (comparator.Compare(tables[middle]->meta().largest, internal_key) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace dlsm
