// Reads byte-addressable tables. A point lookup fetches exactly one record.
#pragma once

#include <memory>

#include "table/byte_table_index.h"
#include "table/read_ahead.h"
#include "table/table_filter.h"
#include "table/table_reader.h"

namespace dlsm {

class ByteTableReader final : public TableReader, private DataCuts {
 public:
  static Status Open(const TableOptions& options, const TableMeta& meta, const Slice& resident,
                     std::shared_ptr<const void> owner, std::unique_ptr<TableReader>* reader);

  void Approach(const LookupKey& key, TableProbe* probe) const override;
  void ApproachFurther(const LookupKey& key, TableProbe* probe) const override;
  bool Find(const LookupKey& key, bool filtered, TableProbe* probe) const override;
  Status Decode(const LookupKey& key, const TableProbe& probe, const Slice& fetched,
                const TableReadOptions& options, LookupResult* result) const override;
  std::unique_ptr<TableIterator> NewIterator(const TableReadOptions& options,
                                             QueuePairs* queue_pairs) const override;
  OffsetBounds BoundOffset(const Slice& internal_key) const override;
  Slice bloom_filter() const override { return filter_.bloom(); }
  size_t resident_bytes() const override;

 private:
  ByteTableReader(const TableOptions& options, const TableMeta& meta,
                  std::shared_ptr<const void> owner)
      : TableReader(meta),
        comparator_(options.comparator),
        owner_(std::move(owner)),
        index_(comparator_) {}

  uint64_t CutAfter(uint64_t begin, uint64_t bytes) const override;
  uint64_t CutBefore(uint64_t end, uint64_t bytes) const override;
  Part Within(const ReadBounds& bounds) const override { return PartWithin(*this, bounds); }

  const InternalKeyComparator comparator_;
  const std::shared_ptr<const void> owner_;
  ByteTableIndex index_;
  TableFilter filter_;
};

}  // namespace dlsm
