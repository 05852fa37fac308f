// How much of a memory node's memory there is for a database: the part of Accounts that is about
// free memory, quotas, and callers that were refused some.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "memory_node/accounts/accounts.h"
#include "util/format_bytes.h"

namespace dlsm {
namespace {

// What a refused grant was short of, where that is not a quota. A quota is named by its owner,
// whose name is not empty.
constexpr char kNode[] = "";

}  // namespace

uint64_t DefaultMergeReserve(uint64_t capacity_bytes) {
  constexpr uint64_t kTwoTables = uint64_t{2} * 65 << 20;
  return std::min(std::max(capacity_bytes / 8, kTwoTables), capacity_bytes / 4);
}

bool Accounts::FindRoomLocked(uint64_t bytes, ByteRange* range) {
  disk_refusal_ = Status::OK();
  if (options_.refuse_extent && options_.refuse_extent()) return false;
  uint64_t offset = 0;
  if (!allocator_.Find(bytes, &offset)) {
    // Bytes that were given back may only have to be persisted.
    if (!unpersisted_.empty()) options_.store->PersistSoon();
    return false;
  }
  const uint64_t taken = RoundUpToExtent(std::max<uint64_t>(bytes, 1));
  if (!TakeDiskLocked({offset, offset + taken})) return false;
  *range = ByteRange{offset, offset + taken};
  if (options_.extent_owners != nullptr) {
    std::memset(options_.memory->At(SpanOf(offset, taken)), 0, taken);
  }
  return true;
}

// Under the lock: the disk promises room without writing any.
bool Accounts::TakeDiskLocked(ByteRange range) {
  if (options_.store == nullptr || on_disk_.Contains(range)) return true;
  disk_refusal_ = options_.store->files().TakeDisk(range.begin, range.end - range.begin);
  if (disk_refusal_.ok()) on_disk_.Add(range);
  return disk_refusal_.ok();
}

uint64_t Accounts::FreeLocked() const {
  const uint64_t free = allocator_.free_bytes();
  if (free_disk_bytes_ == UINT64_MAX) return free;
  const uint64_t used = allocator_.used_bytes();
  const uint64_t promised = on_disk_.bytes() > used ? on_disk_.bytes() - used : 0;
  return std::min(free, free_disk_bytes_ + promised);
}

uint64_t Accounts::GrantableLocked() const {
  const uint64_t free = FreeLocked();
  return free > options_.merge_reserve_bytes ? free - options_.merge_reserve_bytes : 0;
}

uint64_t Accounts::FreeBytes() const {
  const port::MutexLock lock(mutex_);
  return FreeLocked();
}

uint64_t Accounts::FreeBytesFor(const DatabaseIdentity* database) const {
  const port::MutexLock lock(mutex_);
  const uint64_t free = std::min(FreeLocked(), options_.free_bytes_told_max);
  if (database == nullptr) return free;
  return std::min(free, QuotaLeftLocked(database->name, /*for_merges=*/true));
}

uint64_t Accounts::GrantableBytesFor(const DatabaseIdentity* database) const {
  const port::MutexLock lock(mutex_);
  if (database == nullptr) return GrantableLocked();
  return std::min(GrantableLocked(), QuotaLeftLocked(database->name, /*for_merges=*/false));
}

Status Accounts::FullLocked(uint64_t bytes, uint64_t usable) const {
  const auto node = static_cast<uint32_t>(options_.node);
  if (!disk_refusal_.ok()) {
    return Status::Busy(fmt::format("memory node {} has no room for {} bytes: {}", node, bytes,
                                    disk_refusal_.message().ToStringView()));
  }
  if (FreeLocked() < bytes && allocator_.free_bytes() >= bytes) {
    return Status::Busy(
        fmt::format("memory node {} has no room for {} bytes: the disk of {} is full; make room "
                    "there, or delete data",
                    node, bytes, options_.store->files().name()));
  }
  const std::string used = fmt::format("{} of {} used", FormatBytes(allocator_.used_bytes()),
                                       FormatBytes(allocator_.capacity_bytes()));
  if (usable >= bytes) {
    return Status::Busy(
        fmt::format("memory node {} has no {} bytes in one piece left: {}; delete data, or {}",
                    node, bytes, used, options_.full_remedy));
  }
  const bool reserved = FreeLocked() > usable;
  return Status::Busy(fmt::format("memory node {} is full: {}{}; delete data, or {}", node, used,
                                  reserved ? ", and the rest is kept for merges" : "",
                                  options_.full_remedy));
}

Status Accounts::NoRoomLocked(uint64_t bytes, uint64_t usable) const {
  const uint64_t retired = readers_->retired_bytes();
  const Status full = FullLocked(bytes, usable);
  if (retired == 0) return full;
  return Status::FromCode(
      full.code(), fmt::format("{}; {} are kept for readers that use old publications, and are "
                               "free when those move on or their leases end",
                               full.message().ToStringView(), FormatBytes(retired)));
}

void Accounts::PressReadersLocked() {
  if (readers_->retired_bytes() > 0) readers_->Press(options_.clock() + options_.lease);
}

void Accounts::NoteRefusedLocked(const std::string& database, SessionId session, bool over_quota) {
  ++(over_quota ? refused_grants_.over_quota : refused_grants_.full);
  if (!over_quota) PressReadersLocked();
  refusals_.Note(over_quota ? Quotas::OwnerOf(database) : kNode, session, options_.clock());
}

bool Accounts::OthersWantRoom(const DatabaseIdentity& database, SessionId session) const {
  const port::MutexLock lock(mutex_);
  const auto now = options_.clock();
  return refusals_.OfOthers(kNode, session, now) ||
         refusals_.OfOthers(Quotas::OwnerOf(database.name), session, now);
}

Accounts::RefusedGrants Accounts::refused_grants() const {
  const port::MutexLock lock(mutex_);
  return refused_grants_;
}

bool Accounts::SetQuota(const std::string& owner, uint64_t bytes) {
  const port::MutexLock lock(mutex_);
  const bool set = quotas_.Set(owner, bytes);
  if (options_.store != nullptr) options_.store->NoteChange();
  return set;
}

uint64_t Accounts::QuotaOf(const DatabaseIdentity& database) const {
  const port::MutexLock lock(mutex_);
  return quotas_.Of(Quotas::OwnerOf(database.name));
}

std::string Accounts::DefaultQuotaForTool() const {
  const port::MutexLock lock(mutex_);
  return quotas_.DefaultForTool();
}

// Accounts that are gone count as well, as long as something of them is fenced, or a merge's.
uint64_t Accounts::OwnedBytesLocked(const std::string& owner) const {
  uint64_t bytes = 0;
  for (auto each = by_name_.lower_bound(owner);
       each != by_name_.end() && each->first.compare(0, owner.size(), owner) == 0; ++each) {
    if (Quotas::OwnerOf(each->first) == owner) bytes += each->second->bytes;
  }
  return bytes;
}

uint64_t Accounts::QuotaLeftLocked(const std::string& database, bool for_merges) const {
  const std::string owner = Quotas::OwnerOf(database);
  // Most have none, and need no count.
  const uint64_t used = quotas_.Of(owner) == 0 ? 0 : OwnedBytesLocked(owner);
  return quotas_.Left(owner, used, for_merges);
}

Status Accounts::OverQuotaLocked(const std::string& database, uint64_t bytes) const {
  const std::string owner = Quotas::OwnerOf(database);
  return Status::Busy(fmt::format(
      "database '{}' has {} of its quota of {} at memory node {}, and asks for {} more; delete "
      "data, or raise the quota: dlsm_tool --db={} --quota=BYTES quota",
      owner, FormatBytes(OwnedBytesLocked(owner)), FormatBytes(quotas_.Of(owner)),
      static_cast<uint32_t>(options_.node), FormatBytes(bytes), owner));
}

Status Accounts::RangeOf(const RemoteSpan& span, ByteRange* range) const {
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

RemoteSpan Accounts::SpanOf(uint64_t offset, uint64_t bytes) const {
  return RemoteSpan{options_.node, options_.region, offset, bytes};
}

}  // namespace dlsm
