#include "table/version_filter.h"

#include <algorithm>

namespace dlsm {

size_t VersionFilter::StripeOf(SequenceNumber sequence) const {
  const auto& snapshots = options_.snapshots;
  if (snapshots.empty()) [[likely]]
    return 0;
  const auto at = std::lower_bound(snapshots.begin(), snapshots.end(), sequence);
  return static_cast<size_t>(at - snapshots.begin());
}

bool VersionFilter::OlderMayHold(const Slice& user_key) {
  const auto& older = options_.older;
  while (older_ < older.size() &&
         comparator_.CompareUserKeys(older[older_].largest, user_key) < 0) {
    ++older_;
  }
  return older_ < older.size() &&
         comparator_.CompareUserKeys(older[older_].smallest, user_key) <= 0;
}

}  // namespace dlsm
