// Carries out one merge that a policy picked: on the memory node, by one call for each part, or on
// the compute node. Both run the same MergeTables. (dLSM section "Near-data compaction")
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/merge/merge_numbers.h"
#include "db/merge/merge_policy.h"
#include "db/nodes/merge_load_monitor.h"
#include "db/tree/table_store.h"
#include "table/merge_messages.h"
#include "table/merge_scheduler.h"
#include "util/fabric/remote_address.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

struct MergeJobConfig {
  CompactionPlace place = CompactionPlace::kMemoryNode;
  uint64_t table_bytes_max = 0;
  size_t parts_max = 1;                            // Merged side by side, by key range.
  std::shared_ptr<const CompactionFilter> filter;  // May be null.
};

// A memory node that may hold inputs and outputs, numbered as in PlacedMemory.
struct MergeNode {
  SessionId session{};
  RpcClient* rpc = nullptr;
  MergeLoadMonitor* load = nullptr;
  MergePeer as_peer;  // How the others reach it.
  // Of the session's merges; copies of this share them.
  std::shared_ptr<MergeNumbers> numbers = std::make_shared<MergeNumbers>();
};

struct MergeOutcome {
  std::vector<TableRef> tables;  // Ascending by key.
  MergeStatistics statistics;
  uint64_t calls = 0;  // To the memory node.
  bool remote = false;
};

// What all merges of a shard run with. All that it refers to outlives them.
struct MergeContext {
  const MergeJobConfig& config;
  const TableStore& store;
  // Each one's `load` says on which side a part runs that would be merged there.
  const std::vector<MergeNode>& nodes;
  const std::function<uint64_t()>& new_table_number;
  const std::atomic<bool>& cancelled;
  MergeScheduler* scheduler;  // Of merges on the compute node.
  // All parts run in the calling thread, one after the other.
  bool in_this_thread = false;
};

// Cuts the merge into parts by key range and runs them side by side, the first one in the calling
// thread, each of the others in one of its own, unless the context says otherwise. `snapshots`
// ascend. `tombstones` are the version's, read before the snapshots were listed; null: there are
// none. Tables of which they hide everything are not read.
//
// It ends with Aborted when `cancelled` becomes true; a part that runs at a memory node ends when
// that has been told that its number is given up (MergeNumbers::GiveUp()). On an error nothing is
// left behind, but for what a memory node has made whose answer was lost or of no use: that goes
// once it has been told so, with the node's MergeNumbers.
Status RunMerge(const MergeContext& context, const MergePick& pick,
                const RangeTombstones* tombstones, const std::vector<SequenceNumber>& snapshots,
                MergeOutcome* outcome);

}  // namespace dlsm
