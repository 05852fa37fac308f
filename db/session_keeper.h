// Keeps the sessions of a handle that is being opened: to open the next one may take longer than
// the leases of those that are open. The house threads take over (db/background_workers.h).
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "db/memory_node_session.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/rpc/messages.h"
#include "util/rpc/rpc.h"

namespace dlsm {

// Thread-safe. Its thread may fail to start: std::system_error.
class SessionKeeper {
 public:
  SessionKeeper();
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

  void Run() LOCKS_EXCLUDED(mutex_);
  // Nothing: this is being destroyed.
  std::optional<Kept> AwaitDue() LOCKS_EXCLUDED(mutex_);
  void SendHeartbeat(const Kept& kept) LOCKS_EXCLUDED(mutex_);

  port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  std::vector<Kept> kept_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  port::Thread thread_;  // The last one: it uses the others.
};

}  // namespace dlsm
