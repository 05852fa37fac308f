// What databases hold of the memory node's memory: the part of DatabaseTable that gives it out and
// takes it back.
#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "memory_node/accounts/database_table.h"
#include "port/allocation_point.h"
#include "util/format_bytes.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint64_t kGrantBytesMax = uint64_t{8} << 30;

// More than the accounts of one span may need on its way from a session to the free memory: a piece
// in each of half a dozen maps.
constexpr size_t kSpareBytesPerSpan = 512;

}  // namespace

uint64_t DatabaseTable::GrantableLocked() const {
  const uint64_t free = allocator_.free_bytes();
  return free > options_.merge_reserve_bytes ? free - options_.merge_reserve_bytes : 0;
}

bool DatabaseTable::RoomIsComingLocked() const {
  return readers_.retired_bytes() > 0 || !revocations_.empty() ||
         std::any_of(sessions_.begin(), sessions_.end(),
                     [](const auto& each) { return !each.second.connected; });
}

Status DatabaseTable::FullLocked(uint64_t bytes, uint64_t usable) const {
  const auto node = static_cast<uint32_t>(options_.node);
  const std::string used = fmt::format("{} of {} used", FormatBytes(allocator_.used_bytes()),
                                       FormatBytes(allocator_.capacity_bytes()));
  if (usable >= bytes) {
    return Status::Busy(
        fmt::format("memory node {} has no {} bytes in one piece left: {}; delete data, or {}",
                    node, bytes, used, options_.full_remedy));
  }
  const bool reserved = allocator_.free_bytes() > usable;
  return Status::Busy(fmt::format("memory node {} is full: {}{}; delete data, or {}", node, used,
                                  reserved ? ", and the rest is kept for merges" : "",
                                  options_.full_remedy));
}

Status DatabaseTable::Grant(const RpcPeer& peer, const GrantRequest& request, GrantReply* reply) {
  if (request.bytes == 0 || request.bytes_min > request.bytes) {
    return Status::InvalidArgument("a grant has at least 1 byte, and bytes_min up to bytes");
  }
  // No table is larger than that. It is cleared under the lock, for clients that must not see what
  // others had there.
  if (request.bytes_min > kGrantBytesMax) {
    return Status::InvalidArgument(
        fmt::format("a grant has at most {}", FormatBytes(kGrantBytesMax)));
  }
  const port::MutexLock lock(mutex_);
  SessionMap::iterator session;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, request.session, &session));
  std::map<uint64_t, RemoteSpan>& grants = session->second.grants;
  if (const auto again = grants.find(request.number); again != grants.end()) {
    reply->extent = again->second;
    return Status::OK();
  }
  Database* const database = session->second.database.get();
  const uint64_t least = std::max<uint64_t>(request.bytes_min, 1);
  const uint64_t quota_left = QuotaLeftLocked(*database, request.for_merge);
  const uint64_t room = request.for_merge ? allocator_.free_bytes() : GrantableLocked();
  const uint64_t usable = std::min(room, quota_left) / kExtentAlignment * kExtentAlignment;
  if (least > usable) {
    const bool over_quota = quota_left < room;
    NoteRefusedLocked(*database, over_quota);
    return over_quota ? OverQuotaLocked(*database, least) : NoRoomLocked(least, usable);
  }
  // Both fit into the region from here on, so rounding up does not overflow.
  uint64_t bytes = RoundUpToExtent(std::min({request.bytes, usable, kGrantBytesMax}));
  if (bytes > allocator_.largest_free_bytes()) bytes = allocator_.largest_free_bytes();
  uint64_t offset = 0;
  if (bytes < RoundUpToExtent(least) || !AllocateLocked(database, bytes, &offset)) {
    NoteRefusedLocked(*database, /*over_quota=*/false);
    return NoRoomLocked(least, usable);
  }
  database->held.Add({offset, offset + bytes});
  reply->extent = SpanOf(offset, bytes);
  if (request.number != 0) grants[request.number] = reply->extent;
  if (grants.size() > GrantRequest::kGrantsRemembered) grants.erase(grants.begin());
  return Status::OK();
}

void DatabaseTable::NoteRefusedLocked(const Database& database, bool over_quota) {
  ++(over_quota ? refused_grants_.over_quota : refused_grants_.full);
  if (!over_quota) PressReadersLocked();
  refusals_.Note(over_quota ? Quotas::OwnerOf(database.name) : kNode, database.session,
                 options_.clock());
}

bool DatabaseTable::OthersWantRoom(SessionId session) const {
  const port::MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return false;
  const std::string owner = Quotas::OwnerOf(found->second.database->name);
  const auto now = options_.clock();
  return refusals_.OfOthers(kNode, session, now) || refusals_.OfOthers(owner, session, now);
}

Status DatabaseTable::Free(const RpcPeer& peer, const FreeRequest& request) {
  const port::MutexLock lock(mutex_);
  SessionMap::iterator session;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, request.session, &session));
  if (request.number != 0 && request.number <= session->second.last_free) return Status::OK();
  Database& database = *session->second.database;
  ByteRanges freed;
  for (const RemoteSpan& span : request.spans) {
    ByteRange range;
    DLSM_RETURN_IF_ERROR(RangeOf(span, &range));
    if (!database.held.Contains(range) || freed.Overlaps(range)) {
      return Status::InvalidArgument(
          fmt::format("database '{}' does not hold the {} bytes at offset {} that it gives back",
                      database.name, span.bytes, span.offset));
    }
    freed.Add(range);
  }
  RequireSpareMemory(kSpareBytes + request.spans.size() * kSpareBytesPerSpan);
  session->second.last_free = std::max(session->second.last_free, request.number);
  database.held.Remove(freed);
  session->second.merges.Freed(freed);
  session->second.unnamed_before = PublishedDatabase::kUnknown;
  readers_.UnnamedFrom(database.published, request.unnamed_from);
  ReleaseLocked(&database, std::move(freed));
  return Status::OK();
}

Status DatabaseTable::PutManifest(const RpcPeer& peer, const PutManifestRequest& request) {
  const port::MutexLock lock(mutex_);
  SessionMap::iterator session;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, request.session, &session));
  Database& database = *session->second.database;
  if (request.version <= database.manifest_version) {
    return Status::Aborted(fmt::format("manifest version {} is not newer than version {}",
                                       request.version, database.manifest_version));
  }
  ByteRanges live;
  for (const RemoteSpan& span : request.live) {
    ByteRange range;
    DLSM_RETURN_IF_ERROR(RangeOf(span, &range));
    if (!database.held.Contains(range)) {
      return Status::InvalidArgument(
          fmt::format("database '{}' does not hold the {} bytes at offset {} that its manifest "
                      "refers to",
                      database.name, span.bytes, span.offset));
    }
    live.Add(range);
  }
  // It may be large: first, so that the version is never that of another one.
  port::AllocationPoint("memory node: manifest");
  std::string manifest = request.manifest;
  RequireSpareMemory(kSpareBytes + request.live.size() * kSpareBytesPerSpan);
  session->second.unnamed_before = PublishedDatabase::kUnknown;
  database.manifest_version = request.version;
  database.manifest = std::move(manifest);
  ReleaseLocked(&database, std::exchange(database.live, std::move(live)));
  return Status::OK();
}

Status DatabaseTable::Destroy(const DestroyDatabaseRequest& request) {
  const port::MutexLock lock(mutex_);
  EndExpiredSessionsLocked();
  const auto missing = [&] {
    return Status::NotFound(fmt::format("memory node {} has no database '{}'",
                                        static_cast<uint32_t>(options_.node), request.name));
  };
  if (!databases_.contains(request.name)) return missing();
  OpenDatabaseRequest open;
  open.name = request.name;
  open.create_if_missing = true;
  DLSM_RETURN_IF_ERROR(CheckOpenableLocked(open));
  const auto found = databases_.find(request.name);
  if (found == databases_.end()) return missing();           // It has just gone with its owner.
  const std::shared_ptr<Database> database = found->second;  // Also when it is no longer listed.
  if (request.incarnation != DatabaseIncarnation{} &&
      request.incarnation != database->incarnation) {
    return Status::InvalidArgument(fmt::format(
        "database '{}' at memory node {} is not the one that was to be destroyed: that has gone, "
        "and this one was made since",
        request.name, static_cast<uint32_t>(options_.node)));
  }
  if (request.if_unused &&
      (!database->live.empty() || database->manifest_version > request.manifest_version_max)) {
    return Status::InvalidArgument(fmt::format("database '{}' at memory node {} has come into use",
                                               request.name, static_cast<uint32_t>(options_.node)));
  }
  DropDatabaseLocked(database);
  Log().Info("database '{}' is destroyed", request.name);
  return Status::OK();
}

void DatabaseTable::ReleaseLocked(Database* database, ByteRanges candidates) {
  if (candidates.empty()) return;
  candidates.Remove(database->header);
  candidates.Remove(database->held);
  candidates.Remove(database->live);
  for (const auto& [number, revocation] : revocations_) {
    if (revocation.database.get() == database) candidates.Remove(revocation.fenced);
  }
  for (const auto& [key, merge] : merges_) {
    if (merge->database.get() == database) candidates.Remove(merge->inputs);
  }
  // What is kept for readers does not count for its quota.
  assert(candidates.bytes() <= database->bytes);
  database->bytes -= candidates.bytes();
  readers_.Retire(database->published, candidates);
  FreeUnreadLocked();
}

bool DatabaseTable::AllocateLocked(Database* database, uint64_t bytes, uint64_t* offset) {
  if (options_.refuse_extent && options_.refuse_extent()) return false;
  if (!allocator_.Allocate(bytes, offset)) return false;
  const uint64_t taken = RoundUpToExtent(std::max<uint64_t>(bytes, 1));
  database->bytes += taken;
  if (options_.extent_owners != nullptr) {
    std::memset(options_.memory->At(SpanOf(*offset, taken)), 0, taken);
    options_.extent_owners->Add(*offset, taken, database->name);
  }
  return true;
}

void DatabaseTable::FreeRangesLocked(Database* database, const ByteRanges& ranges) {
  assert(ranges.bytes() <= database->bytes);
  database->bytes -= ranges.bytes();
  GiveBackLocked(ranges);
}

void DatabaseTable::GiveBackLocked(const ByteRanges& ranges) {
  for (const auto& [begin, end] : ranges.ranges()) {
    if (options_.extent_owners != nullptr) options_.extent_owners->Remove(begin, end - begin);
    const Status status = allocator_.Free(begin, end - begin);
    if (status.ok()) continue;
    assert(false && "a byte without an owner was owned");
    Log().Error("memory is lost until this memory node restarts: {}", status.ToString());
  }
}

Status DatabaseTable::RangeOf(const RemoteSpan& span, ByteRange* range) const {
  if (span.node != options_.node || span.region != options_.region ||
      span.offset > options_.capacity_bytes || span.bytes > options_.capacity_bytes - span.offset ||
      span.offset % kExtentAlignment != 0) {
    return Status::InvalidArgument(
        fmt::format("{} bytes at offset {} of region {} of node {} are no extent of memory node {}",
                    span.bytes, span.offset, static_cast<uint32_t>(span.region),
                    static_cast<uint32_t>(span.node), static_cast<uint32_t>(options_.node)));
  }
  *range = ByteRange{span.offset, span.offset + RoundUpToExtent(span.bytes)};
  return Status::OK();
}

RemoteSpan DatabaseTable::SpanOf(uint64_t offset, uint64_t bytes) const {
  return RemoteSpan{options_.node, options_.region, offset, bytes};
}

}  // namespace dlsm
