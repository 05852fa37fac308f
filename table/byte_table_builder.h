// Builds byte-addressable tables: records back to back, then index, then filter.
#pragma once

#include <string>

#include "table/byte_table_index.h"
#include "table/table_builder.h"
#include "table/table_filter.h"
#include "table/table_summary.h"

namespace dlsm {

class ByteTableBuilder final : public TableBuilder {
 public:
  ByteTableBuilder(const TableOptions& options, TableSink* sink);

  Status Add(const Slice& internal_key, const Slice& value, bool same) override;
  Status AddEncoded(const Slice& encoded, const Slice& internal_key, const Slice& value,
                    bool same) override;
  uint64_t ImageBytesBound() const override;
  uint64_t RecordBytesBound(size_t internal_key_bytes, size_t value_bytes) const override;
  uint64_t entries() const override { return summary_.entries(); }
  EdgeKeys edges() const override { return summary_.edges(); }
  Status Finish(TableMeta* meta, std::string* resident) override;

 private:
  Status CheckSize(uint64_t record_bytes) const;
  void Enter(const Slice& internal_key, bool same, uint64_t offset, uint64_t record_bytes);

  TableSink* const sink_;
  TableSummary summary_;
  ByteTableIndexBuilder index_;
  TableFilterBuilder filter_;
  uint64_t last_hash_ = 0;  // Of the last record's user key.
};

}  // namespace dlsm
