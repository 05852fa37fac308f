// How sessions go on and end: the part of DatabaseTable that is about leases, lost connections, and
// access that is taken away.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "memory_node/accounts/call_rights.h"
#include "memory_node/accounts/database_table.h"
#include "port/allocation_point.h"
#include "util/coding.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Of a session; each call looks through them. A client comes with another one only when its access
// has been taken away: with that of another of its sessions, if this one goes on.
constexpr size_t kTokensMax = 64;

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Status DatabaseTable::NewSessionIdLocked(SessionId* id) const {
  do {
    // Not a counter: nobody hits another's session by chance.
    std::string random;
    DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &random));
    *id = SessionId{DecodeFixed64(random.data())};
  } while (*id == SessionId{} || sessions_.contains(*id));
  return Status::OK();
}

Status DatabaseTable::FindSessionLocked(const RpcPeer& peer, SessionId id,
                                        SessionMap::iterator* session) {
  EndExpiredSessionsLocked();
  *session = sessions_.find(id);
  if (*session == sessions_.end()) {
    NoteAliveLocked(peer, id);
    return NoSessionLocked(id);
  }
  const std::shared_ptr<Database> database = (*session)->second.database;
  // As if it were not there: its number alone gives no right.
  if (!CheckMayOwn(peer, database->name).ok()) return NoSessionLocked(id);
  if (database->session != id) {
    return Status::InvalidArgument(
        fmt::format("this session has not taken ownership of database '{}' yet", database->name));
  }
  FenceLostOwnerLocked(*database);
  if (database->session != id) {
    NoteAliveLocked(peer, id);
    return NoSessionLocked(id);
  }
  return RenewLocked(peer, &(*session)->second);
}

Status DatabaseTable::NoSessionLocked(SessionId id) const {
  const auto fenced = fenced_.find(id);
  if (fenced != fenced_.end()) {
    return Status::IOFenced(fenced->second.why + "; this handle may write no more: close it");
  }
  return Status::IOError(
      fmt::format("this handle's session at memory node {} has ended (closed, or silent for more "
                  "than {:.1f} s); open the database again",
                  static_cast<uint32_t>(options_.node), Seconds(options_.lease)));
}

// A client makes another connection only when it has given up the one before. What still comes from
// that was sent before all that has come since: a manifest would name memory that has been given
// back, and granted again, by now.
Status DatabaseTable::RenewLocked(const RpcPeer& peer, Session* session) {
  if (peer.connection < session->connection) {
    return Status::IOError(
        "this call has come over a connection that its client has replaced by a later one");
  }
  const bool known = peer.data_token.empty() ||
                     std::find(session->tokens.begin(), session->tokens.end(), peer.data_token) !=
                         session->tokens.end();
  if (!known && session->tokens.size() >= kTokensMax) {
    return Status::IOError("this session has been called with too many data tokens",
                           "open the database again");
  }
  if (!known) session->tokens.push_back(peer.data_token);
  session->connection = peer.connection;
  session->connected = true;
  session->known = true;
  SetEndLocked(options_.clock() + options_.lease, session);
  return Status::OK();
}

Status DatabaseTable::Heartbeat(const RpcPeer& peer, const HeartbeatRequest& request) {
  const port::MutexLock lock(mutex_);
  SessionMap::iterator session;
  const Status found = FindSessionLocked(peer, request.session, &session);
  // The one call that tells an ended session from whatever else may fail.
  if (found.IsIOError() && !found.IsIOFenced() && !sessions_.contains(request.session)) {
    return Status::Aborted(found.message());
  }
  DLSM_RETURN_IF_ERROR(found);
  static_assert(HeartbeatRequest::kPublicationsUnknown == PublishedDatabase::kUnknown);
  readers_.UnnamedFrom(session->second.database->published, request.publications_from);
  SettleMergesLocked(session, request.answers);
  FreeUnreadLocked();
  return Status::OK();
}

bool DatabaseTable::Renew(const RpcPeer& peer, SessionId id) {
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) return false;
  const std::shared_ptr<Database> database = session->second.database;
  if (!CheckMayOwn(peer, database->name).ok() || database->session != id) return false;
  FenceLostOwnerLocked(*database);
  if (database->session != id || !session->second.connected) return false;
  SetEndLocked(options_.clock() + options_.lease, &session->second);
  return true;
}

Status DatabaseTable::Close(const RpcPeer& peer, const CloseDatabaseRequest& request,
                            std::function<void()> done) {
  {
    const port::MutexLock lock(mutex_);
    SessionMap::iterator session;
    const Status found = FindSessionLocked(peer, request.session, &session);
    const bool is_claim = found.IsInvalidArgument() && session != sessions_.end();
    if (!found.ok() && !is_claim) {
      LetGoLocked(request.session);
      return found;
    }
    Log().Info("database '{}' is closed", session->second.database->name);
    if (found.ok()) {
      readers_.UnnamedFrom(session->second.database->published, request.unnamed_from);
    }
    EndSessionLocked(session, End::kClosed, &done);
  }
  if (done) done();
  return Status::OK();
}

void DatabaseTable::Disconnected(const RpcPeer& peer) {
  const port::MutexLock lock(mutex_);
  // The grace period begins now, so nothing that was before makes it longer.
  AllowForStandstillLocked();
  const Clock::time_point grace_end = options_.clock() + options_.grace;
  for (auto& [id, session] : sessions_) {
    if (session.connection != peer.connection) continue;
    session.connected = false;
    SetEndLocked(std::min(session.ends_at, grace_end), &session);
  }
  // A client that lives makes another connection and goes on, until it is told.
  for (auto& [number, revocation] : revocations_) {
    if (revocation.connection == peer.connection) revocation.gone_at = grace_end;
  }
  cut_off_.erase(peer.connection);
  // Nobody is left to take the answer, and with it the outputs.
  for (const auto& [key, merge] : merges_) {
    if (merge->connection == peer.connection) {
      merge->cancelled.store(true, std::memory_order_relaxed);
    }
  }
}

void DatabaseTable::EndExpiredSessions() {
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  EndRevocationsLocked();  // Those for which there was no memory.
}

// Longer leases harm nobody: clients reckon with no more than they were promised, and who waits for
// one to end waits longer. Of this process's own time, whatever clock leases are counted by.
void DatabaseTable::AllowForStandstillLocked() {
  const std::chrono::nanoseconds stood_still = standstills_.Look();
  if (stood_still == std::chrono::nanoseconds::zero()) return;
  if (!sessions_.empty() || readers_.count() > 0) {
    Log().Warn("memory node {} has stood still for {:.1f} s: all leases last so much longer",
               static_cast<uint32_t>(options_.node), Seconds(stood_still));
  }
  for (auto& [id, session] : sessions_) session.ends_at += stood_still;
  for (auto& [number, revocation] : revocations_) {
    if (revocation.gone_at != Clock::time_point::max()) revocation.gone_at += stood_still;
  }
  readers_.MoveOn(stood_still);
}

void DatabaseTable::SetEndLocked(Clock::time_point ends_at, Session* session) {
  session->ends_at = ends_at;
  first_end_ = std::min(first_end_, ends_at);
}

void DatabaseTable::EndExpiredSessionsLocked() {
  AllowForStandstillLocked();
  const Clock::time_point now = options_.clock();
  std::erase_if(fenced_, [now](const auto& each) { return each.second.forget_at <= now; });
  if (now >= first_end_) EndThoseOverLocked(now);
  // Their ends follow in EndRevocationsLocked().
  for (auto& [number, revocation] : revocations_) {
    if (revocation.gone_at <= now) revocation.let_go = true;
  }
  readers_.EndExpired(now);
  FreeUnreadLocked();
}

void DatabaseTable::EndThoseOverLocked(Clock::time_point now) {
  first_end_ = Clock::time_point::max();
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    if (now < next->second.ends_at) {
      first_end_ = std::min(first_end_, next->second.ends_at);
      ++next;
      continue;
    }
    Log().Warn("the session of {} with database '{}' has ended: {}", next->second.client,
               next->second.database->name,
               next->second.connected ? "its lease ran out" : "its connection is lost");
    std::function<void()> nobody_waits;
    next = EndSessionLocked(next, End::kExpired, &nobody_waits);
  }
}

// Takes *done over if it is to be called later.
DatabaseTable::SessionMap::iterator DatabaseTable::EndSessionLocked(SessionMap::iterator session,
                                                                    End how,
                                                                    std::function<void()>* done) {
  const SessionId id = session->first;
  for (const auto& [key, merge] : merges_) {
    if (merge->session == id) merge->cancelled.store(true, std::memory_order_relaxed);
  }
  const std::shared_ptr<Database> database = session->second.database;
  Revocation revocation;
  const bool owner = database->session == id;
  std::vector<std::string> tokens = TokensToRevokeLocked(session->second, how);
  // A claim holds nothing; the client's swap has ended before it could close. Of what it does not
  // know it reaches nothing.
  if ((!owner && how == End::kClosed) || how == End::kUnknown) tokens.clear();
  if (owner) {
    revocation.fenced = std::exchange(database->held, ByteRanges());
    if (how == End::kFenced) revocation.fenced.Add(database->live);
    database->session = SessionId{};
    // Who closes has told what it published last: what its manifest does not name then, whatever
    // still keeps it, no publication names from that one on. Who has told nothing, or never put its
    // word in place, has published nothing: what was told before it holds, if it has given nothing
    // back. Of one that has gone otherwise nobody knows.
    if (how != End::kClosed) readers_.OwnerGone(database->published);
    if (how == End::kClosed || OwnershipWordLocked(*database) == session->second.word_before) {
      readers_.UnnamedFrom(database->published, session->second.unnamed_before);
    }
  }
  revocation.fenced.Add(database->header);  // The client reaches it as well.
  revocation.cut_off = tokens.empty();
  revocation.untold = std::move(tokens);
  revocation.let_go = how != End::kFenced || !options_.clients_map_memory;
  if (!session->second.connected) revocation.gone_at = session->second.ends_at;
  revocation.blocks = how != End::kFenced;
  revocation.database = database;
  revocation.session = id;
  revocation.client = session->second.client;
  revocation.connection = session->second.connection;
  const bool connected = session->second.connected;
  const auto next = sessions_.erase(session);
  const auto begun = revocations_.emplace(next_revocation_++, std::move(revocation)).first;
  if (begun->second.cut_off) {
    EndRevocationLocked(begun);
  } else {
    begun->second.done = std::exchange(*done, {});
    RevokeAccessLocked(begun);
    if (connected) cut_off_.insert(begun->second.connection);
  }
  const bool wanted = database->session != SessionId{} || ClaimOnLocked(*database) != nullptr;
  if (!wanted && database->manifest_version == 0) DropDatabaseLocked(database);
  return next;
}

void DatabaseTable::RevokeAccessLocked(RevocationMap::iterator revocation) {
  IfMemoryPermits([this, revocation] {
    port::AllocationPoint("memory node: revoked");
    options_.revoker->Revoke(revocation->second.untold,
                             [this, number = revocation->first](const Status& status) {
                               AccessRevoked(number, status);
                             });
    revocation->second.untold.clear();
  });
}

std::vector<std::string> DatabaseTable::TokensToRevokeLocked(const Session& session,
                                                             End how) const {
  if (options_.revoker == nullptr) return {};
  std::vector<std::string> tokens = session.tokens;
  if (how == End::kExpired) return tokens;
  for (const auto& [id, other] : sessions_) {
    if (&other == &session) continue;
    // A client that takes over from itself keeps its access; one from which another takes over
    // does not, whatever else it has open.
    if (how == End::kFenced && other.database != session.database) continue;
    std::erase_if(tokens, [&other = other](const std::string& token) {
      return std::find(other.tokens.begin(), other.tokens.end(), token) != other.tokens.end();
    });
  }
  return tokens;
}

void DatabaseTable::AccessRevoked(uint64_t number, const Status& status) {
  RequireSpareMemory();  // Without it, this is told again later.
  std::function<void()> done;
  {
    const port::MutexLock lock(mutex_);
    const auto found = revocations_.find(number);
    if (found == revocations_.end()) return;  // It was told before, and there was no memory then.
    Revocation& revocation = found->second;
    done = std::exchange(revocation.done, {});
    if (status.ok()) {
      if (!revocation.failure.ok()) {
        Log().Info("{} bytes of database '{}' are in quarantine no more", revocation.fenced.bytes(),
                   revocation.database->name);
      }
      revocation.failure = Status::OK();
      revocation.failure.PermitUncheckedError();
      revocation.cut_off = true;
      // Who waits for `done` is told all the same.
      const Status ended = WithinMemory(
          [&] {
            mutex_.AssertHeld();
            EndRevocationLocked(found);
            return Status::OK();
          },
          &OutOfNodeMemory);
      if (!ended.ok()) {
        Log().Critical("memory of a session is lost until this memory node restarts: {}",
                       ended.message().ToStringView());
      }
    } else {
      if (revocation.failure.ok() && !status.IsAborted()) {
        Log().Error(
            "{} bytes of database '{}' are in quarantine, because the access of {} to them could "
            "not be taken away: {}; it is tried again, and they are not used before that has "
            "succeeded",
            revocation.fenced.bytes(), revocation.database->name, revocation.client,
            status.message().ToStringView());
      }
      revocation.failure = status;
      revocation.failure.PermitUncheckedError();  // Only whether there is one matters.
    }
  }
  if (done) done();
}

// Unless there is something left to wait for.
void DatabaseTable::EndRevocationLocked(RevocationMap::iterator revocation) {
  if (!revocation->second.cut_off || !revocation->second.let_go) return;
  const std::shared_ptr<Database> database = revocation->second.database;
  ByteRanges fenced = std::move(revocation->second.fenced);
  revocations_.erase(revocation);
  ReleaseLocked(database.get(), std::move(fenced));
}

// Those that nothing is left to wait for; and others wait for what had no memory to begin.
void DatabaseTable::EndRevocationsLocked() {
  if (revocations_.empty()) return;
  port::AllocationPoint("memory node: revocations");
  RequireSpareMemory();
  for (auto next = revocations_.begin(); next != revocations_.end();) {
    const auto each = next++;
    if (!each->second.untold.empty()) RevokeAccessLocked(each);
    EndRevocationLocked(each);
  }
}

}  // namespace dlsm
