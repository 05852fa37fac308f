#include "memory_node/accounts/database_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>
#include <utility>

#include "util/format_bytes.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/messages/database_name.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Each database costs some memory besides the region's.
constexpr size_t kDatabasesMax = 10000;

// Larger ones would overflow with their reserve, and limit nothing.
constexpr uint64_t kQuotaBytesMax = uint64_t{1} << 60;

}  // namespace

DatabaseTable::DatabaseTable(DatabaseTableOptions options)
    : options_(std::move(options)),
      accounts_(options_, &readers_),
      revocations_(options_.revoker, &accounts_),
      ownership_(options_.memory) {}

DatabaseTable::~DatabaseTable() {
  const port::MutexLock lock(mutex_);
  assert(std::ranges::all_of(merges_, [](const auto& each) { return each.second->ended; }));
}

Status DatabaseTable::Open(const RpcPeer& peer, const OpenDatabaseRequest& request,
                           OpenDatabaseReply* reply) {
  if (request.name.empty() || request.name.size() > OpenDatabaseRequest::kNameBytesMax) {
    return Status::InvalidArgument(
        fmt::format("a database's name has 1 to {} bytes", OpenDatabaseRequest::kNameBytesMax));
  }
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  if (request.claimed != SessionId{}) return ConfirmClaimLocked(peer, request, reply);
  if (revocations_.IsCutOff(peer.connection)) {
    return Status::IOError(
        "the access of this connection to the memory node's memory ended with its last session; "
        "connect again");
  }
  EndClaimsLocked(peer.connection, request.name);
  DLSM_RETURN_IF_ERROR(CheckOpenableLocked(request));
  SessionId id{};
  DLSM_RETURN_IF_ERROR(sessions_.DrawId(&id));
  DatabasePointer database = accounts_.Find(request.name);
  if (database == nullptr) {
    const bool room_is_coming = !revocations_.empty() || sessions_.AnyDisconnected();
    DLSM_RETURN_IF_ERROR(accounts_.Make(request.name, room_is_coming, &database));
  }
  const bool wanted = ownership_.IsWanted(*database);
  Session* const session = sessions_.Add(id, peer, database, options_.clock() + options_.lease);
  try {
    ownership_.Begin(id, database, peer.name);
    if (!wanted) BecomeOwnerLocked(id, session);
  } catch (...) {
    ownership_.End(id);
    sessions_.Erase(id);
    throw;
  }
  if (!wanted) Log().Info("database '{}' is opened by {}", request.name, peer.name);
  NoteChange();
  FillReplyLocked(id, *session, reply);
  return Status::OK();
}

Status DatabaseTable::CheckOpenableLocked(const OpenDatabaseRequest& request) {
  // A database that nobody has put a manifest of goes with its owner.
  if (const DatabasePointer listed = accounts_.Find(request.name); listed != nullptr) {
    FenceLostOwnerLocked(*listed);
  }
  const DatabasePointer database = accounts_.Find(request.name);
  if (database == nullptr) {
    if (!request.create_if_missing) {
      return Status::InvalidArgument(
          fmt::format("database '{}' does not exist on memory node {} (create_if_missing is false)",
                      request.name, static_cast<uint32_t>(options_.node)));
    }
    if (accounts_.count() >= kDatabasesMax) {
      return Status::Busy(fmt::format("memory node {} has {} databases, its limit; destroy some",
                                      static_cast<uint32_t>(options_.node), kDatabasesMax));
    }
    return Status::OK();
  }
  if (request.error_if_exists) {
    return Status::InvalidArgument(
        fmt::format("database '{}' exists (error_if_exists is true)", request.name));
  }
  if (request.take_over) return Status::OK();
  if (const std::string* const claimant = ownership_.ClaimOn(*database); claimant != nullptr) {
    return Status::Busy(
        fmt::format("database '{}' is being taken over by {}; close it there or wait", request.name,
                    *claimant));
  }
  const std::optional<Revocations::Blocked> blocked = revocations_.BlockOn(*database);
  if (blocked.has_value()) {
    return Status::TimedOut(fmt::format(
        "database '{}' was open by {}, whose access to its memory is being taken away{}{}; try "
        "again",
        request.name, blocked->client, blocked->failure.ok() ? "" : ", in vain so far: ",
        blocked->failure.message().ToStringView()));
  }
  const Session* const holder = sessions_.Find(ownership_.OwnerOf(*database));
  if (holder == nullptr) return Status::OK();
  if (holder->connected) {
    return Status::Busy(
        fmt::format("database '{}' is open by {}; close it there or wait, or take it over "
                    "(Options::take_over)",
                    request.name, holder->client));
  }
  return Status::TimedOut(fmt::format(
      "database '{}' is open by {}, whose connection is lost; its lease ends within "
      "{:.1f} s",
      request.name, holder->client, std::chrono::duration<double>(options_.grace).count()));
}

void DatabaseTable::FillReplyLocked(SessionId id, const Session& session,
                                    OpenDatabaseReply* reply) const {
  const DatabaseIdentity& database = *session.database;
  const Ownership::Offer offer = ownership_.OfferOf(id);
  reply->session = id;
  reply->lease_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.lease).count());
  reply->header = database.header;
  reply->ownership_before = offer.before;
  reply->ownership_word = offer.word;
  reply->quota_bytes = accounts_.QuotaOf(database);
  if (!ownership_.IsOwner(id)) {
    reply->existed = accounts_.ManifestVersionOf(database) > 0;
    return;
  }
  AccountManifest manifest = accounts_.ManifestOf(database);
  reply->existed = manifest.version > 0;
  reply->manifest_version = manifest.version;
  reply->manifest = std::move(manifest.bytes);
}

Status DatabaseTable::Destroy(const DestroyDatabaseRequest& request) {
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  const auto missing = [&] {
    return Status::NotFound(fmt::format("memory node {} has no database '{}'",
                                        static_cast<uint32_t>(options_.node), request.name));
  };
  if (accounts_.Find(request.name) == nullptr) return missing();
  OpenDatabaseRequest open;
  open.name = request.name;
  open.create_if_missing = true;
  DLSM_RETURN_IF_ERROR(CheckOpenableLocked(open));
  const DatabasePointer database = accounts_.Find(request.name);
  if (database == nullptr) return missing();  // It has just gone with its owner.
  if (request.incarnation != DatabaseIncarnation{} &&
      request.incarnation != database->incarnation) {
    return Status::InvalidArgument(fmt::format(
        "database '{}' at memory node {} is not the one that was to be destroyed: that has gone, "
        "and this one was made since",
        request.name, static_cast<uint32_t>(options_.node)));
  }
  if (request.if_unused &&
      (!accounts_.IsLiveEmpty(*database) ||
       accounts_.ManifestVersionOf(*database) > request.manifest_version_max)) {
    return Status::InvalidArgument(fmt::format("database '{}' at memory node {} has come into use",
                                               request.name, static_cast<uint32_t>(options_.node)));
  }
  DLSM_RETURN_IF_ERROR(accounts_.Drop(*database));
  Log().Info("database '{}' is destroyed", request.name);
  return Status::OK();
}

Status DatabaseTable::Grant(const RpcPeer& peer, const GrantRequest& request, GrantReply* reply) {
  const port::MutexLock lock(mutex_);
  Session* session = nullptr;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, request.session, &session));
  std::map<uint64_t, RemoteSpan>& grants = session->grants;
  if (const auto again = grants.find(request.number); again != grants.end()) {
    reply->extent = again->second;
    return Status::OK();
  }
  // First, for the client asks again with this number if there is no memory to remember it.
  std::map<uint64_t, RemoteSpan> granted;
  RemoteSpan& extent = granted[request.number];
  DLSM_RETURN_IF_ERROR(accounts_.Grant(*session->database, request.session, request, &extent));
  reply->extent = extent;
  if (request.number != 0) grants.merge(granted);
  NoteChange();
  if (grants.size() > GrantRequest::kGrantsRemembered) grants.erase(grants.begin());
  return Status::OK();
}

Status DatabaseTable::Free(const RpcPeer& peer, const FreeRequest& request) {
  const port::MutexLock lock(mutex_);
  Session* session = nullptr;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, request.session, &session));
  if (request.number != 0 && request.number <= session->last_free) return Status::OK();
  ByteRanges freed;
  DLSM_RETURN_IF_ERROR(
      accounts_.Free(*session->database, request.spans, request.unnamed_from, &freed));
  session->last_free = std::max(session->last_free, request.number);
  session->unnamed_before = PublishedDatabase::kUnknown;
  session->merges.Freed(freed);
  NoteChange();
  return Status::OK();
}

Status DatabaseTable::PutManifest(const RpcPeer& peer, const PutManifestRequest& request) {
  const port::MutexLock lock(mutex_);
  Session* session = nullptr;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, request.session, &session));
  DLSM_RETURN_IF_ERROR(accounts_.PutManifest(*session->database, request));
  session->unnamed_before = PublishedDatabase::kUnknown;
  NoteChange();
  return Status::OK();
}

Status DatabaseTable::SetQuota(const RpcPeer& peer, const SetQuotaRequest& request) {
  if (request.name.empty() || request.name.find(kPartMark) != std::string::npos) {
    return Status::InvalidArgument(fmt::format(
        "a quota is of a database with all of its shards: name it by what comes before the # "
        "in '{}'",
        request.name));
  }
  if (request.bytes > kQuotaBytesMax) {
    return Status::InvalidArgument("a quota has at most 2^60 bytes; 0 is none");
  }
  if (!accounts_.SetQuota(request.name, request.bytes)) {
    return Status::Busy(fmt::format(
        "memory node {} has quotas of {} databases, its limit; set one back to what every "
        "database has: dlsm_tool --db=NAME --quota={} quota",
        static_cast<uint32_t>(options_.node), Quotas::kOwnMax, accounts_.DefaultQuotaForTool()));
  }
  Log().Warn("{} sets the quota of database '{}': {}", peer.name, request.name,
             request.bytes == 0 ? "none" : FormatBytes(request.bytes));
  return Status::OK();
}

ListDatabasesReply DatabaseTable::List() const {
  const port::MutexLock lock(mutex_);
  ListDatabasesReply reply = accounts_.List();
  for (ListDatabasesReply::Entry& entry : reply.databases) {
    const DatabasePointer database = accounts_.Find(entry.name);
    entry.open = database != nullptr && ownership_.OwnerOf(*database) != SessionId{};
  }
  return reply;
}

void DatabaseTable::Describe(NodeStatisticsReply* statistics) const {
  const port::MutexLock lock(mutex_);
  accounts_.Describe(statistics);
  statistics->sessions = sessions_.size();
}

DatabasePointer DatabaseTable::DatabaseOf(SessionId session) const {
  const port::MutexLock lock(mutex_);
  const Session* const found = sessions_.Find(session);
  return found == nullptr ? nullptr : found->database;
}

uint64_t DatabaseTable::FreeBytesFor(SessionId session) const {
  return accounts_.FreeBytesFor(DatabaseOf(session).get());
}

uint64_t DatabaseTable::GrantableBytesFor(SessionId session) const {
  return accounts_.GrantableBytesFor(DatabaseOf(session).get());
}

bool DatabaseTable::OthersWantRoom(SessionId session) const {
  const DatabasePointer database = DatabaseOf(session);
  return database != nullptr && accounts_.OthersWantRoom(*database, session);
}

bool DatabaseTable::FormerReaches(SessionId session) const {
  const DatabasePointer database = DatabaseOf(session);
  return database != nullptr && revocations_.Pending(*database);
}

uint64_t DatabaseTable::take_overs() const {
  const port::MutexLock lock(mutex_);
  return ownership_.take_overs();
}

Status DatabaseTable::CheckInvariants() const {
  const port::MutexLock lock(mutex_);
  DLSM_RETURN_IF_ERROR(accounts_.CheckInvariants());
  for (const auto& [id, session] : sessions_.all()) {
    const ByteRanges held = accounts_.BytesOf(*session.database, kHeldReason);
    const ByteRanges outputs = session.merges.outputs();
    for (const auto& [begin, end] : outputs.ranges()) {
      if (!held.Contains({begin, end})) {
        return Status::Corruption("what a merge has left to its session is not held");
      }
    }
  }
  return Status::OK();
}

}  // namespace dlsm
