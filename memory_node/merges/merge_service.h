// Runs merges next to the data: worker threads of a memory node that take requests from a bounded
// queue, merge tables in place, and answer when they are done.
//
//   Submit: decode, check that the session holds the inputs, pin them, queue      (RPC thread)
//   worker: open the inputs, MergeTables(), hand the outputs to the session, answer
//
// There are more workers than merges that may run at a time: those that the schedule pauses keep
// theirs.
//
// A merge whose session has ended, or whose client has gone or has told that it does not wait for
// the answer, is cancelled, and its outputs are freed. It does not stay in the queue until a worker
// has time for it, which may be hours: its inputs may have been given back.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/database_table.h"
#include "memory_node/accounts/own_memory.h"
#include "memory_node/merges/peer_nodes.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "table/merge_messages.h"
#include "table/merge_scheduler.h"
#include "util/rpc/channel/rpc.h"

namespace dlsm {

// Thread-safe.
class MergeService {
 public:
  // What the pointers refer to outlives this. `schedule.running_max` may be 0: then every merge is
  // refused.
  MergeService(const MergeSchedulerOptions& schedule, DatabaseTable* databases, OwnMemory* memory,
               PeerNodes* peers);
  // Cancels what runs and waits; what is queued is answered with Aborted.
  ~MergeService();

  // Calls `done` once, now or later. Busy when the queue is full.
  void Submit(const RpcPeer& peer, const Slice& request, RpcDone done);
  // Answers those that wait in the queue and were cancelled, with Aborted. To be called every now
  // and then.
  void DropCancelled() LOCKS_EXCLUDED(mutex_);

  void Describe(NodeStatisticsReply* statistics) const LOCKS_EXCLUDED(mutex_);
  MergeLoad Load() const LOCKS_EXCLUDED(mutex_);

  // Of the merges of all databases, those under way included.
  Status SetSchedule(const SetMergeScheduleRequest& request, SetMergeScheduleReply* reply);

  // Share of the processors that is idle: what Load() and the answers to merges say of it.
  void SetCpuIdle(std::optional<double> share) LOCKS_EXCLUDED(mutex_);

 private:
  void Stop() LOCKS_EXCLUDED(mutex_);

  struct Job {
    MergeRequest request;
    std::unique_ptr<MergeHold> hold;
    RpcDone done;

    // See merge_sizes.h.
    uint64_t table_bytes = 0;
    uint64_t input_bytes = 0;
    // Of its request, its tables' indexes and filters, and what tells of its outputs.
    uint64_t beside_bytes = 0;
  };
  struct Totals {
    uint64_t merges = 0;
    uint64_t bytes_read = 0;
    uint64_t bytes_written = 0;
    uint64_t micros = 0;
  };

  // All of a job but its `done`.
  Status Prepare(const RpcPeer& peer, const Slice& request, Job* job);
  // Takes *job if it returns OK.
  Status Enqueue(std::unique_ptr<Job>* job) LOCKS_EXCLUDED(mutex_);
  // Before a merge under way keeps so many bytes more beside the memory node's memory. NotSupported
  // if they would be more than one may have, Busy if more than all may.
  Status TakeBeside(uint64_t bytes, Job* job) LOCKS_EXCLUDED(mutex_);
  void WorkLoop() LOCKS_EXCLUDED(mutex_);
  // Null once it is time to stop.
  std::unique_ptr<Job> NextJob() LOCKS_EXCLUDED(mutex_);
  void Run(std::unique_ptr<Job> job) noexcept LOCKS_EXCLUDED(mutex_);
  // A peer that it failed for is connected to anew by the next one.
  Status MergeAndForget(Job* job, MergeReply* reply) LOCKS_EXCLUDED(mutex_);
  Status Merge(Job* job, PeerNodes::Ways* ways, MergeReply* reply) LOCKS_EXCLUDED(mutex_);

  const uint64_t running_max_;
  const uint64_t beside_bytes_max_;
  DatabaseTable* const databases_;
  OwnMemory* const memory_;
  PeerNodes* const peers_;
  MergeScheduler scheduler_;

  mutable port::Mutex mutex_;  // Protects what follows; not held while merging or answering.
  port::CondVar queued_{mutex_};
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::deque<std::unique_ptr<Job>> queue_ GUARDED_BY(mutex_);
  uint64_t queued_bytes_ GUARDED_BY(mutex_) = 0;  // Of input.
  uint64_t beside_bytes_ GUARDED_BY(mutex_) = 0;  // Of what waits and runs.
  std::optional<double> cpu_idle_ GUARDED_BY(mutex_);
  uint64_t running_ GUARDED_BY(mutex_) = 0;
  Totals totals_ GUARDED_BY(mutex_);

  std::vector<port::Thread> workers_;  // Last: they use all of the above.
};

}  // namespace dlsm
