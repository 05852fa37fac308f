// How sessions go on and end: the part of DatabaseTable that is about leases, lost connections, and
// access that is taken away.
#include <fmt/core.h>

#include <atomic>
#include <cassert>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/call_rights.h"
#include "memory_node/accounts/database_table.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Status DatabaseTable::FindSessionLocked(const RpcPeer& peer, SessionId id, Session** session) {
  EndExpiredSessionsLocked();
  *session = sessions_.Find(id);
  if (*session == nullptr) {
    revocations_.NoteAlive(peer, id);
    return NoSessionLocked(id);
  }
  const DatabasePointer database = (*session)->database;
  // As if it were not there: its number alone gives no right.
  if (!CheckMayOwn(peer, database->name).ok()) return NoSessionLocked(id);
  if (!ownership_.IsOwner(id)) {
    return Status::InvalidArgument(
        fmt::format("this session has not taken ownership of database '{}' yet", database->name));
  }
  FenceLostOwnerLocked(*database);
  if (!ownership_.IsOwner(id)) {
    *session = nullptr;
    revocations_.NoteAlive(peer, id);
    return NoSessionLocked(id);
  }
  const size_t tokens = (*session)->tokens.size();
  const bool known = (*session)->known;
  const Status renewed = sessions_.Renew(peer, options_.clock() + options_.lease, *session);
  if ((*session)->tokens.size() != tokens || (*session)->known != known) NoteChange();
  return renewed;
}

Status DatabaseTable::NoSessionLocked(SessionId id) const {
  if (const std::string* const why = ownership_.WhyFenced(id); why != nullptr) {
    return Status::IOFenced(*why + "; this handle may write no more: close it");
  }
  return Status::IOError(
      fmt::format("this handle's session at memory node {} has ended (closed, or silent for more "
                  "than {:.1f} s); open the database again",
                  static_cast<uint32_t>(options_.node), Seconds(options_.lease)));
}

Status DatabaseTable::Heartbeat(const RpcPeer& peer, const HeartbeatRequest& request) {
  const port::MutexLock lock(mutex_);
  Session* session = nullptr;
  const Status found = FindSessionLocked(peer, request.session, &session);
  // The one call that tells an ended session from whatever else may fail.
  if (found.IsIOError() && !found.IsIOFenced() && sessions_.Find(request.session) == nullptr) {
    return Status::Aborted(found.message());
  }
  DLSM_RETURN_IF_ERROR(found);
  static_assert(HeartbeatRequest::kPublicationsUnknown == PublishedDatabase::kUnknown);
  DLSM_RETURN_IF_ERROR(accounts_.UnnamedFrom(*session->database, request.publications_from));
  SettleMergesLocked(request.session, request.answers, session);
  accounts_.FreeUnread();
  return Status::OK();
}

bool DatabaseTable::Renew(const RpcPeer& peer, SessionId id) {
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  Session* const session = sessions_.Find(id);
  if (session == nullptr) return false;
  const DatabasePointer database = session->database;
  if (!CheckMayOwn(peer, database->name).ok() || !ownership_.IsOwner(id)) return false;
  FenceLostOwnerLocked(*database);
  if (!ownership_.IsOwner(id) || !session->connected) return false;
  sessions_.SetEnd(options_.clock() + options_.lease, session);
  return true;
}

Status DatabaseTable::CheckOwned(const RpcPeer& peer, SessionId id) {
  const port::MutexLock lock(mutex_);
  Session* session = nullptr;
  return FindSessionLocked(peer, id, &session);
}

Status DatabaseTable::Close(const RpcPeer& peer, const CloseDatabaseRequest& request,
                            std::function<void()> done) {
  {
    const port::MutexLock lock(mutex_);
    Session* session = nullptr;
    const Status found = FindSessionLocked(peer, request.session, &session);
    const bool is_claim = found.IsInvalidArgument() && session != nullptr;
    if (!found.ok() && !is_claim) {
      revocations_.LetGo(request.session);
      return found;
    }
    Log().Info("database '{}' is closed", session->database->name);
    if (found.ok()) {
      DLSM_RETURN_IF_ERROR(accounts_.UnnamedFrom(*session->database, request.unnamed_from));
    }
    EndSessionLocked(request.session, End::kClosed, &done);
  }
  if (done) done();
  return Status::OK();
}

void DatabaseTable::Disconnected(const RpcPeer& peer) {
  const port::MutexLock lock(mutex_);
  // The grace period begins now, so nothing that was before makes it longer.
  AllowForStandstillLocked();
  const Clock::time_point grace_end = options_.clock() + options_.grace;
  sessions_.Disconnected(peer.connection, grace_end);
  revocations_.Disconnected(peer.connection, grace_end);
  // Nobody is left to take the answer, and with it the outputs.
  for (const auto& [id, merge] : merges_) {
    if (merge->connection == peer.connection) {
      merge->cancelled.store(true, std::memory_order_relaxed);
    }
  }
}

void DatabaseTable::EndExpiredSessions() {
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  // Those for which there was no memory.
  EndMergesOverLocked();
  revocations_.EndThoseOver();
}

// Longer leases harm nobody: clients reckon with no more than they were promised, and a client that
// waits for one to end waits longer. Of this process's own time, whatever clock leases are counted
// by.
void DatabaseTable::AllowForStandstillLocked() {
  const std::chrono::nanoseconds stood_still = standstills_.Look();
  if (stood_still == std::chrono::nanoseconds::zero()) return;
  if (!sessions_.empty() || readers_.count() > 0) {
    Log().Warn("memory node {} has stood still for {:.1f} s: all leases last so much longer",
               static_cast<uint32_t>(options_.node), Seconds(stood_still));
  }
  sessions_.MoveOn(stood_still);
  revocations_.MoveOn(stood_still);
  readers_.MoveOn(stood_still);
}

void DatabaseTable::EndExpiredSessionsLocked() {
  AllowForStandstillLocked();
  const Clock::time_point now = options_.clock();
  ownership_.ForgetFenced(now);
  for (const SessionId id : sessions_.Over(now)) {
    const Session& session = *sessions_.Find(id);
    Log().Warn("the session of {} with database '{}' has ended: {}", session.client,
               session.database->name,
               session.connected ? "its lease ran out" : "its connection is lost");
    std::function<void()> nobody_waits;
    EndSessionLocked(id, End::kExpired, &nobody_waits);
  }
  revocations_.NoteGone(now);
  readers_.EndExpired(now);
  accounts_.FreeUnread();
}

void DatabaseTable::EndSessionLocked(SessionId id, End how, std::function<void()>* done) {
  for (const auto& [number, merge] : merges_) {
    if (merge->session == id) merge->cancelled.store(true, std::memory_order_relaxed);
  }
  const Session& session = *sessions_.Find(id);
  const DatabasePointer database = session.database;
  const bool owner = ownership_.IsOwner(id);
  Revocations::EndedSession ended;
  ended.database = database;
  ended.session = id;
  ended.client = session.client;
  ended.connection = session.connection;
  ended.connected = session.connected;
  ended.ends_at = session.ends_at;
  ended.blocks = how != End::kFenced;
  ended.let_go = how != End::kFenced || !options_.clients_map_memory;
  ended.tokens = TokensToRevokeLocked(session, owner, how);
  // First, for it takes memory, and to have noted it in vain harms nobody.
  sessions_.NoteRevoked(ended.tokens);
  Revocations::Prepared prepared = revocations_.Prepare(std::move(ended));
  Accounts::SessionEnd end;
  end.number = prepared.number();
  end.owner = owner;
  end.fences_live = owner && how == End::kFenced;
  // An owner that closes has told what it published last: no publication names, from that one on,
  // what its manifest does not name then, whatever still keeps it. An owner that has told nothing,
  // or never put its word in place, has published nothing: what was told before it holds, if it has
  // given nothing back. Of one that has gone otherwise nobody knows.
  end.owner_gone = owner && how != End::kClosed;
  if (owner && (how == End::kClosed || ownership_.HasNotSwapped(id))) {
    end.unnamed_from = session.unnamed_before;
  }
  const Status fenced = accounts_.EndSession(*database, end);
  assert(fenced.ok());
  fenced.PermitUncheckedError();
  ownership_.End(id);
  sessions_.Erase(id);
  NoteChange();
  revocations_.Begin(std::move(prepared), done);
  if (!ownership_.IsWanted(*database) && accounts_.ManifestVersionOf(*database) == 0) {
    const Status dropped = accounts_.Drop(*database);
    assert(dropped.ok());
    dropped.PermitUncheckedError();
  }
}

std::vector<std::string> DatabaseTable::TokensToRevokeLocked(const Session& session, bool owner,
                                                             End how) const {
  if (options_.revoker == nullptr) return {};
  // A claim holds nothing; the client's swap has ended before it could close. A client reaches
  // nothing of a session that it does not know.
  if ((!owner && how == End::kClosed) || how == End::kUnknown) return {};
  if (how == End::kExpired) return session.tokens;
  // A client that takes over from itself keeps its access; one from which another takes over does
  // not, whatever else it has open.
  return sessions_.TokensOnlyOf(session, /*same_database=*/how == End::kFenced);
}

}  // namespace dlsm
