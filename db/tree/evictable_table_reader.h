// A table whose index and filter need not be on the compute node: they are fetched when it is first
// read, and stay. They are dropped by putting another such reader, of the same table, in its place:
// so whoever reads just now reads on.
#pragma once

#include <atomic>
#include <memory>

#include "db/tree/memory_budget.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "table/cached_blocks.h"
#include "table/table_reader.h"

namespace dlsm {

class Statistics;

// Where index and filter of a table that exists are fetched. Thread-safe.
class TableReaderSource {
 public:
  virtual ~TableReaderSource() = default;
  virtual const InternalKeyComparator& comparator() const = 0;
  // `blocks` are the table's in the cache. Of the options, purpose and limits are for this.
  virtual Status OpenReader(const TableMeta& meta, const CachedBlocks& blocks,
                            const TableReadOptions& options,
                            std::unique_ptr<TableReader>* reader) const = 0;
};

class EvictableTableReader final : public TableReader {
 public:
  // `loaded` reads the table of `meta`; null: it is fetched when it is needed, from `source`, which
  // outlives all reads. `blocks` are the table's in the cache, whichever reader put them there.
  EvictableTableReader(const TableMeta& meta, std::unique_ptr<TableReader> loaded,
                       const CachedBlocks& blocks, const TableReaderSource* source,
                       std::shared_ptr<MemoryBudget> budget, Statistics* statistics);
  ~EvictableTableReader() override;

  // Find() may wait for the network. Where index and filter cannot be fetched, it says that there
  // may be something, leaves an empty span and the error in probe->cached, and Decode() returns
  // that error.
  Status MakeReady(const TableReadOptions& options) const override;
  void Approach(const LookupKey& key, TableProbe* probe) const override;
  void ApproachFurther(const LookupKey& key, TableProbe* probe) const override;
  bool Find(const LookupKey& key, bool filtered, TableProbe* probe) const override;
  Status Decode(const LookupKey& key, const TableProbe& probe, const Slice& fetched,
                const TableReadOptions& options, LookupResult* result) const override;
  std::unique_ptr<TableIterator> NewIterator(const TableReadOptions& options,
                                             QueuePairs* queue_pairs) const override;
  // Fetches nothing: for a key within the table it may not know any better than that.
  OffsetBounds BoundOffset(const Slice& internal_key) const override;
  // Fetches what it needs. Where that fails, it goes by BoundOffset().
  uint64_t ApproximateBytes(const Slice& start, const Slice& limit) const override;
  // None where it would have to be fetched: then Find() asks it.
  Slice bloom_filter() const override;
  size_t resident_bytes() const override;

  const CachedBlocks& blocks() const { return blocks_; }
  bool loaded() const { return Loaded() != nullptr; }
  // Whether the table has been read since the last call.
  bool TakeUse() const { return used_.exchange(false, std::memory_order_relaxed); }
  void NoteLeaving() const override;

 private:
  class LateIterator;

  const TableReader* Loaded() const { return reader_.load(std::memory_order_acquire); }
  // Fetches what is not there. A reader that waits while another's attempt fails has its error: so
  // many readers wait for one time-out and not for one each.
  Status Load(const TableReadOptions& options, const TableReader** reader) const
      LOCKS_EXCLUDED(mutex_);
  // The same, but an attempt that fails fails for a limited read alone.
  Status LoadWithinLimits(const TableReadOptions& options) const LOCKS_EXCLUDED(mutex_);
  Status LoadLocked(const TableReadOptions& options) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountLeaving(const TableReader& reader) const;
  void NoteUse() const {
    // Only if it changes: readers share it.
    if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_relaxed);
  }

  const CachedBlocks blocks_;
  const TableReaderSource* const source_;
  const std::shared_ptr<MemoryBudget> budget_;
  Statistics* const statistics_;
  mutable std::atomic<bool> used_{false};
  mutable std::atomic<bool> leaving_{false};
  mutable std::atomic<bool> counted_leaving_{false};         // By the budget.
  mutable std::atomic<const TableReader*> reader_{nullptr};  // What loaded_ owns.
  mutable port::Mutex mutex_;
  mutable std::unique_ptr<TableReader> loaded_ GUARDED_BY(mutex_);
  mutable Status failure_ GUARDED_BY(mutex_);  // Of the last attempt, which ended then.
  mutable port::Clock::time_point failed_at_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
