// Keeps the sessions of handles that nobody uses. All those that a process has at one memory node
// are renewed by one call, over the connection of any of them: a thousand idle databases then cost
// a call now and then, not hundreds a second.
//
// That says no more than that this process lives. Each session still belongs to its own connection:
// if that breaks, the memory node renews it no more, and its handle is told. So is the handle of a
// session that has ended or was taken over, and it asks for itself then.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"
#include "util/thread_pool.h"

namespace dlsm {

// Thread-safe.
class SleepingSessions {
 public:
  using Clock = port::Clock;

  // A handle's sessions at this memory node.
  struct Sleeper {
    RpcClient* rpc = nullptr;
    std::vector<SessionId> sessions;
    // They were renewed, and this is what the memory node tells of each. Brief; calls nothing here.
    std::function<void(std::span<const RenewedSession>)> renewed;
    // One of them was not, or nobody knows: the sleeper is to ask for itself, at once. Likewise.
    std::function<void()> forgotten;

   private:
    friend class SleepingSessions;
    uint64_t number = 0;  // Of those that were added, this one.
  };

  // Of handles with such options at this memory node, those that reach it alike. All of them renew
  // their sessions at this interval.
  static std::shared_ptr<SleepingSessions> Of(const Options& options, const std::string& node,
                                              std::chrono::milliseconds interval);

  SleepingSessions(std::shared_ptr<ThreadPool> pool, std::chrono::milliseconds interval);
  SleepingSessions(const SleepingSessions&) = delete;
  SleepingSessions& operator=(const SleepingSessions&) = delete;

  // Renews the sleeper's sessions, which were just renewed, from now on. Returns false if the
  // memory node does not know this call; then nothing is renewed here.
  bool Add(Sleeper* sleeper) LOCKS_EXCLUDED(mutex_);
  // They are not any more, and nothing of the sleeper is used.
  void Remove(Sleeper* sleeper) LOCKS_EXCLUDED(mutex_);

 private:
  // A sleeper whose sessions are in a request.
  struct Asked {
    uint64_t number;  // The sleeper may be gone by now.
    size_t sessions;
  };

  Clock::time_point Run() LOCKS_EXCLUDED(mutex_);
  void RenewAll() LOCKS_EXCLUDED(mutex_);
  // Over the connection of one that is there, in turn. An error if none is.
  Status Call(const RenewSessionsRequest& request, RenewSessionsReply* reply)
      LOCKS_EXCLUDED(mutex_);
  void Tell(std::span<const Asked> asked, const Status& status, const RenewSessionsReply& reply)
      LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<ThreadPool> pool_;
  const std::chrono::milliseconds interval_;

  port::Mutex mutex_;  // Not held during a call.
  port::CondVar called_{mutex_};
  uint64_t last_number_ GUARDED_BY(mutex_) = 0;
  // By their numbers, which come again in the simulation when a seed is repeated.
  std::map<uint64_t, Sleeper*> sleepers_ GUARDED_BY(mutex_);
  Clock::time_point next_ GUARDED_BY(mutex_){};  // When they are to be renewed.
  uint64_t last_caller_ GUARDED_BY(mutex_) = 0;  // Over whose connection the last call went.
  bool calling_ GUARDED_BY(mutex_) = false;      // It is under way.
  bool unknown_ GUARDED_BY(mutex_) = false;      // To the memory node: this call.

  ThreadPool::Task task_;  // Last: it uses all of the above.
};

}  // namespace dlsm
