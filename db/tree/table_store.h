// Makes tables of this database: opens what a meta describes, and writes new ones. What flushes and
// merges need to know of the database, in one place.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "db/nodes/placed_memory.h"
#include "db/tree/evictable_table_reader.h"
#include "db/tree/memory_budget.h"
#include "db/tree/table.h"
#include "table/merge_tables.h"
#include "table/node_queue_pairs.h"
#include "table/remote_sink.h"
#include "table/table_builder.h"

namespace dlsm {

class Cache;
class Statistics;
class ValueCache;

// Thread-safe.
class TableStore final : public TableReaderSource {
 public:
  struct Config {
    TableOptions table;
    InternalKeyComparator comparator{BytewiseComparator()};
    Cache* block_cache = nullptr;
    std::shared_ptr<ValueCache> value_cache;  // Null: none. Of byte-addressable tables.
    std::chrono::nanoseconds timeout{};
    // Null: index and filter of each table stay. Else tables beyond it are opened without, and all
    // can be replaced by Unloaded() ones.
    std::shared_ptr<MemoryBudget> budget;
    // No merge makes larger tables: each is to fit several times into the room that a memory node
    // keeps for merges, so that a table can be merged when there is no other room. Flushes may make
    // them twice as large.
    uint64_t table_bytes_limit = UINT64_MAX;
  };
  // All outlive the store and its tables.
  TableStore(const Config& config, NodeQueuePairs* queue_pairs,
             std::shared_ptr<PlacedMemory> memory, Statistics* statistics)
      : config_(config),
        queue_pairs_(queue_pairs),
        memory_(std::move(memory)),
        statistics_(statistics) {}

  Status OpenReader(const TableMeta& meta, const CachedBlocks& blocks,
                    const TableReadOptions& options,
                    std::unique_ptr<TableReader>* reader) const override;

  // Opens a table that exists: fetches its index and filter, unless the budget has no room.
  Status Open(const TableMeta& meta, Purpose purpose, TableRef* table) const;

  // The same for several, with few doorbells; sets *tables, in the same order, if all of them open.
  Status OpenAll(const std::vector<TableMeta>& metas, Purpose purpose,
                 std::vector<TableRef>* tables) const;

  // Opens a table whose index and filter are at hand.
  Status OpenWith(const TableMeta& meta, const Slice& resident, TableRef* table) const;

  // With a budget only. The reader of one of this store's tables, and the same table without index
  // and filter, to take its place.
  static const EvictableTableReader& EvictableReaderOf(const Table& table) {
    return static_cast<const EvictableTableReader&>(table.reader());
  }
  TableRef Unloaded(const Table& table) const;
  MemoryBudget* budget() const { return config_.budget.get(); }

  const TableOptions& table_options() const { return config_.table; }
  const InternalKeyComparator& comparator() const override { return config_.comparator; }
  std::chrono::nanoseconds timeout() const { return config_.timeout; }
  uint64_t table_bytes_limit() const { return config_.table_bytes_limit; }
  NodeQueuePairs* queue_pairs() const { return queue_pairs_; }
  PlacedMemory* memory() const { return memory_.get(); }
  Statistics* statistics() const { return statistics_; }

 private:
  Status OpenEach(const std::vector<TableMeta>& metas, Purpose purpose,
                  std::vector<TableRef>* tables) const;
  // IOError, both, where the process has no memory for index and filter.
  Status Fetch(const TableMeta& meta, const TableReadOptions& options, std::string* resident) const;
  Status MakeReader(const TableMeta& meta, const Slice& resident, const CachedBlocks& blocks,
                    std::unique_ptr<TableReader>* reader) const;
  TableRef NewTable(std::unique_ptr<TableReader> reader) const;
  std::unique_ptr<TableReader> Evictable(const TableMeta& meta, std::unique_ptr<TableReader> loaded,
                                         const CachedBlocks& blocks) const;
  Status OpenBatch(QueuePair* queue_pair, const TableMeta* first, const TableMeta* last,
                   Purpose purpose, std::vector<TableRef>* tables) const;

  const Config config_;
  NodeQueuePairs* const queue_pairs_;
  const std::shared_ptr<PlacedMemory> memory_;
  Statistics* const statistics_;
};

// Writes tables one after the other into remote memory that the compute node allocates: the output
// of flushes and of merges on the compute node. Tables that are scattered are fragments: each group
// of as many as that makes goes to nodes that are chosen together, and while one fragment is on its
// way the next ones are built. What is not taken with Release() is freed.
//
// The code that builds tables may lack memory for them, and std::bad_alloc leaves it then. No such
// exception comes from the calls here (see util/out_of_memory.h).
class RemoteTableWriter final : public MergeOutput {
 public:
  // `number` names tables; `store` outlives this.
  RemoteTableWriter(const TableStore* store, Purpose purpose, PlacedMemory::WhenFull when_full,
                    std::function<uint64_t()> number)
      : store_(store),
        purpose_(purpose),
        when_full_(when_full),
        number_(std::move(number)),
        writes_(store->queue_pairs(), store->timeout()) {}
  ~RemoteTableWriter() override;

  Status NewTable(uint64_t bytes, std::unique_ptr<TableSink>* sink) override;
  Status TableDone(TableMeta meta, const Slice& resident) override;

  // Waits until all tables are in place, which come in key order. On an error they are freed later.
  Status Release(std::vector<TableRef>* tables);
  uint64_t bytes_written() const { return bytes_written_; }

 private:
  void DropUnfinished();
  Status AwaitUnfinished();
  void AwaitWrites();
  Status KeepTable(TableMeta meta, const Slice& resident);
  // Nodes in the order in which they are to be tried for the next table.
  std::vector<size_t> NextOrder();

  const TableStore* const store_;
  const Purpose purpose_;
  const PlacedMemory::WhenFull when_full_;
  const std::function<uint64_t()> number_;
  RemoteSpan unfinished_;      // Of the table that is being written; no bytes: none.
  std::vector<size_t> order_;  // Of the present group of fragments.
  size_t fragment_ = 0;        // Of the group, the next one.
  UnfinishedWrites writes_;
  std::vector<TableRef> tables_;
  uint64_t bytes_written_ = 0;
};

}  // namespace dlsm
