// The part of DatabaseTable that is about ownership: a claim becomes an owner, and an owner that
// has lost its database ends.
#include <fmt/core.h>

#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/database_table.h"
#include "util/log.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A session that was fenced is told why for so many leases.
constexpr int kFencedLeases = 10;

constexpr char kBusyRemedy[] = "; close it there or wait, or take it over again";

}  // namespace

void DatabaseTable::BecomeOwnerLocked(SessionId id, Session* session) {
  // First the account: an owner that holds nothing could put no manifest.
  const Status begun = accounts_.BeginOwner(*session->database, &session->unnamed_before);
  assert(begun.ok());
  begun.PermitUncheckedError();
  ownership_.BecomeOwner(id);
}

Status DatabaseTable::ConfirmClaimLocked(const RpcPeer& peer, const OpenDatabaseRequest& request,
                                         OpenDatabaseReply* reply) {
  Session* session = sessions_.Find(request.claimed);
  if (session != nullptr && ownership_.IsOwner(request.claimed)) {
    const DatabasePointer owned = session->database;
    FenceLostOwnerLocked(*owned);
    session = sessions_.Find(request.claimed);
  }
  // Of another database it is as if it were not there: that the client may own this one, which is
  // all that is known of it, gives no right to that.
  if (session == nullptr || session->database->name != request.name) {
    const std::string* const why = ownership_.WhyFenced(request.claimed);
    return why == nullptr ? NoSessionLocked(request.claimed) : Status::Busy(*why + kBusyRemedy);
  }
  const DatabasePointer database = session->database;
  const uint64_t word = ownership_.WordOf(*database);
  if (word != ownership_.OfferOf(request.claimed).word) {
    const Status lost = Status::Busy(fmt::format(
        "database '{}' is open by {}, which took ownership first (epoch {}){}", database->name,
        ownership_.HolderOf(*database, word), OwnershipWord::Of(word).epoch, kBusyRemedy));
    std::function<void()> nobody_waits;
    EndSessionLocked(request.claimed, End::kClosed, &nobody_waits);
    return lost;
  }
  DLSM_RETURN_IF_ERROR(sessions_.Renew(peer, options_.clock() + options_.lease, session));
  if (!ownership_.IsOwner(request.claimed)) {
    FenceLostOwnerLocked(*database);
    if (const SessionId owner = ownership_.OwnerOf(*database); owner != SessionId{}) {
      return Status::Busy(fmt::format("database '{}' is open by {}{}", database->name,
                                      sessions_.Find(owner)->client, kBusyRemedy));
    }
    BecomeOwnerLocked(request.claimed, session);
    Log().Warn("database '{}' is taken over by {} (epoch {})", database->name, peer.name,
               OwnershipWord::Of(word).epoch);
  }
  NoteChange();
  FillReplyLocked(request.claimed, *session, reply);
  return Status::OK();
}

void DatabaseTable::FenceLostOwnerLocked(const DatabaseIdentity& database) {
  const SessionId owner = ownership_.LostOwnerOf(database);
  if (owner == SessionId{}) return;
  Log().Warn("the session of {} with database '{}' has ended: ownership was taken by {}",
             sessions_.Find(owner)->client, database.name,
             ownership_.HolderOf(database, ownership_.WordOf(database)));
  ownership_.Fence(owner, options_.clock() + kFencedLeases * options_.lease);
  std::function<void()> nobody_waits;
  EndSessionLocked(owner, End::kFenced, &nobody_waits);
}

void DatabaseTable::EndClaimsLocked(uint64_t connection, const std::string& name) {
  std::vector<std::pair<SessionId, End>> ended;
  for (const auto& [id, session] : sessions_.all()) {
    if (session.connection != connection || session.database->name != name) continue;
    if (!ownership_.IsOwner(id)) {
      ended.emplace_back(id, End::kClosed);
    } else if (!session.known && ownership_.HasNotSwapped(id)) {
      ended.emplace_back(id, End::kUnknown);
    }
  }
  std::function<void()> nobody_waits;
  for (const auto& [id, how] : ended) EndSessionLocked(id, how, &nobody_waits);
}

}  // namespace dlsm
