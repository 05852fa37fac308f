// The background work of all shards of a handle: who does it, and when.
//
//   flushes   max_background_flushes of them at once
//   merges    max_background_compactions: flushes never wait behind merges
//   houses    one for each memory node, so that a memory node that does not answer does not keep
//             the others from hearing of their sessions
//
// Each is a task of the process's threads (util/thread_pool.h), which all handles share that are on
// the same NUMA node, or on none. Of one memory node only so many houses are kept at once, of all
// these handles together.
//
// A run of flushes or merges goes from shard to shard, beginning behind the one that got a run of
// its kind last, and does one piece of work at the first that has any, until none has. Shards whose
// work fails share all runs of a kind but one: where a memory node takes its time to fail, the
// other shards' work goes on.
//
// A house is kept ten times a second, and its memory node hears of the sessions once a second. When
// nothing is left to do and nobody has used the handle for a while (Background::Rests()), the house
// sleeps: it is kept twice a minute, and in between its sessions are renewed together with those of
// all other handles of the process that sleep (sleeping_sessions.h). An operation wakes it
// (handle_state.h), and so does the end of its connection, for the memory node keeps sessions
// without one for a short time only. Times are multiples of kHouseInterval, so that the houses of
// many handles are kept together.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "db/background/background.h"
#include "db/background/handle_state.h"
#include "db/background/memtable_budget.h"
#include "db/background/work_signal.h"
#include "db/nodes/sleeping_sessions.h"
#include "port/clock.h"
#include "util/rpc/channel/rpc.h"
#include "util/thread_pool.h"

namespace dlsm {

// Thread-safe.
class BackgroundWorkers {
 public:
  using Clock = port::Clock;

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
    std::string node;  // The memory node's address.
    RpcClient* rpc;
    std::shared_ptr<SleepingSessions> sleeping;  // Of this memory node.
    MergeLoadMonitor* merge_load;
    std::vector<Member> shards;
  };
  // All outlive this.
  struct Parts {
    ThreadPool* pool;
    std::vector<Background*> shards;  // In the budget's order.
    std::vector<House> houses;
    const MemtableBudget* budget;
    WorkSignal* signal;
    HandleState* state;
  };
  // Begins.
  BackgroundWorkers(const Config& config, Parts parts);
  ~BackgroundWorkers();
  BackgroundWorkers(const BackgroundWorkers&) = delete;
  BackgroundWorkers& operator=(const BackgroundWorkers&) = delete;

  // A writer has found that a look at the shard's active memtable is due (Tree::LookIsDue()), or
  // had no memory to come so far.
  void LookAtMemtable(size_t shard);
  // Somebody uses the handle, which slept.
  void WakeUp() noexcept;

  // In the end, in this order; idempotent. The first is for callers that do the rest themselves
  // (caller_work.h): flush and merge threads have ended, and the house is kept on.
  void EndThreads();
  // All shards' work stops, which may have to wait for memory nodes; their sessions are kept
  // meanwhile, and heartbeats end merges there.
  void StopWork();
  // Nobody keeps the house any more: its sessions are to be closed before their leases end. The
  // others are kept, for this too may have to wait for a memory node.
  void StopHouse(size_t house);

 private:
  using Piece = bool (Background::*)(Clock::time_point*);
  // One kind of work.
  struct Kind {
    Piece work;
    Piece while_idle;  // When no shard has any of that. Null: nothing.
    bool (Background::*fails)() const;
    int threads;
    std::atomic<size_t> next{0};  // The shard to begin with.
    std::atomic<int> failing{0};  // Threads at shards whose work fails.
  };
  // A house, and what its task knows of it.
  struct KeptHouse {
    explicit KeptHouse(House of) : house(std::move(of)) {}

    const House house;
    std::atomic<bool> used{true};        // Somebody has woken the handle since the last run.
    Clock::time_point used_until{};      // It does not sleep before.
    bool sleeps_long = false;            // A connection that ends meanwhile is told of.
    bool with_others = false;            // Its sessions are renewed with others'.
    std::atomic<bool> forgotten{false};  // Or were: it asks for itself, at once.
    SleepingSessions::Sleeper sleeper;
    Clock::time_point heartbeat_at{};  // The last one. The first merges need a report: soon.
    bool begun = false;
    std::atomic<bool> room_is_due{false};  // WakeHouses() has asked for it.
    std::unique_ptr<ThreadPool::Task> task;
  };

  void WakeHouses() noexcept;
  static void WakeUp(KeptHouse* kept) noexcept;

  Clock::time_point Work(Kind* kind);
  bool WorkOnce(Kind* kind, Clock::time_point* due);
  bool WorkAtAny(Kind* kind, Piece piece, Clock::time_point* due);
  bool WorkAt(Kind* kind, Piece piece, Background* shard, Clock::time_point* due);

  // Return when to be called again.
  Clock::time_point KeepHouse(KeptHouse* kept);
  Clock::time_point SendHeartbeats(KeptHouse* kept, bool asleep);
  static std::chrono::milliseconds HeartbeatInterval(const KeptHouse& kept, bool asleep);
  bool FallAsleep(KeptHouse* kept);
  // Has its sessions renewed with others', or no more.
  void SleepWithOthers(KeptHouse* kept, bool sleep);
  static void NoteRenewed(KeptHouse* kept, std::span<const RenewedSession> sessions);

  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  const Parts parts_;
  Kind flushes_;
  Kind merges_;
  std::atomic<bool> stopping_{false};

  // They use all of the above.
  std::unique_ptr<ThreadPool::Task> flush_task_;
  std::unique_ptr<ThreadPool::Task> merge_task_;
  std::vector<std::unique_ptr<KeptHouse>> houses_;
};

}  // namespace dlsm
