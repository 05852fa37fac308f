// Sessions that have ended, and whose clients may still reach memory one-sided.
//
//   1. What the session held is fenced (AccountChange), and the revoker is told of its data tokens.
//   2. The revoker confirms that the access is gone. As long as it fails, it tries again, and the
//      bytes are in quarantine.
//   3. Where clients map the region, nothing can be taken from them: a client that was fenced also
//      has to let go. It has when it closes the database, or when its connection has been gone for
//      the grace period, and it has not called over another one.
//   4. Then the fence ends, and the bytes may be given to others.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/access_revoker.h"
#include "memory_node/accounts/accounts.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// Thread-safe. Its lock is taken before those of Accounts and of the AccessRevoker.
class Revocations {
 public:
  using Clock = port::Clock;

  struct EndedSession {
    DatabasePointer database;
    SessionId session{};
    std::string client;
    uint64_t connection = 0;
    bool connected = true;            // Its connection is there.
    Clock::time_point ends_at;        // Otherwise: its client has let go then.
    bool blocks = true;               // The database is not opened meanwhile.
    bool let_go = true;               // The client need not let go, or has.
    std::vector<std::string> tokens;  // To be revoked, if there are any.
  };
  // Why a database is not opened yet.
  struct Blocked {
    std::string client;
    Status failure;  // Of the last attempt to take its access away.
  };

  // Both outlive this. `revoker` is null where no session has tokens to be revoked.
  Revocations(AccessRevoker* revoker, Accounts* accounts)
      : revoker_(revoker), accounts_(accounts) {}

  // A revocation that has not begun: what is to be fenced has its number. It has all the memory
  // that its beginning takes, so nothing is fenced that no revocation knows.
  class Prepared;
  Prepared Prepare(EndedSession ended) LOCKS_EXCLUDED(mutex_);
  // The session has ended, and what it held is fenced with this number. Takes *done over, if it is
  // to be called later: when the first attempt to take the access away has ended.
  void Begin(Prepared prepared, std::function<void()>* done) noexcept LOCKS_EXCLUDED(mutex_);

  // A fence of before this process, whose client cannot be asked: it has let go at `gone_at`.
  // `blocks`: the database is not opened meanwhile.
  void Restore(uint64_t number, DatabasePointer database, bool blocks, Clock::time_point gone_at)
      LOCKS_EXCLUDED(mutex_);

  // The client of that session has let go of what it had.
  void LetGo(SessionId session) LOCKS_EXCLUDED(mutex_);
  // The peer, who may own the database, calls with that session all the same: a connection that it
  // had before says nothing of it.
  void NoteAlive(const RpcPeer& peer, SessionId session) LOCKS_EXCLUDED(mutex_);
  // A client that lives makes another connection and goes on, until it is told.
  void Disconnected(uint64_t connection, Clock::time_point gone_at) LOCKS_EXCLUDED(mutex_);
  // Nobody could be heard for so long.
  void MoveOn(std::chrono::nanoseconds by) LOCKS_EXCLUDED(mutex_);
  // Clients that are gone by now have let go. EndThoseOver() ends what that was the last reason of.
  void NoteGone(Clock::time_point now) LOCKS_EXCLUDED(mutex_);
  // Those that nothing is left to wait for. Begins others for which there was no memory.
  void EndThoseOver() LOCKS_EXCLUDED(mutex_);

  // Whether the token of this connection is being taken away, or has been.
  bool IsCutOff(uint64_t connection) const LOCKS_EXCLUDED(mutex_);
  // The first that keeps the database from being opened, if one does.
  std::optional<Blocked> BlockOn(const DatabaseIdentity& database) const LOCKS_EXCLUDED(mutex_);
  // Whether the access of a client that had this database is still being taken away.
  bool Pending(const DatabaseIdentity& database) const LOCKS_EXCLUDED(mutex_);
  bool empty() const LOCKS_EXCLUDED(mutex_);
  // Fenced bytes of clients whose access could not be taken away so far.
  uint64_t quarantined_bytes() const LOCKS_EXCLUDED(mutex_);

 private:
  struct Revocation {
    EndedSession ended;
    // Tokens of which the revoker has not been told.
    std::vector<std::string> untold;
    bool cut_off = false;  // Confirmed, as far as access can be taken away.
    bool let_go = true;    // By the client, where access cannot be taken away.
    // Then it has let go, unless it is heard of before: its connection is gone.
    Clock::time_point gone_at = Clock::time_point::max();
    Status failure;              // Of the last attempt.
    std::function<void()> done;  // Empty once it has been called.
  };
  using Map = std::map<uint64_t, Revocation>;
  using Connections = std::set<uint64_t>;

  // Tells the revoker; without memory for that, EndThoseOver() does.
  void RevokeLocked(Map::iterator revocation) noexcept EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called by the revoker.
  void Revoked(uint64_t number, const Status& status) LOCKS_EXCLUDED(mutex_);
  // Unless there is something left to wait for.
  void EndLocked(Map::iterator revocation) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndThoseOverLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  AccessRevoker* const revoker_;
  Accounts* const accounts_;

  mutable port::Mutex mutex_;  // Protects what follows.
  Map revocations_ GUARDED_BY(mutex_);
  uint64_t next_ GUARDED_BY(mutex_) = 0;
  // Connections whose token has been taken away, for as long as they last.
  Connections cut_off_ GUARDED_BY(mutex_);
};

class Revocations::Prepared {
 public:
  uint64_t number() const { return revocation_.key(); }

 private:
  friend class Revocations;
  Map::node_type revocation_;
  Connections::node_type connection_;
};

}  // namespace dlsm
