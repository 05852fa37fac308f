// Builds block-based tables: blocks back to back, then index, then filter.
#pragma once

#include <string>

#include "table/block.h"
#include "table/block_table_index.h"
#include "table/table_builder.h"
#include "table/table_filter.h"
#include "table/table_summary.h"

namespace dlsm {

class BlockTableBuilder final : public TableBuilder {
 public:
  BlockTableBuilder(const TableOptions& options, TableSink* sink);

  Status Add(const Slice& internal_key, const Slice& value, bool same) override;
  Status AddEncoded(const Slice& encoded, const Slice& internal_key, const Slice& value,
                    bool same) override;
  uint64_t ImageBytesBound() const override;
  uint64_t RecordBytesBound(size_t internal_key_bytes, size_t value_bytes) const override;
  uint64_t entries() const override { return summary_.entries(); }
  EdgeKeys edges() const override { return summary_.edges(); }
  Status Finish(TableMeta* meta, std::string* resident) override;

 private:
  Status FlushBlock();
  void IndexPendingBlock(const Slice& separator);

  const InternalKeyComparator comparator_;
  const size_t block_bytes_;
  const CompressionType compression_;
  TableSink* const sink_;
  TableSummary summary_;
  BlockBuilder block_;
  BlockTableIndexBuilder index_;
  TableFilterBuilder filter_;
  // The last block written has no separator yet: that needs the key after it.
  bool separator_pending_ = false;
};

}  // namespace dlsm
