// Which data tokens are good. A data token belongs to a client, not to one of its control
// connections: while the client has a control connection, or had one a moment ago, its data
// connections stay.
//
// A token is drawn here, and good until it is forgotten: because its client has been gone for the
// grace period, or because what the client may reach has been given to others. It is never good
// again after that. A client that shows it all the same is given another one, with which it can
// open databases again; its old data connections, and any that it makes with the old token, stay
// closed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "dLSM/status.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/rpc/auth/access_list.h"
#include "util/standstill_watch.h"

namespace dlsm {

// Thread-safe.
class TokenTable {
 public:
  using Clock = port::Clock;
  using Allowed = std::function<void(const std::string& token, const ClientRights& owner)>;
  using Abandoned = std::function<void(const std::string& token)>;

  // `allowed` is called before a new token is given out, `abandoned` when the client of one has
  // gone for good; where that throws std::bad_alloc, it is called again. They are called one at a
  // time, and must not call back. Either may be empty.
  TokenTable(std::chrono::nanoseconds grace, Allowed allowed, Abandoned abandoned)
      : grace_(grace), allowed_(std::move(allowed)), abandoned_(std::move(abandoned)) {}

  // A control connection begins whose client shows `shown`; it may be empty. *token is that if it
  // is good, and else a new one. It is good for the `owner` that it was given to only; so one that
  // has been revoked, and has come back, gets another.
  Status Acquire(const std::string& shown, const ClientRights& owner, std::string* token)
      LOCKS_EXCLUDED(mutex_);
  // The token was good in the process before this one, whose client may come back with it: until
  // `expected_until`, and then for the grace period.
  void Restore(const std::string& token, const ClientRights& owner,
               Clock::time_point expected_until) LOCKS_EXCLUDED(mutex_);
  // It ends. Does nothing if the token has been forgotten meanwhile.
  void Release(const std::string& token, Clock::time_point now) LOCKS_EXCLUDED(mutex_);
  // Forgets what has been without a control connection for the grace period, time for which the
  // memory node stood still not counted. To be called several times a second.
  void Expire(Clock::time_point now) LOCKS_EXCLUDED(mutex_);
  // `abandoned` is not called.
  void Forget(const std::string& token) LOCKS_EXCLUDED(mutex_);

 private:
  struct Holder {
    ClientRights owner;
    int connections = 0;
    Clock::time_point released_at{};  // If there are none.
  };

  const std::chrono::nanoseconds grace_;
  const Allowed allowed_;
  const Abandoned abandoned_;

  port::Mutex mutex_;  // Protects what follows. Held while a callback runs, to keep their order.
  std::map<std::string, Holder> holders_ GUARDED_BY(mutex_);
  StandstillWatch standstills_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
