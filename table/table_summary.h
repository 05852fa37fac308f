// What a builder of any table format keeps of the records it was given.
#pragma once

#include <cstdint>
#include <string>

#include "table/edge_keys.h"
#include "table/internal_key.h"
#include "table/table_meta.h"

namespace dlsm {

class TableSummary {
 public:
  explicit TableSummary(const Comparator* comparator) : comparator_(comparator) {}

  // `same`: the user key is that of the record before (asserted).
  void Add(const Slice& internal_key, bool same);

  uint64_t entries() const { return entries_; }
  // Empty while there is none.
  Slice last_key() const { return last_key_; }
  const EdgeKeys& edges() const { return edges_; }
  // Sets all of *meta that comes from the keys.
  void Finish(TableMeta* meta) const;

 private:
  const InternalKeyComparator comparator_;
  uint64_t entries_ = 0;
  uint64_t deletions_ = 0;
  SequenceNumber sequence_min_ = kSequenceNumberMax;
  SequenceNumber sequence_max_ = 0;
  std::string first_key_;
  std::string last_key_;
  EdgeKeys edges_;
};

}  // namespace dlsm
