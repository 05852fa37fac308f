// A shard: the LSM-tree of one key range, a database of its own at its memory node.
//
// Opened in two steps, for all shards of a handle together start from the last sequence number of
// any of them:
//
//   Load()    session, manifest, tables
//   Start()   tree and background; the manifest is put for the first time
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/cache.h"
#include "dLSM/filter_policy.h"
#include "dLSM/options.h"
#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/background.h"
#include "db/fence.h"
#include "db/manifest.h"
#include "db/memory_node_link.h"
#include "db/memory_node_session.h"
#include "db/memtable_budget.h"
#include "db/memtable_epochs.h"
#include "db/point_reader.h"
#include "db/remote_memory.h"
#include "db/snapshot.h"
#include "db/stall_gate.h"
#include "db/table_store.h"
#include "db/tree.h"
#include "db/work_signal.h"
#include "table/merge_scheduler.h"
#include "table/node_queue_pairs.h"

namespace dlsm {

// What the shards of a handle share. All outlives them.
struct ShardContext {
  const Options* options;
  InternalKeyComparator comparator;
  const FilterPolicy* filter_policy;  // Null: none.
  Cache* block_cache;                 // Null: none.
  Statistics* statistics;
  SnapshotList* snapshots;
  MergeScheduler* scheduler;
  MemtableBudget* budget;
  WorkSignal* signal;
  Fence* fence;
  const std::atomic<uint64_t>* unnamed_from;  // See RemoteMemory.
};

class Shard {
 public:
  // `at_node`: how many shards of the handle are at this memory node. `link` outlives the shard.
  Shard(const ShardContext& context, size_t number, size_t at_node, MemoryNodeLink* link,
        std::unique_ptr<MemoryNodeSession> session);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // `shards`: the map of the database.
  Status Load(const ShardMap& shards);
  SequenceNumber last_sequence() const { return manifest_.last_sequence; }
  Status Start(MemtableEpochs* epochs);

  // Puts the manifest for the last time and ends the session. The threads have stopped. What was
  // not flushed is lost, which is then the error of who has tried to.
  Status Close(bool put_manifest);

  Tree& tree() { return *tree_; }
  StallGate& gate() { return gate_; }
  const PointReader& reader() const { return *reader_; }
  Background& background() { return *background_; }
  MemoryNodeLink& link() { return *link_; }
  // To all memory nodes that hold its tables.
  NodeQueuePairs& queue_pairs() { return queue_pairs_; }
  MemoryNodeSession& session() { return *session_; }
  RemoteMemory& memory() { return memory_; }
  bool started() const { return background_ != nullptr; }
  size_t number() const { return number_; }
  // Of its ownership.
  uint32_t epoch() const { return session_->epoch(); }

  // Says in an error which shard it is of and where that is, if there are several.
  Status Named(const Status& status) const;

 private:
  TableStore::Config TableStoreConfig() const;
  RemoteMemory::Config RemoteMemoryConfig() const;
  Background::Config BackgroundConfig() const;
  Status DecodeManifest(const ShardMap& shards);

  const ShardContext context_;
  const size_t number_;
  const size_t at_node_;
  MemoryNodeLink* const link_;
  bool divided_ = false;  // There are others.
  bool closed_ = false;

  // In the order in which they depend on each other.
  const std::unique_ptr<MemoryNodeSession> session_;
  RemoteMemory memory_;
  NodeQueuePairs queue_pairs_;
  TableStore tables_;
  StallGate gate_;
  Manifest manifest_;          // As it was loaded.
  std::vector<Level> levels_;  // Until Start().
  std::optional<Tree> tree_;
  std::optional<PointReader> reader_;
  std::unique_ptr<Background> background_;
};

}  // namespace dlsm
