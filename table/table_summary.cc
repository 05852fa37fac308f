#include "table/table_summary.h"

#include <algorithm>
#include <cassert>

namespace dlsm {

void TableSummary::Add(const Slice& internal_key, bool same) {
  assert(IsValidInternalKey(internal_key));
  assert(entries_ == 0 || comparator_.Compare(last_key_, internal_key) < 0);
  assert(same == (entries_ != 0 && comparator_.CompareUserKeys(ExtractUserKey(last_key_),
                                                               ExtractUserKey(internal_key)) == 0));
  if (entries_ != 0 && !same) edges_.Note(ExtractUserKey(last_key_), ExtractUserKey(internal_key));
  const uint64_t trailer = ExtractTrailer(internal_key);
  sequence_min_ = std::min(sequence_min_, TrailerSequence(trailer));
  sequence_max_ = std::max(sequence_max_, TrailerSequence(trailer));
  if (TrailerType(trailer) == ValueType::kDeletion) ++deletions_;
  if (entries_ == 0) first_key_.assign(internal_key.data(), internal_key.size());
  last_key_.assign(internal_key.data(), internal_key.size());
  ++entries_;
}

void TableSummary::Finish(TableMeta* meta) const {
  meta->entries = entries_;
  meta->deletions = deletions_;
  meta->sequence_min = std::min(sequence_min_, sequence_max_);
  meta->sequence_max = sequence_max_;
  meta->smallest = first_key_;
  meta->largest = last_key_;
}

}  // namespace dlsm
