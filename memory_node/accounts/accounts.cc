#include "memory_node/accounts/accounts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "port/allocation_point.h"
#include "util/coding.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/messages/database_header.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using Kind = ByteReason::Kind;

// At random: a number that was listed before this memory node was started again means nothing now.
Status DrawIncarnation(DatabaseIncarnation* incarnation) {
  std::string random;
  do {
    DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &random));
    *incarnation = DatabaseIncarnation{DecodeFixed64(random.data())};
  } while (*incarnation == DatabaseIncarnation{});
  return Status::OK();
}

// What bytes of the step have after it.
ByteReason ReasonAfter(const AccountStep& step) {
  switch (step.kind) {
    case AccountStep::Kind::kRelease:
      return kReleasedReason;
    case AccountStep::Kind::kFree:
      return kUnusedReason;
    default:
      return step.to;
  }
}

bool Takes(const AccountStep& step) {
  return step.kind != AccountStep::Kind::kAllocate && step.kind != AccountStep::Kind::kCopy;
}

Status DoesNotFit(const AccountChange& change, const char* why) {
  return Status::InvalidArgument(fmt::format("a change does not fit account {}: {}",
                                             static_cast<uint64_t>(change.account), why));
}

// The step that allocates the header of the account that the change makes; null if there is no
// such step, or another than there should be.
const AccountStep* HeaderStep(const AccountChange& change) {
  const auto header = std::ranges::find_if(change.steps, [](const AccountStep& step) {
    return step.kind == AccountStep::Kind::kAllocate && step.to == kHeaderReason;
  });
  if (header == change.steps.end() || !header->ranges.has_value() ||
      header->ranges->ranges().size() != 1 || header->ranges->bytes() != kDatabaseHeaderBytes) {
    return nullptr;
  }
  return &*header;
}

}  // namespace

Accounts::Accounts(AccountsOptions options, ReaderLeases* readers)
    : options_(std::move(options)),
      readers_(readers),
      allocator_(options_.capacity_bytes),
      quotas_(options_.database_quota_bytes) {}

Accounts::Account* Accounts::FindLocked(DatabaseIncarnation incarnation) {
  const auto found = accounts_.find(incarnation);
  return found == accounts_.end() ? nullptr : &found->second;
}

const Accounts::Account* Accounts::FindLocked(DatabaseIncarnation incarnation) const {
  const auto found = accounts_.find(incarnation);
  return found == accounts_.end() ? nullptr : &found->second;
}

Accounts::Account* Accounts::FindNameLocked(const std::string& name) const {
  const auto [begin, end] = by_name_.equal_range(name);
  const auto found =
      std::find_if(begin, end, [](const auto& entry) { return entry.second->listed; });
  return found == end ? nullptr : found->second;
}

const ByteRanges& Accounts::BytesFor(const Account& account, ByteReason reason) {
  static const ByteRanges kNone;
  const auto found = account.reasons.find(reason);
  return found == account.reasons.end() ? kNone : found->second;
}

Status Accounts::Apply(AccountChange change) {
  const port::MutexLock lock(mutex_);
  return ApplyLocked(std::move(change));
}

// The change takes all its memory first. So it cannot fail halfway, where nothing could finish it
// or take it back. The maps' own nodes go through `given` from one reason to the next.
Status Accounts::ApplyLocked(AccountChange change) {
  DLSM_RETURN_IF_ERROR(CheckLocked(change));
  port::AllocationPoint("accounts: change");
  const Account* const before = FindLocked(change.account);
  if (before != nullptr) readers_->Expect(before->identity->published);
  Reasons given;
  size_t ranges_taken = 0;
  for (const AccountStep& step : change.steps) {
    ByteRanges& to = given[ReasonAfter(step)];
    if (step.kind == AccountStep::Kind::kCopy && !step.ranges.has_value()) {
      to.Add(BytesFor(*before, step.from));
    }
    if (Takes(step) && step.ranges.has_value()) ranges_taken += step.ranges->ranges().size();
  }
  ByteRanges::Holes holes(ranges_taken);
  if (options_.changing) options_.changing(change);
  Account* const account =
      change.made.empty() ? FindLocked(change.account) : MakeAccountLocked(change);
  try {
    AllocateLocked(change.steps, account);
  } catch (...) {
    if (!change.made.empty()) {
      account->listed = false;
      --listed_;
      ForgetIfGoneLocked(change.account);
    }
    throw;
  }
  CarryOutLocked(std::move(change), std::move(given), &holes, account);
  if (options_.store != nullptr) options_.store->NoteChange();
  return Status::OK();
}

void Accounts::CarryOutLocked(AccountChange change, Reasons given, ByteRanges::Holes* holes,
                              Account* account) noexcept {
  const ReaderLeases::Database& published = account->identity->published;
  if (change.dropped) {
    account->listed = false;
    --listed_;
    readers_->Destroyed(published);
  }
  if (change.owner_gone) readers_->OwnerGone(published);
  readers_->UnnamedFrom(published, change.unnamed_from);
  if (change.manifest.has_value()) account->manifest = std::move(*change.manifest);
  Reasons& reasons = account->reasons;
  for (AccountStep& step : change.steps) {
    ByteRanges& to = given.find(ReasonAfter(step))->second;
    if (Takes(step)) {
      const auto from = reasons.find(step.from);
      if (from == reasons.end()) continue;
      if (step.ranges.has_value()) {
        from->second.Remove(*step.ranges, holes);
      } else {
        to.Add(std::move(from->second));
      }
      if (from->second.empty()) reasons.erase(from);
    }
    if (step.ranges.has_value()) to.Add(std::move(*step.ranges));
  }
  bool frees = false;
  while (!given.empty()) {
    auto node = given.extract(given.begin());
    if (node.mapped().empty()) continue;
    frees = frees || node.key() == kReleasedReason || node.key() == kUnusedReason;
    auto entry = reasons.insert(std::move(node));
    if (!entry.inserted) entry.position->second.Add(std::move(entry.node.mapped()));
  }
  if (frees) {
    SettleLocked(account);
    FreeUnreadLocked();
  }
  ForgetIfGoneLocked(change.account);
}

Status Accounts::CheckLocked(const AccountChange& change) const {
  const Account* const account = FindLocked(change.account);
  if (change.made.empty()) {
    if (account == nullptr) return DoesNotFit(change, "there is none");
  } else {
    if (account != nullptr) return DoesNotFit(change, "it is there already");
    if (FindNameLocked(change.made) != nullptr) return DoesNotFit(change, "its name is taken");
    if (HeaderStep(change) == nullptr) return DoesNotFit(change, "it would have no header");
  }
  if (change.dropped && !account->listed) return DoesNotFit(change, "it was dropped before");
  for (const AccountStep& step : change.steps) {
    const Status fits = CheckStepLocked(account, step);
    if (!fits.ok()) return DoesNotFit(change, fits.message().ToString().c_str());
  }
  return Status::OK();
}

Status Accounts::CheckStepLocked(const Account* account, const AccountStep& step) const {
  const bool allocates = step.kind == AccountStep::Kind::kAllocate;
  if (allocates && !step.ranges.has_value()) {
    return Status::InvalidArgument("bytes are allocated, and which is not said");
  }
  if (!allocates && account == nullptr) {
    return Status::InvalidArgument("a new account has no bytes that could change");
  }
  if (!step.ranges.has_value()) return Status::OK();
  for (const auto& [begin, end] : step.ranges->ranges()) {
    const bool there = allocates ? allocator_.IsFree(begin, end - begin)
                                 : BytesFor(*account, step.from).Contains({begin, end});
    if (!there) {
      return Status::InvalidArgument(fmt::format(
          "{} bytes at offset {} are not where the change takes them from", end - begin, begin));
    }
  }
  return Status::OK();
}

Accounts::Account* Accounts::MakeAccountLocked(const AccountChange& change) {
  auto identity = std::make_shared<DatabaseIdentity>();
  identity->name = change.made;
  identity->incarnation = change.account;
  identity->header =
      SpanOf(HeaderStep(change)->ranges->ranges().begin()->first, kDatabaseHeaderBytes);
  const auto name = by_name_.emplace(change.made, nullptr);
  try {
    name->second = &accounts_[change.account];
  } catch (...) {
    by_name_.erase(name);
    throw;
  }
  name->second->identity = std::move(identity);
  ++listed_;
  return name->second;
}

void Accounts::AllocateLocked(const std::vector<AccountStep>& steps, Account* account) {
  for (const AccountStep& step : steps) {
    if (step.kind != AccountStep::Kind::kAllocate) continue;
    for (const auto& [begin, end] : step.ranges->ranges()) {
      // First: the front of a free extent, where FindRoomLocked() looks, is taken without memory.
      if (options_.extent_owners != nullptr) {
        options_.extent_owners->Add(begin, end - begin, account->identity->name);
      }
      const Status taken = allocator_.Take(begin, end - begin);
      assert(taken.ok() && "CheckLocked() has found them free");
      taken.PermitUncheckedError();
      account->bytes += end - begin;
    }
  }
}

void Accounts::SettleLocked(Account* account) noexcept {
  Reasons& reasons = account->reasons;
  const ReaderLeases::Database& published = account->identity->published;
  IfMemoryPermits([&] {
    mutex_.AssertHeld();
    if (const auto unused = reasons.find(kUnusedReason); unused != reasons.end()) {
      const uint64_t bytes = unused->second.bytes();
      readers_->RetireUnnamed(published, std::move(unused->second));
      account->bytes -= bytes;
      reasons.erase(unused);
    }
    if (const auto released = reasons.find(kReleasedReason); released != reasons.end()) {
      for (const auto& [reason, ranges] : reasons) {
        if (reason != kReleasedReason) released->second.Remove(ranges);
      }
      const uint64_t bytes = released->second.bytes();
      assert(bytes <= account->bytes);
      readers_->Retire(published, std::move(released->second));
      account->bytes -= bytes;
      reasons.erase(released);
    }
  });
  if (reasons.contains(kUnusedReason) || reasons.contains(kReleasedReason)) unsettled_ = true;
}

void Accounts::FreeUnreadLocked() noexcept {
  if (std::exchange(unsettled_, false)) {
    for (auto next = accounts_.begin(); next != accounts_.end();) {
      const auto each = next++;
      SettleLocked(&each->second);
      ForgetIfGoneLocked(each->first);
    }
  }
  IfMemoryPermits([this] {
    mutex_.AssertHeld();
    while (const std::optional<ReaderLeases::Unread> unread = readers_->FirstUnread()) {
      GiveBackLocked(unread->range);
      readers_->NoteFreed(*unread);
    }
  });
}

// Without memory for the second, the first is done again, and has no effect then.
void Accounts::GiveBackLocked(ByteRange range) {
  if (options_.extent_owners != nullptr)
    options_.extent_owners->Remove(range.begin, range.end - range.begin);
  port::AllocationPoint("accounts: free");
  if (options_.store == nullptr) return FreeRangeLocked(range);
  unpersisted_.push_back({0, range});
  unpersisted_.back().change = options_.store->NoteChange();
}

void Accounts::FreeRangeLocked(ByteRange range) {
  const uint64_t bytes = range.end - range.begin;
  const Status status = allocator_.Free(range.begin, bytes);
  if (status.ok()) return;
  assert(false && "a byte without an owner was owned");
  Log().Error("memory is lost until this memory node restarts: {}", status.ToString());
}

void Accounts::FreeUnread() {
  const port::MutexLock lock(mutex_);
  FreeUnreadLocked();
}

void Accounts::ForgetIfGoneLocked(DatabaseIncarnation incarnation) noexcept {
  const auto found = accounts_.find(incarnation);
  if (found == accounts_.end()) return;
  const Account& account = found->second;
  if (account.listed || account.bytes > 0) return;
  const auto [begin, end] = by_name_.equal_range(account.identity->name);
  by_name_.erase(
      std::find_if(begin, end, [&](const auto& entry) { return entry.second == &account; }));
  accounts_.erase(found);
}

DatabasePointer Accounts::Find(const std::string& name) const {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindNameLocked(name);
  return account == nullptr ? nullptr : account->identity;
}

size_t Accounts::count() const {
  const port::MutexLock lock(mutex_);
  return listed_;
}

Status Accounts::Make(const std::string& name, bool room_is_coming, DatabasePointer* database) {
  const port::MutexLock lock(mutex_);
  AccountChange change;
  change.made = name;
  do {
    DLSM_RETURN_IF_ERROR(DrawIncarnation(&change.account));
  } while (accounts_.contains(change.account));
  if (QuotaLeftLocked(name, /*for_merges=*/false) < kDatabaseHeaderBytes) {
    return OverQuotaLocked(name, kDatabaseHeaderBytes);
  }
  const uint64_t usable = GrantableLocked();
  ByteRange header;
  if (usable < kDatabaseHeaderBytes || !FindRoomLocked(kDatabaseHeaderBytes, &header)) {
    PressReadersLocked();
    const Status full = NoRoomLocked(kDatabaseHeaderBytes, usable);
    const bool wait = room_is_coming || readers_->retired_bytes() > 0;
    return Status::FromCode(
        wait ? Status::Code::kTimedOut : full.code(),
        fmt::format("no room for another database: {}", full.message().ToStringView()));
  }
  std::memset(options_.memory->At(SpanOf(header.begin, kDatabaseHeaderBytes)), 0,
              kDatabaseHeaderBytes);
  change.steps.push_back(AccountStep::Allocate(kHeaderReason, header));
  const DatabaseIncarnation made = change.account;
  DLSM_RETURN_IF_ERROR(ApplyLocked(std::move(change)));
  *database = FindLocked(made)->identity;
  return Status::OK();
}

Status Accounts::Drop(const DatabaseIdentity& database) {
  AccountChange change;
  change.account = database.incarnation;
  change.dropped = true;
  change.owner_gone = true;
  change.steps.push_back(AccountStep::ReleaseAll(kLiveReason));
  change.steps.push_back(AccountStep::ReleaseAll(kHeaderReason));
  return Apply(std::move(change));
}

AccountManifest Accounts::ManifestOf(const DatabaseIdentity& database) const {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(database.incarnation);
  return account == nullptr ? AccountManifest() : account->manifest;
}

uint64_t Accounts::ManifestVersionOf(const DatabaseIdentity& database) const {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(database.incarnation);
  return account == nullptr ? 0 : account->manifest.version;
}

bool Accounts::IsLiveEmpty(const DatabaseIdentity& database) const {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(database.incarnation);
  return account == nullptr || BytesFor(*account, kLiveReason).empty();
}

ByteRanges Accounts::BytesOf(const DatabaseIdentity& database, ByteReason reason) const {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(database.incarnation);
  return account == nullptr ? ByteRanges() : BytesFor(*account, reason);
}

uint64_t Accounts::FencedBytes(const DatabaseIdentity& database, uint64_t number) const {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(database.incarnation);
  return account == nullptr ? 0 : BytesFor(*account, FencedReason(number)).bytes();
}

ListDatabasesReply Accounts::List() const {
  const port::MutexLock lock(mutex_);
  ListDatabasesReply reply;
  for (const auto& [name, account] : by_name_) {
    if (!account->listed) continue;
    const DatabaseIdentity& database = *account->identity;
    ByteRanges kept = readers_->RetiredOf(database.published);
    for (const auto& [reason, ranges] : account->reasons) {
      if (reason.kind != Kind::kInput && reason.kind != Kind::kOutput) kept.Add(ranges);
    }
    reply.databases.push_back({name, kept.bytes(), quotas_.Of(Quotas::OwnerOf(name)),
                               /*open=*/false, database.incarnation});
  }
  return reply;
}

void Accounts::Describe(NodeStatisticsReply* statistics) const {
  const port::MutexLock lock(mutex_);
  statistics->capacity_bytes = allocator_.capacity_bytes();
  statistics->used_bytes = allocator_.used_bytes() - UnpersistedBytesLocked();
  statistics->largest_free_bytes = allocator_.largest_free_bytes();
  statistics->databases = listed_;
}

size_t Accounts::free_extents() const {
  const port::MutexLock lock(mutex_);
  return allocator_.free_extents();
}

Status Accounts::CheckInvariants() const {
  const port::MutexLock lock(mutex_);
  DLSM_RETURN_IF_ERROR(allocator_.CheckInvariants());
  ByteRanges all = readers_->AllRetired();
  uint64_t bytes = all.bytes();
  for (const auto& [incarnation, account] : accounts_) {
    const std::string& name = account.identity->name;
    ByteRanges owned;
    for (const auto& [reason, ranges] : account.reasons) {
      if (ranges.empty()) return Status::Corruption("a reason is kept that no byte has");
      for (const auto& [begin, end] : ranges.ranges()) {
        if (reason.kind == Kind::kOutput && owned.Overlaps({begin, end})) {  // Outputs come last.
          return Status::Corruption("an output has two owners");
        }
      }
      owned.Add(ranges);
    }
    for (const auto& [begin, end] : BytesFor(account, kHeaderReason).ranges()) {
      if (BytesFor(account, kHeldReason).Overlaps({begin, end}) ||
          BytesFor(account, kLiveReason).Overlaps({begin, end})) {
        return Status::Corruption("a database's header has two owners");
      }
    }
    for (const auto& [begin, end] : owned.ranges()) {
      if (all.Overlaps({begin, end})) return Status::Corruption("two databases own one byte");
    }
    if (owned.bytes() != account.bytes) {
      return Status::Corruption(fmt::format("database '{}' counts {} bytes and has {}", name,
                                            account.bytes, owned.bytes()));
    }
    if (!account.listed && account.bytes == 0) {
      return Status::Corruption(fmt::format("database '{}' has gone and is kept", name));
    }
    all.Add(owned);
    bytes += owned.bytes();
  }
  for (const Unpersisted& free : unpersisted_) {
    if (all.Overlaps(free.range))
      return Status::Corruption("a byte that is given back has an owner");
    all.Add(free.range);
    bytes += free.range.end - free.range.begin;
  }
  if (bytes != allocator_.used_bytes()) {
    return Status::Corruption(
        fmt::format("{} bytes are allocated, {} have an owner", allocator_.used_bytes(), bytes));
  }
  return Status::OK();
}

}  // namespace dlsm
