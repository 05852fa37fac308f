// A shard's memory on all memory nodes that its tables may be on: an account with each, and the
// choice among them.
//
// A node that has no room, or whose grants fail because it does not answer, is passed over while
// another one can be had; one that did not answer is left out until a heartbeat is answered again.
// Reserves are used only where no node grants anything: then deletions can still take effect.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/nodes/remote_memory.h"
#include "db/nodes/table_placement.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/fabric/remote_address.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// Thread-safe. Nodes are numbered; the home is 0.
class PlacedMemory {
 public:
  struct Node {
    NodeId id{};
    RpcClient* rpc = nullptr;  // Outlives the memory.
    uint64_t capacity_bytes = 0;
    RemoteMemory::Config account;
  };
  // What there is beyond what memory nodes grant for data.
  enum class WhenFull : uint8_t {
    kBusy,          // Nothing.
    kReserve,       // The reserve: for flushes, so that deletions can take effect.
    kRoomForMerges  // What memory nodes keep for merges, which make room.
  };
  struct Config {
    TablePlacement placement = TablePlacement::kByShard;
    size_t power_of_d = 2;
    size_t scatter_width = 1;
    uint64_t seed = 1;
  };
  // At least one node; ids are distinct.
  PlacedMemory(const Config& config, const std::vector<Node>& nodes, Statistics* statistics);

  size_t nodes() const { return accounts_.size(); }
  // How many fragments what is written is cut into.
  size_t scatter_width() const { return width_; }
  // The number of a node; nodes() if it is none of these.
  size_t NumberOf(NodeId node) const;
  NodeId id(size_t node) const { return accounts_[node]->id; }

  // As TablePlacer::Order().
  std::vector<size_t> Order(size_t width) LOCKS_EXCLUDED(mutex_);

  // A merge under way, from before its place is chosen until it has ended. Meanwhile the choice of
  // places, for tables and other merges, counts its input as gone and its output as there. One
  // thread at a time.
  class MergeForecast {
   public:
    // `input_bytes_at`: by node. `memory` outlives the forecast.
    MergeForecast(PlacedMemory* memory, std::vector<uint64_t> input_bytes_at);
    ~MergeForecast();
    MergeForecast(const MergeForecast&) = delete;
    MergeForecast& operator=(const MergeForecast&) = delete;

    // The nodes where it had better run, best first, as in OrderForMerge(). It counts as running at
    // the first one, until RunsAt() says otherwise.
    std::vector<size_t> Order();
    // It runs at this node, which has its output in the end. nodes(): on the compute node, so that
    // nobody knows yet where its output goes.
    void RunsAt(size_t node);
    // It has ended at a memory node. What it has read and written tells what to expect of others.
    void Done(uint64_t bytes_read, uint64_t bytes_written);

   private:
    PlacedMemory* const memory_;
    const std::vector<uint64_t> input_bytes_at_;
    uint64_t input_bytes_ = 0;
    int64_t output_bytes_ = 0;  // As expected.
    size_t runs_at_;
  };

  // Into how many parts, on nodes of their own, a merge is to be cut so that its output finds room
  // and does not upset the balance: one unless its input takes more than half of what is free on
  // any single node, or than an eighth of what a node's tables take on average.
  size_t PartsToFit(uint64_t input_bytes) const;

  // A span of at least `bytes` on the first of `order` that has it; as in RemoteMemory.
  Status Allocate(uint64_t bytes, WhenFull when_full, const std::vector<size_t>& order,
                  RemoteSpan* span);
  // The first `bytes` of what Allocate() returned become a table's, the rest is kept for others.
  void Shrink(const RemoteSpan& allocated, uint64_t bytes);
  // All of what Allocate() returned goes back.
  void FreeAllocated(const RemoteSpan& allocated);
  // Queues a table's span to be given back.
  void Free(const RemoteSpan& span);
  // A table is there; it is gone.
  void NoteTable(const RemoteSpan& span);
  void NoteTableGone(const RemoteSpan& span);

  // Gives back what is queued for one node, or for all; then the first error.
  Status SendFrees(size_t node);
  Status SendFrees();
  uint64_t queued_free_bytes(size_t node) const {
    return accounts_[node]->memory.queued_free_bytes();
  }
  // As in RemoteMemory. The reserve is to have a part of what the node's tables have, too.
  bool RefillReserve(size_t node);
  // Of all nodes that tables may go to: each may be the only one that answers when it is needed.
  void GrowReserves(uint64_t bytes);
  // Has them cover memtables of so many bytes at once, which takes calls; if there is no room for
  // that, the memory nodes are full.
  void Cover(uint64_t memtable_bytes);
  // Memtables of how many bytes can be flushed into a reserve of one of them, whatever the others
  // do. UINT64_MAX: of any size, or none answers.
  RemoteMemory::Covered covered() const;
  // Whether no node that answers had room when its reserve was last to be filled.
  bool reserves_refused() const;
  // For a database that is not written to, and whose memtables have `memtable_bytes`.
  void Trim(size_t node, uint64_t memtable_bytes);
  // As RemoteMemory::full().
  bool full(size_t node) const { return accounts_[node]->memory.full(); }
  // Whether no node that tables may go to has room.
  bool full() const;
  Status full_reason() const;

  // To be asked before a heartbeat is sent: changes with each merge that begins there.
  uint64_t MergeMark(size_t node) const;
  // The heartbeat was answered, with this, or was not.
  void NoteReport(size_t node, const HeartbeatReply& report, uint64_t merge_mark);
  void NoteSilence(size_t node) { NoteAnswer(node, false); }
  bool answers(size_t node) const {
    return accounts_[node]->answers.load(std::memory_order_relaxed);
  }
  // Of the nodes that tables may go to, by their last reports; what has been written since is taken
  // off.
  uint64_t free_bytes() const;
  uint64_t free_bytes(size_t node) const;
  uint64_t capacity_bytes(size_t node) const { return accounts_[node]->capacity_bytes; }
  // Of tables that there are or that are being written.
  uint64_t used_bytes(size_t node) const {
    return accounts_[node]->used_bytes.load(std::memory_order_relaxed);
  }
  // Whether new tables may go there.
  bool placeable(size_t node) const { return node < placeable_; }

  // Gives back everything at that node that no table uses. The last call for that node.
  void ReleaseAll(size_t node) { accounts_[node]->memory.ReleaseAll(); }

 private:
  struct Account {
    Account(const Node& node, Statistics* statistics)
        : id(node.id),
          capacity_bytes(node.capacity_bytes),
          memory(node.account, node.rpc, statistics),
          available_bytes(node.capacity_bytes) {}

    const NodeId id;
    const uint64_t capacity_bytes;
    RemoteMemory memory;
    // Estimates for choices and people; they order nothing.
    std::atomic<uint64_t> used_bytes{0};    // By tables, unfinished ones included.
    std::atomic<uint64_t> available_bytes;  // To tables, those that there are included.
    std::atomic<uint64_t> merge_bytes_waiting{0};
    std::atomic<int64_t> coming_bytes{0};   // By merges; less than 0: going.
    std::atomic<uint64_t> merges_begun{0};  // There.
    std::atomic<uint64_t> merges_ended{0};
    // Only touched by who sends heartbeats there.
    port::Clock::time_point reported_at = port::Clock::now();
    std::atomic<bool> answers{true};
  };

  Account* AccountOf(const RemoteSpan& span) const;
  uint64_t ReserveForTables(size_t node) const;
  void NoteAnswer(size_t node, bool answers);
  std::vector<PlacementNode> Known() const;

  Statistics* const statistics_;
  std::vector<std::unique_ptr<Account>> accounts_;  // Constant after construction.
  size_t width_ = 1;
  size_t placeable_ = 1;

  port::Mutex mutex_;
  TablePlacer placer_ GUARDED_BY(mutex_);
  // Of the last merges, about: what they have left of their inputs.
  double left_by_merges_ GUARDED_BY(mutex_) = 1;
};

}  // namespace dlsm
