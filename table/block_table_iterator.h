// Walks a block-based table: the index leads from block to block, a cursor through each. Blocks
// come from the cache where they are there, otherwise through the read-ahead's windows.
#pragma once

#include <memory>

#include "table/block.h"
#include "table/block_table_index.h"
#include "table/read_ahead.h"
#include "table/table_iterator.h"

namespace dlsm {

class CachedBlocks;

class BlockTableIterator final : public TableIterator {
 public:
  // `index`, `cached`, `cuts` and `queue_pairs` outlive the iterator.
  BlockTableIterator(const InternalKeyComparator& comparator, const BlockTableIndex& index,
                     const CachedBlocks& cached, const RemoteSpan& data, const DataCuts* cuts,
                     const TableReadOptions& options, QueuePairs* queue_pairs);

  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const Slice& target) override;
  void Next() override;
  void Prev() override;
  Status CheckPlace() override;

 private:
  enum class Direction { kForward, kBackward };

  bool OpenBlock(uint32_t block, Direction direction);
  Status FetchBlock(uint32_t block, Direction direction);
  bool IsBehind(uint32_t block);
  void ShowCursor();
  bool IsStillOurs();

  const BlockTableIndex& index_;
  const CachedBlocks& cached_;
  const TableReadOptions options_;
  ReadAhead window_;

  uint32_t block_ = 0;
  std::shared_ptr<const BlockPayload> payload_;  // What the cursor is in.
  BlockCursor cursor_;
  Entry record_;
};

}  // namespace dlsm
