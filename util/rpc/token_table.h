// Which data tokens are good. A data token belongs to a client, not to one of its control
// connections: while the client has a control connection, or had one a moment ago, its data
// connections stay. A client that comes back after the grace period is told its old token again and
// makes its data connections anew.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "port/mutex.h"

namespace dlsm {

// Thread-safe.
class TokenTable {
 public:
  using Clock = std::chrono::steady_clock;
  using Callback = std::function<void(const std::string& token)>;

  // The callbacks are called one at a time, in the order in which tokens become good and bad; they
  // must not call back. Either may be empty.
  TokenTable(std::chrono::nanoseconds grace, Callback allowed, Callback revoked)
      : grace_(grace), allowed_(std::move(allowed)), revoked_(std::move(revoked)) {}

  // A control connection with this token begins; ends.
  void Acquire(const std::string& token) LOCKS_EXCLUDED(mutex_);
  void Release(const std::string& token, Clock::time_point now) LOCKS_EXCLUDED(mutex_);
  // Revokes what has been without a control connection for the grace period.
  void Expire(Clock::time_point now) LOCKS_EXCLUDED(mutex_);

 private:
  struct Holder {
    int connections = 0;
    Clock::time_point released_at{};  // If there are none.
  };

  const std::chrono::nanoseconds grace_;
  const Callback allowed_;
  const Callback revoked_;

  port::Mutex mutex_;  // Protects what follows. Held while a callback runs, to keep their order.
  std::map<std::string, Holder> holders_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
