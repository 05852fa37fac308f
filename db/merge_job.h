// Carries out one merge that a policy picked: on the memory node, by one call for each part, or on
// the compute node. Both run the same MergeTables. (dLSM section "Near-data compaction")
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/merge_load_monitor.h"
#include "db/merge_numbers.h"
#include "db/merge_policy.h"
#include "db/table_store.h"
#include "table/merge_messages.h"
#include "table/merge_scheduler.h"
#include "util/fabric/remote_address.h"
#include "util/rpc/messages.h"
#include "util/rpc/rpc.h"

namespace dlsm {

struct MergeJobConfig {
  CompactionPlace place = CompactionPlace::kMemoryNode;
  uint64_t table_bytes_max = 0;
  size_t parts_max = 1;  // Merged side by side, by key range.
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

// `scheduler` says when merges on the compute node go on, each of `nodes` on which side the parts
// run that it is chosen for. Runs in the calling thread, and in one more for each further part.
// `snapshots` ascend. The merge ends with Aborted when *cancelled becomes true, and where it runs
// at a memory node when that has been told that its number is given up (MergeNumbers::GiveUp()). On
// an error nothing is left behind but what a memory node has made if its answer is lost, or not
// one: that goes once the node's MergeNumbers have been told to it.
Status RunMerge(const MergePick& pick, const MergeJobConfig& config,
                const std::vector<SequenceNumber>& snapshots, const TableStore& store,
                const std::vector<MergeNode>& nodes,
                const std::function<uint64_t()>& new_table_number,
                const std::atomic<bool>& cancelled, MergeScheduler* scheduler,
                MergeOutcome* outcome);

}  // namespace dlsm
