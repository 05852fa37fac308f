#include "table/version_rule.h"

#include <algorithm>

namespace dlsm {

size_t VersionRule::StripeAmongSnapshots(SequenceNumber sequence) const {
  const auto at = std::lower_bound(snapshots_.begin(), snapshots_.end(), sequence);
  return static_cast<size_t>(at - snapshots_.begin());
}

bool VersionRule::OlderMayHold(const Slice& user_key) {
  const std::vector<KeyRange>& older = *older_;
  while (at_older_ < older.size() &&
         comparator_.CompareUserKeys(older[at_older_].largest, user_key) < 0) {
    ++at_older_;
  }
  return at_older_ < older.size() &&
         comparator_.CompareUserKeys(older[at_older_].smallest, user_key) <= 0;
}

// The oldest of the newer tombstones is the one that is in this stripe, if any is.
bool VersionRule::IsHidden(const Slice& internal_key, size_t stripe) {
  const SequenceNumber sequence = TrailerSequence(ExtractTrailer(internal_key));
  SequenceNumber hides = 0;
  for (const SequenceNumber tombstone : tombstones_->At(ExtractUserKey(internal_key))) {
    if (tombstone <= sequence) break;
    hides = tombstone;
  }
  return hides != 0 && StripeOf(hides) == stripe;
}

void KeepDecidingSnapshots(SequenceNumber least, SequenceNumber most,
                           std::vector<SequenceNumber>* snapshots) {
  snapshots->erase(std::lower_bound(snapshots->begin(), snapshots->end(), most), snapshots->end());
  const auto sees_some = std::lower_bound(snapshots->begin(), snapshots->end(), least);
  if (sees_some != snapshots->begin()) snapshots->erase(snapshots->begin(), sees_some - 1);
}

}  // namespace dlsm
