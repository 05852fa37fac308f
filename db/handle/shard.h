// A shard: the LSM-tree of one key range, a database of its own at its home, which is a memory
// node; and, where its tables are placed on others too, one of another name at each of them.
//
// Opened in two steps, for all shards of a handle together start from the last sequence number of
// any of them:
//
//   Load()    manifest, tables
//   Start()   tree and background; the manifest is put for the first time
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/background/background.h"
#include "db/background/caller_work.h"
#include "db/background/fence.h"
#include "db/background/memtable_budget.h"
#include "db/background/read_merge_pacer.h"
#include "db/background/stall_gate.h"
#include "db/background/work_signal.h"
#include "db/log/log_layout.h"
#include "db/log/replayed_entries.h"
#include "db/log/write_log.h"
#include "db/memtable/memtable.h"
#include "db/memtable/memtable_epochs.h"
#include "db/memtable/snapshot.h"
#include "db/nodes/memory_node_link.h"
#include "db/nodes/memory_node_session.h"
#include "db/nodes/placed_manifest_store.h"
#include "db/nodes/placed_memory.h"
#include "db/read/point_reader.h"
#include "db/tree/manifest.h"
#include "db/tree/memory_budget.h"
#include "db/tree/table_defaults.h"
#include "db/tree/table_store.h"
#include "db/tree/tree.h"
#include "table/merge_scheduler.h"
#include "table/node_queue_pairs.h"

namespace dlsm {

class ValueCache;

// What the shards of a handle share. All outlives them.
struct ShardContext {
  const Options* options;
  bool read_only;  // Nothing of the database may change.
  InternalKeyComparator comparator;
  const TableObjects* objects;
  std::shared_ptr<ValueCache> value_cache;      // Null: none.
  std::shared_ptr<MemoryBudget> memory_budget;  // Null: none.
  Statistics* statistics;
  SnapshotList* snapshots;
  MergeScheduler* scheduler;
  MemtableBudget* budget;
  WorkSignal* signal;
  ReadMergePacer* read_merges;
  Fence* fence;
  CallerWork* callers;
  const EventListeners* listeners;
  int numa_node;                              // Of memtables.
  const std::atomic<uint64_t>* unnamed_from;  // See RemoteMemory.
  std::function<bool()> writers_wait;         // Of any shard.
};

// A memory node that a shard's tables may be on.
struct ShardNode {
  MemoryNodeLink* link;  // Outlives the shard.
  std::unique_ptr<MemoryNodeSession> session;
  size_t shards = 1;  // How many of the handle have a session there.
};

class Shard {
 public:
  // The home first; the others' numbers are distinct.
  Shard(const ShardContext& context, size_t number, std::vector<ShardNode> nodes);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // `shards`: the map of the database.
  Status Load(const ShardMap& shards);
  SequenceNumber last_sequence() const { return manifest_.last_sequence; }
  // Of the manifest as it was loaded.
  const std::optional<LogRecord>& log_record() const { return manifest_.log; }
  SequenceNumber flushed_below() const { return manifest_.flushed_below; }
  // What the log of the owner before has of this shard besides its tables: tables are made of it
  // before the first manifest is put, which says that all numbers below `flushed_below` are in
  // them. Before Start(), as the next two.
  void TakeReplayed(std::unique_ptr<ReplayedEntries> entries, SequenceNumber flushed_below);
  // Writes go into this log, which outlives the shard.
  void SetLog(WriteLog* log) { log_ = log; }
  // Of the first shard: the first manifest has this record in the place of that of the log before,
  // of which the memory is given back then.
  void RecordLogAtStart(LogRecord record) { own_log_ = std::move(record); }
  // Memory at the home for a log. The first of it may take what is kept for merges, and waits for
  // as long as an open may last: a database can be opened though its memory node is full.
  Status AllocateLog(uint64_t bytes, RemoteSpan* span);
  Status AllocateFirstOfLog(uint64_t bytes, RemoteSpan* span);
  Status Start(MemtableEpochs* epochs);
  // Each memory node that is not the home has a list of the shard's tables from now on, however
  // short. Before there is any work; and when the first shard has its manifest, without which no
  // database records that there are lists.
  Status BeginLists();

  // Once more, as it is, while there is no work: before any begins, or in the end, when everything
  // has been flushed. The house is kept, for this may have to wait for any of the memory nodes.
  Status PutManifest();
  // Ends the session at this memory node. Work has stopped, and nobody keeps the house there. What
  // was not flushed is lost, which is then the error of who has tried to.
  Status CloseAt(const MemoryNodeLink& link);
  // In its place, without a call: the session is left to its connection's end, or its lease's.
  void LeaveAt(const MemoryNodeLink& link);

  Tree& tree() { return *tree_; }
  const TableStore& tables() const { return tables_; }
  StallGate& gate() { return gate_; }
  const PointReader& reader() const { return *reader_; }
  Background& background() { return *background_; }
  // Of the home.
  MemoryNodeLink& link() { return *nodes_[0].link; }
  size_t nodes() const { return nodes_.size(); }
  // The number that this memory node has here; nodes() if the shard has no session there.
  size_t NodeAt(const MemoryNodeLink& link) const;
  PlacedMemory& memory() { return *memory_; }
  // To all memory nodes that hold its tables.
  NodeQueuePairs& queue_pairs() { return queue_pairs_; }
  // At the home.
  MemoryNodeSession& session() { return *nodes_[0].session; }
  bool started() const { return background_ != nullptr; }
  size_t number() const { return number_; }
  // Of its ownership.
  uint32_t epoch() const { return nodes_[0].session->epoch(); }

  // Says in an error which shard it is of and where that is, if there are several.
  Status Named(const Status& status) const;

 private:
  TableStore::Config StoreConfig() const;
  uint64_t TableBytesLimit() const;
  static uint64_t CapacityAt(const ShardNode& node);
  PlacedMemory::Config PlacementConfig() const;
  std::vector<PlacedMemory::Node> Accounts();
  RemoteMemory::Config AccountConfig(const ShardNode& node, size_t number);
  // `shards_at_node`: of the handle.
  uint64_t ReserveWanted(size_t shards_at_node) const;
  Background::Config BackgroundConfig() const;
  std::vector<MergeNode> MergeNodes() const;
  Status TakeLists();
  std::string FilterName() const;  // Empty: no filter.
  // Fill manifest_ and levels_: for a new shard, or from the manifest at the home, whose tables
  // they open.
  Status BeginManifest(const ShardMap& shards);
  Status DecodeManifest();
  Status CheckTableNodes() const;
  void ReclaimUnused();
  Status FlushReplayed();
  // The same, of a handle that only reads: they go into the memtable.
  Status KeepReplayed();
  Status InsistOnRoom(const std::function<Status()>& allocate) const;
  Status AllocateAtHome(uint64_t bytes, PlacedMemory::WhenFull when_full, RemoteSpan* span);

  const ShardContext context_;
  const size_t number_;
  size_t shards_ = 1;     // Of the database.
  bool divided_ = false;  // There are others.

  // In the order in which they depend on each other.
  const std::vector<ShardNode> nodes_;
  std::vector<bool> closed_;  // By node.
  PlacedManifestStore manifests_;
  const std::shared_ptr<PlacedMemory> memory_;  // Shared with its tables.
  NodeQueuePairs queue_pairs_;
  TableStore tables_;
  StallGate gate_;
  Manifest manifest_;                          // As it was loaded.
  std::vector<Level> levels_;                  // Until Start().
  std::unique_ptr<ReplayedEntries> replayed_;  // Likewise.
  std::optional<LogRecord> own_log_;           // Likewise.
  WriteLog* log_ = nullptr;
  std::optional<Tree> tree_;
  std::optional<PointReader> reader_;
  std::unique_ptr<Background> background_;
};

}  // namespace dlsm
