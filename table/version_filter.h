// Which versions of a key a merge may drop.
//
// Live snapshots cut the sequence numbers into stripes:
//
//   sequence     0 ........ s0 | s0+1 ...... s1 | s1+1 .......... now
//   stripe            0        |       1        |         2
//
// Whoever reads at s_i, or at any snapshot yet to come (they are later than all), sees of each
// stripe only the newest version, if any. So, going from the newest version of a key to the oldest:
//
//   1. A version is dropped if a newer one of the same key lies in its stripe: it is shadowed.
//   2. A deletion is dropped if it lies in stripe 0, so that everyone sees it, and no older table
//      can hold the key, so that there is nothing left for it to hide: the versions of its own
//      merge that it hides are in stripe 0 too and go by rule 1.
#pragma once

#include <cstdint>
#include <vector>

#include "table/internal_key.h"
#include "table/merge_tables.h"

namespace dlsm {

// Asked about every record of a merge, in internal key order.
class VersionFilter {
 public:
  // `options` outlives this.
  explicit VersionFilter(const MergeOptions& options)
      : options_(options), comparator_(options.table.comparator) {}

  // `same`: the user key is that of the call before.
  bool Keep(const Slice& internal_key, bool same) {
    const uint64_t trailer = ExtractTrailer(internal_key);
    const size_t stripe = StripeOf(TrailerSequence(trailer));
    if (same && stripe == stripe_) return false;
    stripe_ = stripe;
    if (TrailerType(trailer) != ValueType::kDeletion || stripe != 0) [[likely]]
      return true;
    return OlderMayHold(ExtractUserKey(internal_key));
  }

 private:
  size_t StripeOf(SequenceNumber sequence) const;
  bool OlderMayHold(const Slice& user_key);

  const MergeOptions& options_;
  const InternalKeyComparator comparator_;
  size_t stripe_ = 0;  // Of the last version.
  size_t older_ = 0;   // The first of options_.older that is not before the last key asked for.
};

}  // namespace dlsm
