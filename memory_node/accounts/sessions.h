// The sessions that clients have with databases of a memory node: how long each lasts, over which
// connection and data tokens its client calls, and which of its numbered requests were carried out.
//
// A session ends when its lease runs out, or when it has had no connection for the grace period.
// Its owner ends it then: see Over().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/accounts.h"
#include "memory_node/accounts/numbered_merges.h"
#include "memory_node/accounts/reader_leases.h"
#include "port/clock.h"
#include "util/fabric/remote_address.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

struct Session {
  DatabasePointer database;
  std::string client;
  std::vector<std::string> tokens;  // All those that its calls came with.
  // Those of them that were revoked, or are about to be, because another session has ended: another
  // process of the memory node must not take them for good.
  std::set<std::string> revoked;
  uint64_t connection = 0;
  bool connected = true;
  bool known = false;  // To its client, which has used it: the answer has arrived.
  port::Clock::time_point ends_at;
  std::map<uint64_t, RemoteSpan> grants;  // The last ones, by the numbers of their requests.
  uint64_t last_free = 0;                 // The number of the last request that was dealt with.
  NumberedMerges merges;
  // An owner's: the number that the owner before it has told at its close
  // (PublishedDatabase::unnamed_from), as long as this one has given nothing back and put no
  // manifest.
  uint64_t unnamed_before = PublishedDatabase::kUnknown;
};

// One thread at a time: the caller locks, because whether a session goes on is decided together
// with the ownership of its database.
class Sessions {
 public:
  using Clock = port::Clock;

  // Of a session; each call looks through them. A client comes with another one only when its
  // access has been taken away: with that of another of its sessions, if this one goes on.
  static constexpr size_t kTokensMax = 64;

  // *id is one that no session has, and that nobody hits by chance.
  Status DrawId(SessionId* id) const;
  Session* Add(SessionId id, const RpcPeer& peer, DatabasePointer database,
               Clock::time_point ends_at);
  // Takes up a stored one, which has no connection yet.
  Session* Restore(SessionId id, Session session, Clock::time_point ends_at);
  // Returns null if there is none (any more).
  Session* Find(SessionId id);
  const Session* Find(SessionId id) const;
  void Erase(SessionId id) { sessions_.erase(id); }

  // Ties the session to the peer's connection. IOError, and nothing is renewed, if the session has
  // been called over a later connection, or with too many data tokens.
  Status Renew(const RpcPeer& peer, Clock::time_point ends_at, Session* session);
  // The lease alone.
  void SetEnd(Clock::time_point ends_at, Session* session);
  // Sessions of this connection have none any more, and end by `grace_end`.
  void Disconnected(uint64_t connection, Clock::time_point grace_end);
  // Nobody could be heard for so long: all leases last so much longer.
  void MoveOn(std::chrono::nanoseconds by);
  // Those that are over, in the order of their numbers. The caller ends them.
  std::vector<SessionId> Over(Clock::time_point now);

  // The session's data tokens that no other session has; with `same_database`, no other session of
  // its database.
  std::vector<std::string> TokensOnlyOf(const Session& session, bool same_database) const;

  void NoteRevoked(const std::vector<std::string>& tokens);

  bool AnyDisconnected() const;
  size_t size() const { return sessions_.size(); }
  bool empty() const { return sessions_.empty(); }
  // By their numbers.
  const std::map<SessionId, Session>& all() const { return sessions_; }

 private:
  std::map<SessionId, Session> sessions_;
  // None of them ends before: each call looks for those that are over, of perhaps thousands.
  Clock::time_point first_end_ = Clock::time_point::max();
};

}  // namespace dlsm
