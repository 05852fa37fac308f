#include "memory_node/accounts/database_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <utility>

#include "util/coding.h"
#include "util/log.h"
#include "util/rpc/messages/database_header.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Each database costs some memory besides the region's.
constexpr size_t kDatabasesMax = 10000;

// At random: a number that was listed before this memory node was started again means nothing now.
Status DrawIncarnation(DatabaseIncarnation* incarnation) {
  std::string random;
  do {
    DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &random));
    *incarnation = DatabaseIncarnation{DecodeFixed64(random.data())};
  } while (*incarnation == DatabaseIncarnation{});
  return Status::OK();
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
  SetEndLocked(options_.clock() + options_.lease, &session);
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
  return Status::TimedOut(fmt::format(
      "database '{}' is open by {}, whose connection is lost; its lease ends within "
      "{:.1f} s",
      request.name, session.client, std::chrono::duration<double>(options_.grace).count()));
}

Status DatabaseTable::NewDatabaseLocked(const std::string& name,
                                        std::shared_ptr<Database>* database) {
  auto made = std::make_shared<Database>();
  made->name = name;
  DLSM_RETURN_IF_ERROR(DrawIncarnation(&made->incarnation));
  if (QuotaLeftLocked(*made, /*for_merges=*/false) < kDatabaseHeaderBytes) {
    return OverQuotaLocked(*made, kDatabaseHeaderBytes);
  }
  uint64_t offset = 0;
  const uint64_t usable = GrantableLocked();
  if (usable < kDatabaseHeaderBytes || !AllocateLocked(made.get(), kDatabaseHeaderBytes, &offset)) {
    PressReadersLocked();
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
    reply.databases.push_back({name, kept.bytes(), quotas_.Of(Quotas::OwnerOf(name)),
                               database->session != SessionId{}, database->incarnation});
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
  for (const auto& [id, session] : sessions_) {
    const ByteRanges outputs = session.merges.outputs();
    for (const auto& [begin, end] : outputs.ranges()) {
      if (!session.database->held.Contains({begin, end})) {
        return Status::Corruption("what a merge has left to its session is not held");
      }
    }
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
