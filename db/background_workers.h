// The threads that do the background work of all shards of a handle.
//
//   flush threads   max_background_flushes
//   merge threads   max_background_compactions: flushes never wait behind merges
//   house threads   one for each memory node, so that a memory node that does not answer does not
//                   keep the others from hearing of their sessions
//
// A flush or merge thread goes from shard to shard, beginning behind the one that got a thread of
// its kind last, and does one piece of work at the first that has any. Shards whose work fails
// share all threads of a kind but one: where a memory node takes its time to fail, the other
// shards' work goes on. What fails for want of memory has failed like that: a piece of work throws
// nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "db/background.h"
#include "db/memtable_budget.h"
#include "db/work_signal.h"
#include "port/mutex.h"
#include "port/thread.h"

namespace dlsm {

// Thread-safe.
class BackgroundWorkers {
 public:
  struct Config {
    int flush_threads = 2;
    int merge_threads = 2;
  };
  // The shards that have a session at one memory node, each with the number it has there.
  struct House {
    struct Member {
      Background* shard;
      size_t node;
    };
    MergeLoadMonitor* merge_load;
    std::vector<Member> shards;
  };
  // Starts the threads; std::system_error, and none runs, if there are not enough, std::bad_alloc
  // if there is no memory. All outlive this. `shards` are in the budget's order.
  BackgroundWorkers(const Config& config, std::vector<Background*> shards,
                    std::vector<House> houses, const MemtableBudget* budget, WorkSignal* signal);
  ~BackgroundWorkers();

  // A writer has found that a look at the shard's active memtable is due (Tree::LookIsDue()), or
  // had no memory to come so far. Without memory nothing happens: what was written is there all the
  // same, and the next writer finds the same.
  void LookAtMemtable(size_t shard) noexcept;

  // In the end, in this order; idempotent. The first is for callers that do the rest themselves
  // (caller_work.h): flush and merge threads have ended, and the house is kept on.
  void EndThreads() LOCKS_EXCLUDED(mutex_);
  // All shards' work stops, which may have to wait for memory nodes; their sessions are kept
  // meanwhile, and heartbeats end merges there.
  void StopWork() LOCKS_EXCLUDED(mutex_);
  // Nobody keeps the house any more: its sessions are to be closed before their leases end. The
  // others are kept, for this too may have to wait for a memory node.
  void StopHouse(size_t house) LOCKS_EXCLUDED(mutex_);

 private:
  void LookAtMemtables(size_t shard);
  void Start() LOCKS_EXCLUDED(mutex_);
  void Stop() LOCKS_EXCLUDED(mutex_);

  struct HouseThread {
    port::Thread thread;
    bool stopped = false;
  };
  using Piece = bool (Background::*)(Background::Clock::time_point*);
  // One kind of work.
  struct Kind {
    Piece work;
    Piece while_idle;  // When no shard has any of that. Null: nothing.
    bool (Background::*fails)() const;
    int threads;
    std::atomic<size_t> next{0};  // The shard to begin with.
    std::atomic<int> failing{0};  // Threads at shards whose work fails.
  };

  void Work(Kind* kind);
  bool WorkOnce(Kind* kind, Background::Clock::time_point* due);
  bool WorkAtAny(Kind* kind, Piece piece, Background::Clock::time_point* due);
  bool WorkAt(Kind* kind, Piece piece, Background* shard, Background::Clock::time_point* due);
  void KeepHouse(size_t number) LOCKS_EXCLUDED(mutex_);
  bool HouseStopped(size_t number) LOCKS_EXCLUDED(mutex_);
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  const std::vector<Background*> shards_;
  const std::vector<House> houses_;
  const MemtableBudget* const budget_;
  WorkSignal* const signal_;
  Kind flushes_;
  Kind merges_;
  std::atomic<bool> stopping_{false};

  port::Mutex mutex_;
  port::CondVar house_stopped_{mutex_};
  std::vector<port::Thread> work_threads_ GUARDED_BY(mutex_);
  std::vector<HouseThread> house_threads_ GUARDED_BY(mutex_);  // As houses_, from the start.
};

}  // namespace dlsm
