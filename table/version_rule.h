// Which versions of a key may go: the one rule, of flushes as of merges at either node.
//
// Live snapshots cut the sequence numbers into stripes:
//
//   sequence     0 ........ s0 | s0+1 ...... s1 | s1+1 .......... now
//   stripe            0        |       1        |         2
//
// A reader at s_i, or at any snapshot yet to come (they are later than all), sees of each
// stripe only the newest version, if any. So, going from the newest version of a key to the oldest:
//
//   1. A version goes if a newer one of the same key lies in its stripe: it is shadowed.
//   2. A deletion goes if it lies in stripe 0, so that every reader sees it, and no older table or
//      memtable that is not at hand can hold the key. Then it has nothing left to hide: the
//      versions at hand that it hides are in stripe 0 too and go by rule 1.
//   3. A version goes if a newer range tombstone of its stripe covers its key (range_tombstones.h).
//
// The tombstones were read before the list of snapshots was: a snapshot that is missing there sees
// all of them.
//
// A merge knows by the version of the tree what older tables may hold. A flush does not: memtables
// older than its own may still be on their way. So its deletions stay.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "table/internal_key.h"
#include "table/range_tombstones.h"

namespace dlsm {

// User keys, both inclusive.
struct KeyRange {
  std::string smallest;
  std::string largest;
};

// Asked about every version at hand, in internal key order.
class VersionRule {
 public:
  // `snapshots`: live ones, ascending. `older`: what may hold versions older than all that are at
  // hand, sorted by `smallest`, disjoint; null: anything may. `tombstones`: null: there are none.
  // All outlive the rule.
  VersionRule(const InternalKeyComparator& comparator, std::span<const SequenceNumber> snapshots,
              const std::vector<KeyRange>* older, const RangeTombstones* tombstones = nullptr)
      : comparator_(comparator), snapshots_(snapshots), older_(older) {
    if (tombstones != nullptr && !tombstones->empty()) tombstones_.emplace(comparator, *tombstones);
  }

  // Whether this version stays. `same`: its user key is that of the call before.
  bool Keep(const Slice& internal_key, bool same) {
    const uint64_t trailer = ExtractTrailer(internal_key);
    const size_t stripe = StripeOf(TrailerSequence(trailer));
    if (same && stripe == stripe_) return false;
    stripe_ = stripe;
    if (tombstones_.has_value() && IsHidden(internal_key, stripe)) [[unlikely]] {
      ++hidden_;
      return false;
    }
    if (TrailerType(trailer) != ValueType::kDeletion) [[likely]]
      return true;
    return KeepsDeletion(ExtractUserKey(internal_key));
  }
  // Rule 2, for the version that Keep() was asked about last, if that became a deletion.
  bool KeepsDeletion(const Slice& user_key) {
    return stripe_ != 0 || older_ == nullptr || OlderMayHold(user_key);
  }
  // How many versions rule 3 has dropped.
  uint64_t hidden() const { return hidden_; }

 private:
  size_t StripeOf(SequenceNumber sequence) const {
    return snapshots_.empty() ? 0 : StripeAmongSnapshots(sequence);
  }
  size_t StripeAmongSnapshots(SequenceNumber sequence) const;
  bool OlderMayHold(const Slice& user_key);
  bool IsHidden(const Slice& internal_key, size_t stripe);

  const InternalKeyComparator comparator_;
  const std::span<const SequenceNumber> snapshots_;
  const std::vector<KeyRange>* const older_;
  std::optional<RangeTombstoneCursor> tombstones_;
  uint64_t hidden_ = 0;
  size_t stripe_ = 0;    // Of the last version.
  size_t at_older_ = 0;  // The first of *older_ that is not before the last key asked for.
};

// Leaves of `snapshots` (ascending) those by which the rule decides about versions with numbers in
// [least, most]: what sees some of them and not all, and of what sees none the last one.
void KeepDecidingSnapshots(SequenceNumber least, SequenceNumber most,
                           std::vector<SequenceNumber>* snapshots);

}  // namespace dlsm
