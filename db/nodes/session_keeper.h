// Keeps the sessions of a handle that is being opened: to open the next one may take longer than
// the leases of those that are open. The houses take over (db/background/background_workers.h).
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "db/nodes/memory_node_session.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"
#include "util/thread_pool.h"

namespace dlsm {

// Thread-safe.
class SessionKeeper {
 public:
  // `pool` outlives this.
  explicit SessionKeeper(ThreadPool* pool);
  // Waits for a heartbeat that is under way.
  ~SessionKeeper();
  SessionKeeper(const SessionKeeper&) = delete;
  SessionKeeper& operator=(const SessionKeeper&) = delete;

  // `rpc` outlives this; the session may end before it.
  void Add(const MemoryNodeSession& session, RpcClient* rpc) LOCKS_EXCLUDED(mutex_);

 private:
  using Clock = port::Clock;
  struct Kept {
    SessionId session;
    RpcClient* rpc;
    std::chrono::milliseconds interval;
    Clock::time_point next;
  };

  // Sends what is due; returns when the next one is.
  Clock::time_point Run() LOCKS_EXCLUDED(mutex_);
  // Nothing: none is due yet. *next: when one is.
  std::optional<Kept> TakeDue(Clock::time_point* next) LOCKS_EXCLUDED(mutex_);
  void SendHeartbeat(const Kept& kept) LOCKS_EXCLUDED(mutex_);

  port::Mutex mutex_;
  std::vector<Kept> kept_ GUARDED_BY(mutex_);
  ThreadPool::Task task_;  // The last one: it uses the others.
};

}  // namespace dlsm
