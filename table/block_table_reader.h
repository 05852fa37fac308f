// Reads block-based tables. A point lookup fetches one block, or none where the cache has it.
#pragma once

#include <memory>
#include <optional>

#include "table/block_table_index.h"
#include "table/cached_blocks.h"
#include "table/read_ahead.h"
#include "table/table_filter.h"
#include "table/table_reader.h"

namespace dlsm {

class BlockTableReader final : public TableReader, private DataCuts {
 public:
  static Status Open(const TableOptions& options, const TableMeta& meta, const Slice& resident,
                     std::shared_ptr<const void> owner, const CachedBlocks& blocks,
                     std::unique_ptr<TableReader>* reader);

  bool Find(const LookupKey& key, bool filtered, TableProbe* probe) const override;
  Status Decode(const LookupKey& key, const TableProbe& probe, const Slice& fetched,
                const TableReadOptions& options, LookupResult* result) const override;
  std::unique_ptr<TableIterator> NewIterator(const TableReadOptions& options,
                                             QueuePairs* queue_pairs) const override;
  OffsetBounds BoundOffset(const Slice& internal_key) const override;
  Slice bloom_filter() const override { return filter_.bloom(); }
  size_t resident_bytes() const override;

 private:
  BlockTableReader(const TableOptions& options, const TableMeta& meta,
                   std::shared_ptr<const void> owner, const CachedBlocks& blocks)
      : TableReader(meta),
        comparator_(options.comparator),
        owner_(std::move(owner)),
        blocks_(blocks),
        index_(comparator_) {}

  uint64_t CutAfter(uint64_t begin, uint64_t bytes) const override;
  uint64_t CutBefore(uint64_t end, uint64_t bytes) const override;
  Part Within(const ReadBounds& bounds) const override { return PartWithin(*this, bounds); }
  Status LookUpIn(const Slice& payload, const LookupKey& key, LookupResult* result) const;

  const InternalKeyComparator comparator_;
  const std::shared_ptr<const void> owner_;
  const CachedBlocks blocks_;
  BlockTableIndex index_;
  TableFilter filter_;
};

}  // namespace dlsm
