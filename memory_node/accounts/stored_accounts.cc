// Accounts as rows of the memory node's files, and back.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "memory_node/accounts/accounts.h"
#include "memory_node/accounts/stored_ranges.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/messages/database_header.h"

namespace dlsm {
namespace {

using Kind = ByteReason::Kind;

// The disk gets room back when the file has so much more than is used: what merges free they need
// again soon.
constexpr double kOnDiskOverUsed = 1.2;
constexpr uint64_t kOnDiskBytesMin = 64 << 20;
// Smaller ranges are not worth a call, and at a time no more is taken from the free memory.
constexpr uint64_t kGivenBackBytesMin = 1 << 20;
constexpr uint64_t kGivenBackBytesMax = uint64_t{1} << 30;

// What a reason is after a restart; nothing if it ends then. A merge ends with its process.
bool Outlives(Kind kind, bool resumed) {
  switch (kind) {
    case Kind::kHeader:
    case Kind::kLive:
      return true;
    case Kind::kHeld:
    case Kind::kFenced:
      return resumed;
    default:
      return false;
  }
}

}  // namespace

void Accounts::TakeSnapshot(const std::map<uint64_t, uint64_t>& manifests,
                            std::vector<StoredDatabase>* rows,
                            std::map<uint64_t, StoredManifest>* put, StoredQuotas* quotas,
                            uint64_t* change) const {
  const port::MutexLock lock(mutex_);
  *change = options_.store->change();
  rows->reserve(accounts_.size());
  for (const auto& [incarnation, account] : accounts_) {
    const auto number = static_cast<uint64_t>(incarnation);
    StoredDatabase& row = rows->emplace_back();
    row.incarnation = number;
    row.name = account.identity->name;
    row.header = account.identity->header.offset;
    row.listed = account.listed;
    row.manifest_version = account.manifest.version;
    row.unnamed_from = readers_->UnnamedFromOf(account.identity->published);
    row.whole_from = readers_->WholeFromOf(account.identity->published);
    row.retired = ToStored(readers_->RetiredOf(account.identity->published));
    for (const auto& [reason, ranges] : account.reasons) {
      row.reasons.push_back({static_cast<uint8_t>(reason.kind), reason.number, ToStored(ranges)});
    }
    const auto there = manifests.find(number);
    const uint64_t has = there == manifests.end() ? 0 : there->second;
    if (has == account.manifest.version) continue;
    (*put)[number] = {account.manifest.version, account.manifest.bytes};
  }
  quotas->bytes_by_owner = quotas_.own();
}

void Accounts::NotePersisted(uint64_t change) {
  const port::MutexLock lock(mutex_);
  IfMemoryPermits([&] {  // Otherwise the next call does.
    mutex_.AssertHeld();
    while (!unpersisted_.empty() && unpersisted_.front().change <= change) {
      FreeRangeLocked(unpersisted_.front().range);
      unpersisted_.pop_front();
    }
  });
}

uint64_t Accounts::UnpersistedBytesLocked() const {
  uint64_t bytes = 0;
  for (const Unpersisted& free : unpersisted_) bytes += free.range.end - free.range.begin;
  return bytes;
}

void Accounts::Restore(const StoredState& state, bool resumed, uint64_t first_readers_fence) {
  uint64_t readers_fence = first_readers_fence;
  const port::MutexLock lock(mutex_);
  for (const StoredDatabase& stored : state.databases) {
    const auto manifest = state.manifests.find(stored.incarnation);
    RestoreLocked(stored, manifest == state.manifests.end() ? StoredManifest() : manifest->second,
                  resumed, readers_fence++);
  }
  for (const auto& [owner, bytes] : state.quotas.bytes_by_owner) {
    if (!quotas_.Set(owner, bytes)) Log().Warn("the quota of database '{}' is forgotten", owner);
  }
  // The disk has room for bytes that were granted. Whether it has for others is not known, so it
  // gets their room back.
  on_disk_.Add({0, allocator_.capacity_bytes()});
  ByteRange range;
  for (uint64_t from = 0; allocator_.NextFree(from, &range.begin, &range.end); from = range.end) {
    on_disk_.Remove(range);
    options_.store->files().GiveBackDisk(range.begin, range.end - range.begin);
  }
}

void Accounts::RestoreLocked(const StoredDatabase& stored, const StoredManifest& manifest,
                             bool resumed, uint64_t readers_fence) {
  // Nobody has the database, and nothing was ever put: as if its owner had ended.
  if (!resumed && (!stored.listed || manifest.version == 0)) return;
  Reasons reasons;
  ByteRanges all;
  const auto add = [&](ByteReason reason, const std::vector<StoredRange>& ranges) {
    for (const StoredRange& range : ranges) {
      reasons[reason].Add({range.begin, range.end});
      all.Add({range.begin, range.end});
    }
  };
  for (const StoredReason& reason : stored.reasons) {
    const auto kind = static_cast<Kind>(reason.kind);
    if (Outlives(kind, resumed)) add({kind, reason.number}, reason.ranges);
  }
  if (resumed) add(FencedReason(readers_fence), stored.retired);
  if (all.empty()) return;
  auto identity = std::make_shared<DatabaseIdentity>();
  identity->name = stored.name;
  identity->incarnation = DatabaseIncarnation{stored.incarnation};
  identity->header = SpanOf(stored.header, kDatabaseHeaderBytes);
  identity->published->destroyed = !stored.listed;
  // Nobody knows how far an owner had got that is gone; one that goes on tells again.
  identity->published->unnamed_from = resumed ? stored.unnamed_from : PublishedDatabase::kUnknown;
  identity->published->whole_from = stored.whole_from;
  for (const auto& [begin, end] : all.ranges()) {
    if (options_.extent_owners != nullptr) {
      options_.extent_owners->Add(begin, end - begin, stored.name);
    }
    const Status taken = allocator_.Take(begin, end - begin);
    assert(taken.ok() && "StoredState::Decode() has found that no two have a byte");
    taken.PermitUncheckedError();
  }
  Account& account = accounts_[identity->incarnation];
  by_name_.emplace(stored.name, &account);
  account.identity = std::move(identity);
  account.listed = stored.listed;
  if (stored.listed) ++listed_;
  account.bytes = all.bytes();
  account.reasons = std::move(reasons);
  account.manifest = {manifest.version, manifest.bytes};
}

std::vector<std::pair<DatabasePointer, std::vector<uint64_t>>> Accounts::Fences() const {
  const port::MutexLock lock(mutex_);
  std::vector<std::pair<DatabasePointer, std::vector<uint64_t>>> fences;
  for (const auto& [incarnation, account] : accounts_) {
    std::vector<uint64_t> numbers;
    for (const auto& [reason, ranges] : account.reasons) {
      if (reason.kind == Kind::kFenced) numbers.push_back(reason.number);
    }
    if (!numbers.empty()) fences.emplace_back(account.identity, std::move(numbers));
  }
  return fences;
}

DatabasePointer Accounts::FindIncarnation(DatabaseIncarnation incarnation) const {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(incarnation);
  return account == nullptr ? nullptr : account->identity;
}

// Ranges that are given back cannot be granted meanwhile. No lock is held over the disk's work.
void Accounts::KeepDisk() {
  if (options_.store == nullptr) return;
  NodeFiles& files = options_.store->files();
  const uint64_t free_disk_bytes = files.FreeDiskBytes();
  std::vector<ByteRange> taken;
  {
    const port::MutexLock lock(mutex_);
    free_disk_bytes_ = free_disk_bytes;
    const auto allowed =
        static_cast<uint64_t>(static_cast<double>(allocator_.used_bytes()) * kOnDiskOverUsed) +
        kOnDiskBytesMin;
    uint64_t bytes = 0;
    uint64_t from = 0;
    ByteRange range;
    while (on_disk_.bytes() > allowed && bytes < kGivenBackBytesMax &&
           allocator_.NextFree(from, &range.begin, &range.end)) {
      // The rest of a large one comes next: what of it is on disk may lie anywhere.
      range.end = std::min(range.end, range.begin + kGivenBackBytesMax);
      from = range.end;
      if (range.end - range.begin < kGivenBackBytesMin || !on_disk_.Overlaps(range)) continue;
      const Status found = allocator_.Take(range.begin, range.end - range.begin);
      assert(found.ok());
      found.PermitUncheckedError();
      on_disk_.Remove(range);
      bytes += range.end - range.begin;
      taken.push_back(range);
    }
  }
  for (const ByteRange& range : taken) {
    files.GiveBackDisk(range.begin, range.end - range.begin);
    const port::MutexLock lock(mutex_);
    FreeRangeLocked(range);
  }
}

}  // namespace dlsm
