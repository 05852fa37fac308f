// Who owns a database: the part of DatabaseTable that is about the word in its header.
#include <fmt/core.h>

#include <atomic>
#include <cassert>
#include <utility>

#include "memory_node/accounts/call_rights.h"
#include "memory_node/accounts/database_table.h"
#include "util/log.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// For who asks why its session has ended: so many, and for so many leases.
constexpr size_t kFencedMax = 10000;
constexpr int kFencedLeases = 10;

constexpr char kBusyRemedy[] = "; close it there or wait, or take it over again";

}  // namespace

// The client's swap of the words and its call are ordered by the message between them; a swap that
// no call follows may be seen a little later.
uint64_t DatabaseTable::OwnershipWordLocked(const Database& database) const {
  char* const word =
      options_.memory->At(OwnershipWordIn(SpanOf(database.header.begin, kDatabaseHeaderBytes)));
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(word))
      .load(std::memory_order_acquire);
}

void DatabaseTable::OfferWordLocked(SessionId id, Session* session) {
  const Database& database = *session->database;
  session->word_before = OwnershipWordLocked(database);
  OwnershipWord word = OwnershipWord::Of(session->word_before);
  ++word.epoch;
  // Part of the session's number, which is random, and different from that of each other session.
  word.tag = static_cast<uint32_t>(id);
  while (word.tag == 0 || IsOfferedLocked(database, word.bits())) ++word.tag;
  session->word = word.bits();
}

bool DatabaseTable::IsOfferedLocked(const Database& database, uint64_t word) const {
  for (const auto& [id, session] : sessions_) {
    if (session.database.get() == &database && session.word == word) return true;
  }
  return false;
}

void DatabaseTable::BecomeOwnerLocked(SessionId id, Database* database) {
  assert(database->session == SessionId{});
  ByteRanges held = database->live;  // First: an owner that holds nothing could put no manifest.
  database->session = id;
  database->held = std::move(held);
  // It may give back what the last owner has published, before it tells from where on it does.
  sessions_.at(id).unnamed_before = database->published->unnamed_from;
  readers_.OwnerGone(database->published);
}

void DatabaseTable::FillReplyLocked(SessionId id, const Session& session,
                                    OpenDatabaseReply* reply) const {
  const Database& database = *session.database;
  reply->session = id;
  reply->lease_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.lease).count());
  reply->header = SpanOf(database.header.begin, kDatabaseHeaderBytes);
  reply->ownership_before = session.word_before;
  reply->ownership_word = session.word;
  reply->quota_bytes = quotas_.Of(Quotas::OwnerOf(database.name));
  reply->existed = database.manifest_version > 0;
  if (database.session != id) return;
  reply->manifest_version = database.manifest_version;
  reply->manifest = database.manifest;
}

Status DatabaseTable::ConfirmClaimLocked(const RpcPeer& peer, const OpenDatabaseRequest& request,
                                         OpenDatabaseReply* reply) {
  const auto found = sessions_.find(request.claimed);
  // Of another database it is as if it were not there: that the client may own this one, which is
  // all that is known of it, gives no right to that.
  if (found == sessions_.end() || found->second.database->name != request.name) {
    const auto fenced = fenced_.find(request.claimed);
    return fenced == fenced_.end() ? NoSessionLocked(request.claimed)
                                   : Status::Busy(fenced->second.why + kBusyRemedy);
  }
  Session& session = found->second;
  const std::shared_ptr<Database> database = session.database;
  const uint64_t word = OwnershipWordLocked(*database);
  if (word != session.word) {
    const Status lost = Status::Busy(fmt::format(
        "database '{}' is open by {}, which took ownership first (epoch {}){}", database->name,
        HolderOfLocked(*database, word), OwnershipWord::Of(word).epoch, kBusyRemedy));
    std::function<void()> nobody_waits;
    EndSessionLocked(found, End::kClosed, &nobody_waits);
    return lost;
  }
  DLSM_RETURN_IF_ERROR(RenewLocked(peer, &session));
  if (database->session != request.claimed) {
    FenceLostOwnerLocked(*database);
    BecomeOwnerLocked(request.claimed, database.get());
    Log().Warn("database '{}' is taken over by {} (epoch {})", database->name, peer.name,
               OwnershipWord::Of(word).epoch);
  }
  FillReplyLocked(request.claimed, session, reply);
  return Status::OK();
}

void DatabaseTable::FenceLostOwnerLocked(const Database& database) {
  if (database.session == SessionId{}) return;
  const auto owner = sessions_.find(database.session);
  assert(owner != sessions_.end());
  const uint64_t word = OwnershipWordLocked(database);
  if (word == owner->second.word || word == owner->second.word_before) return;
  const std::string why =
      fmt::format("fenced: ownership of database '{}' was taken by {} (epoch {})", database.name,
                  HolderOfLocked(database, word), OwnershipWord::Of(word).epoch);
  Log().Warn("the session of {} with database '{}' has ended: ownership was taken by {}",
             owner->second.client, database.name, HolderOfLocked(database, word));
  if (fenced_.size() >= kFencedMax) fenced_.erase(fenced_.begin());
  fenced_[owner->first] = Fenced{options_.clock() + kFencedLeases * options_.lease, why};
  ++take_overs_;
  std::function<void()> nobody_waits;
  EndSessionLocked(owner, End::kFenced, &nobody_waits);
}

const DatabaseTable::Session* DatabaseTable::ClaimOnLocked(const Database& database) const {
  for (const auto& [id, session] : sessions_) {
    if (session.database.get() == &database && id != database.session) return &session;
  }
  return nullptr;
}

std::string DatabaseTable::HolderOfLocked(const Database& database, uint64_t word) const {
  for (const auto& [id, session] : sessions_) {
    if (session.database.get() == &database && session.word == word) return session.client;
  }
  return "a client that has gone since";
}

void DatabaseTable::EndClaimsLocked(uint64_t connection, const std::string& name) {
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    const Session& session = next->second;
    const Database& database = *session.database;
    std::function<void()> nobody_waits;
    if (session.connection != connection || database.name != name) {
      ++next;
    } else if (database.session != next->first) {
      next = EndSessionLocked(next, End::kClosed, &nobody_waits);
    } else if (!session.known && OwnershipWordLocked(database) == session.word_before) {
      next = EndSessionLocked(next, End::kUnknown, &nobody_waits);
    } else {
      ++next;
    }
  }
}

void DatabaseTable::LetGoLocked(SessionId session) {
  for (auto& [number, revocation] : revocations_) {
    if (revocation.session == session) revocation.let_go = true;
  }
  EndRevocationsLocked();
}

void DatabaseTable::NoteAliveLocked(const RpcPeer& peer, SessionId session) {
  for (auto& [number, revocation] : revocations_) {
    if (revocation.session != session || peer.connection <= revocation.connection) continue;
    if (!CheckMayOwn(peer, revocation.database->name).ok()) continue;
    revocation.connection = peer.connection;
    revocation.gone_at = Clock::time_point::max();
  }
}

}  // namespace dlsm
