#include "memory_node/database_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "memory_node/call_rights.h"
#include "util/coding.h"
#include "util/log.h"
#include "util/rpc/database_header.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Each database costs some memory besides the region's.
constexpr size_t kDatabasesMax = 10000;

// Somebody looks for sessions that have ended several times a second.
constexpr std::chrono::seconds kStandstillMin{1};

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

uint64_t DefaultMergeReserve(uint64_t capacity_bytes) {
  constexpr uint64_t kTwoTables = uint64_t{2} * 65 << 20;
  return std::min(std::max(capacity_bytes / 8, kTwoTables), capacity_bytes / 4);
}

DatabaseTable::DatabaseTable(DatabaseTableOptions options)
    : options_(std::move(options)),
      allocator_(options_.capacity_bytes),
      quotas_(options_.database_quota_bytes) {}

DatabaseTable::~DatabaseTable() {
  const port::MutexLock lock(mutex_);
  assert(merges_.empty());
}

// ---- Sessions

Status DatabaseTable::Open(const RpcPeer& peer, const OpenDatabaseRequest& request,
                           OpenDatabaseReply* reply) {
  if (request.name.empty() || request.name.size() > OpenDatabaseRequest::kNameBytesMax) {
    return Status::InvalidArgument(
        fmt::format("a database's name has 1 to {} bytes", OpenDatabaseRequest::kNameBytesMax));
  }
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  if (request.claimed != SessionId{}) return ConfirmClaimLocked(peer, request, reply);
  if (cut_off_.contains(peer.connection)) {
    return Status::IOError(
        "the access of this connection to the memory node's memory ended with its last session; "
        "connect again");
  }
  EndClaimsLocked(peer.connection, request.name);
  DLSM_RETURN_IF_ERROR(CheckOpenableLocked(request));
  SessionId id{};
  DLSM_RETURN_IF_ERROR(NewSessionIdLocked(&id));
  const auto found = databases_.find(request.name);
  std::shared_ptr<Database> opened;
  if (found != databases_.end()) {
    opened = found->second;
  } else {
    DLSM_RETURN_IF_ERROR(NewDatabaseLocked(request.name, &opened));
  }
  Session session;
  session.database = opened;
  session.client = peer.name;
  if (!peer.data_token.empty()) session.tokens.push_back(peer.data_token);
  session.connection = peer.connection;
  session.ends_at = options_.clock() + options_.lease;
  OfferWordLocked(id, &session);
  const bool contended = ClaimOnLocked(*opened) != nullptr;
  const Session& made = sessions_.emplace(id, std::move(session)).first->second;
  if (opened->session == SessionId{} && !contended) {
    BecomeOwnerLocked(id, opened.get());
    Log().Info("database '{}' is opened by {}", request.name, peer.name);
  }
  FillReplyLocked(id, made, reply);
  return Status::OK();
}

Status DatabaseTable::CheckOpenableLocked(const OpenDatabaseRequest& request) {
  // What nobody has put a manifest of goes with its owner.
  if (const auto listed = databases_.find(request.name); listed != databases_.end()) {
    const std::shared_ptr<Database> database = listed->second;
    FenceLostOwnerLocked(*database);
  }
  const auto found = databases_.find(request.name);
  if (found == databases_.end()) {
    if (!request.create_if_missing) {
      return Status::InvalidArgument(
          fmt::format("database '{}' does not exist on memory node {} (create_if_missing is false)",
                      request.name, static_cast<uint32_t>(options_.node)));
    }
    if (databases_.size() >= kDatabasesMax) {
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
  if (const Session* const claim = ClaimOnLocked(*found->second); claim != nullptr) {
    return Status::Busy(
        fmt::format("database '{}' is being taken over by {}; close it there or wait", request.name,
                    claim->client));
  }
  for (const auto& [id, revocation] : revocations_) {
    if (revocation.database != found->second || !revocation.blocks) continue;
    return Status::TimedOut(fmt::format(
        "database '{}' was open by {}, whose access to its memory is being taken away{}{}; try "
        "again",
        request.name, revocation.client, revocation.failure.ok() ? "" : ", in vain so far: ",
        revocation.failure.message().ToStringView()));
  }
  const SessionId holder = found->second->session;
  if (holder == SessionId{}) return Status::OK();
  const Session& session = sessions_.at(holder);
  if (session.connected) {
    return Status::Busy(
        fmt::format("database '{}' is open by {}; close it there or wait, or take it over "
                    "(Options::take_over)",
                    request.name, session.client));
  }
  return Status::TimedOut(
      fmt::format("database '{}' is open by {}, whose connection is lost; its lease ends within "
                  "{:.1f} s",
                  request.name, session.client, Seconds(options_.grace)));
}

Status DatabaseTable::NewDatabaseLocked(const std::string& name,
                                        std::shared_ptr<Database>* database) {
  auto made = std::make_shared<Database>();
  made->name = name;
  if (QuotaLeftLocked(*made, /*for_merges=*/false) < kDatabaseHeaderBytes) {
    return OverQuotaLocked(*made, kDatabaseHeaderBytes);
  }
  uint64_t offset = 0;
  const uint64_t usable = GrantableLocked();
  if (usable < kDatabaseHeaderBytes || !AllocateLocked(made.get(), kDatabaseHeaderBytes, &offset)) {
    const Status full = NoRoomLocked(kDatabaseHeaderBytes, usable);
    return Status::FromCode(
        RoomIsComingLocked() ? Status::Code::kTimedOut : full.code(),
        fmt::format("no room for another database: {}", full.message().ToStringView()));
  }
  std::memset(options_.memory->At(SpanOf(offset, kDatabaseHeaderBytes)), 0, kDatabaseHeaderBytes);
  made->header = {offset, offset + kDatabaseHeaderBytes};
  *database = databases_.emplace(name, std::move(made)).first->second;
  return Status::OK();
}

void DatabaseTable::DropDatabaseLocked(const std::shared_ptr<Database>& database) {
  databases_.erase(database->name);
  ByteRanges rest = std::exchange(database->live, ByteRanges());
  rest.Add(std::exchange(database->header, ByteRange()));
  readers_.OwnerGone(database->published);
  database->published->destroyed = true;
  ReleaseLocked(database.get(), std::move(rest));
}

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
  if (*session == sessions_.end()) return NoSessionLocked(id);
  const std::shared_ptr<Database> database = (*session)->second.database;
  // As if it were not there: its number alone gives no right.
  if (!CheckMayOwn(peer, database->name).ok()) return NoSessionLocked(id);
  if (database->session != id) {
    return Status::InvalidArgument(
        fmt::format("this session has not taken ownership of database '{}' yet", database->name));
  }
  FenceLostOwnerLocked(*database);
  if (database->session != id) return NoSessionLocked(id);
  RenewLocked(peer, &(*session)->second);
  return Status::OK();
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

void DatabaseTable::RenewLocked(const RpcPeer& peer, Session* session) {
  const bool known = peer.data_token.empty() ||
                     std::find(session->tokens.begin(), session->tokens.end(), peer.data_token) !=
                         session->tokens.end();
  if (!known) session->tokens.push_back(peer.data_token);
  session->connection = peer.connection;
  session->connected = true;
  session->known = true;
  session->ends_at = options_.clock() + options_.lease;
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
  FreeUnreadLocked();
  return Status::OK();
}

Status DatabaseTable::Close(const RpcPeer& peer, const CloseDatabaseRequest& request,
                            std::function<void()> done) {
  {
    const port::MutexLock lock(mutex_);
    SessionMap::iterator session;
    const Status found = FindSessionLocked(peer, request.session, &session);
    const bool is_claim = found.IsInvalidArgument() && session != sessions_.end();
    if (!found.ok() && !is_claim) {
      LetGoLocked(request.session, peer.connection);
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
  const Clock::time_point grace_end = options_.clock() + options_.grace;
  for (auto& [id, session] : sessions_) {
    if (session.connection != peer.connection) continue;
    session.connected = false;
    session.ends_at = std::min(session.ends_at, grace_end);
  }
  cut_off_.erase(peer.connection);
  LetGoLocked(SessionId{}, peer.connection);
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
}

// Longer leases harm nobody: clients reckon with no more than they were promised, and who waits for
// one to end waits longer. Of this process's own time, whatever clock leases are counted by.
void DatabaseTable::AllowForStandstillLocked() {
  const auto now = port::Clock::now();
  const auto stood_still = now - std::exchange(looked_at_, now);
  if (stood_still < kStandstillMin) return;
  if (!sessions_.empty() || readers_.count() > 0) {
    Log().Warn("memory node {} has stood still for {:.1f} s: all leases last so much longer",
               static_cast<uint32_t>(options_.node), Seconds(stood_still));
  }
  for (auto& [id, session] : sessions_) session.ends_at += stood_still;
  readers_.MoveOn(stood_still);
}

void DatabaseTable::EndExpiredSessionsLocked() {
  AllowForStandstillLocked();
  const Clock::time_point now = options_.clock();
  std::erase_if(fenced_, [now](const auto& each) { return each.second.forget_at <= now; });
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    if (now < next->second.ends_at) {
      ++next;
      continue;
    }
    Log().Warn("the session of {} with database '{}' has ended: {}", next->second.client,
               next->second.database->name,
               next->second.connected ? "its lease ran out" : "its connection is lost");
    std::function<void()> nobody_waits;
    next = EndSessionLocked(next, End::kExpired, &nobody_waits);
  }
  readers_.EndExpired(now);
  FreeUnreadLocked();
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
  if (owner) {
    revocation.fenced = std::exchange(database->held, ByteRanges());
    if (how == End::kFenced) revocation.fenced.Add(database->live);
    database->session = SessionId{};
    // Who closes has told what it published last: what its manifest does not name then, whatever
    // still keeps it, no publication names from that one on. Of one that has gone otherwise nobody
    // knows.
    if (how != End::kClosed) readers_.OwnerGone(database->published);
  }
  revocation.fenced.Add(database->header);  // The client reaches it as well.
  std::vector<std::string> tokens = TokensToRevokeLocked(session->second, how);
  // A claim holds nothing; the client's swap has ended before it could close. Of what it does not
  // know it reaches nothing.
  if ((!owner && how == End::kClosed) || how == End::kUnknown) tokens.clear();
  revocation.cut_off = tokens.empty();
  revocation.let_go =
      how != End::kFenced || !options_.clients_map_memory || !session->second.connected;
  revocation.blocks = how != End::kFenced;
  revocation.database = database;
  revocation.session = id;
  revocation.client = session->second.client;
  revocation.connection = session->second.connection;
  const bool connected = session->second.connected;
  const auto next = sessions_.erase(session);
  const auto begun = revocations_.emplace(next_revocation_++, std::move(revocation)).first;
  if (tokens.empty()) {
    EndRevocationLocked(begun);
  } else {
    if (connected) cut_off_.insert(begun->second.connection);
    begun->second.done = std::exchange(*done, {});
    options_.revoker->Revoke(
        std::move(tokens),
        [this, number = begun->first](const Status& status) { AccessRevoked(number, status); });
  }
  const bool wanted = database->session != SessionId{} || ClaimOnLocked(*database) != nullptr;
  if (!wanted && database->manifest_version == 0) DropDatabaseLocked(database);
  return next;
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
  std::function<void()> done;
  {
    const port::MutexLock lock(mutex_);
    const auto found = revocations_.find(number);
    assert(found != revocations_.end());
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
      EndRevocationLocked(found);
    } else {
      if (revocation.failure.ok() && !status.IsAborted()) {
        Log().Error(
            "{} bytes of database '{}' are in quarantine, because the access of {} to them could "
            "not be taken away: {}; it is tried again, and they are not used before that has "
            "succeeded",
            revocation.fenced.bytes(), revocation.database->name, revocation.client,
            status.ToString());
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

// ---- What there is

ListDatabasesReply DatabaseTable::List() const {
  const port::MutexLock lock(mutex_);
  ListDatabasesReply reply;
  for (const auto& [name, database] : databases_) {
    ByteRanges kept = database->held;
    kept.Add(database->live);
    for (const auto& [number, revocation] : revocations_) {
      if (revocation.database == database) kept.Add(revocation.fenced);
    }
    kept.Add(database->header);
    kept.Add(readers_.RetiredOf(database->published));
    reply.databases.push_back(
        {name, kept.bytes(), quotas_.Of(Quotas::OwnerOf(name)), database->session != SessionId{}});
  }
  return reply;
}

void DatabaseTable::Describe(NodeStatisticsReply* statistics) const {
  const port::MutexLock lock(mutex_);
  statistics->capacity_bytes = allocator_.capacity_bytes();
  statistics->used_bytes = allocator_.used_bytes();
  statistics->largest_free_bytes = allocator_.largest_free_bytes();
  statistics->databases = databases_.size();
  statistics->sessions = sessions_.size();
}

uint64_t DatabaseTable::FreeBytes() const {
  const port::MutexLock lock(mutex_);
  return allocator_.capacity_bytes() - allocator_.used_bytes();
}

uint64_t DatabaseTable::quarantined_bytes() const {
  const port::MutexLock lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, revocation] : revocations_) {
    if (!revocation.failure.ok()) bytes += revocation.fenced.bytes();
  }
  return bytes;
}

DatabaseTable::RefusedGrants DatabaseTable::refused_grants() const {
  const port::MutexLock lock(mutex_);
  return refused_grants_;
}

uint64_t DatabaseTable::take_overs() const {
  const port::MutexLock lock(mutex_);
  return take_overs_;
}

Status DatabaseTable::CheckInvariants() const {
  const port::MutexLock lock(mutex_);
  DLSM_RETURN_IF_ERROR(allocator_.CheckInvariants());
  std::map<const Database*, ByteRanges> owned;
  for (const auto& [name, database] : databases_) {
    ByteRanges& ranges = owned[database.get()];
    ranges.Add(database->held);
    ranges.Add(database->live);
    if (ranges.Overlaps(database->header)) {
      return Status::Corruption("a database's header has two owners");
    }
    ranges.Add(database->header);
  }
  for (const auto& [id, revocation] : revocations_) {
    owned[revocation.database.get()].Add(revocation.fenced);
  }
  uint64_t bytes = 0;
  for (const auto& [key, merge] : merges_) {
    ByteRanges& ranges = owned[merge->database.get()];
    ranges.Add(merge->inputs);
    for (const auto& [begin, end] : merge->outputs.ranges()) {
      if (ranges.Overlaps({begin, end})) return Status::Corruption("an output has two owners");
    }
    ranges.Add(merge->outputs);
  }
  ByteRanges all = readers_.AllRetired();
  bytes = all.bytes();
  for (const auto& [database, ranges] : owned) {
    for (const auto& [begin, end] : ranges.ranges()) {
      if (all.Overlaps({begin, end})) return Status::Corruption("two databases own one byte");
    }
    if (ranges.bytes() != database->bytes) {
      return Status::Corruption(fmt::format("database '{}' counts {} bytes and has {}",
                                            database->name, database->bytes, ranges.bytes()));
    }
    all.Add(ranges);
    bytes += ranges.bytes();
  }
  if (bytes != allocator_.used_bytes()) {
    return Status::Corruption(
        fmt::format("{} bytes are allocated, {} have an owner", allocator_.used_bytes(), bytes));
  }
  return Status::OK();
}

}  // namespace dlsm
