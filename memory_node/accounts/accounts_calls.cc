// The part of Accounts that makes a change out of each call: of an owner, of a session that begins
// or ends, and of a merge.
#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "memory_node/accounts/accounts.h"
#include "port/allocation_point.h"
#include "util/format_bytes.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint64_t kGrantBytesMax = uint64_t{8} << 30;

AccountChange ChangeOf(const DatabaseIdentity& database) {
  AccountChange change;
  change.account = database.incarnation;
  return change;
}

// Of what only a database has that is listed, or has bytes yet.
Status HasGone(const DatabaseIdentity& database) {
  return Status::IOError(fmt::format("database '{}' has gone", database.name));
}

}  // namespace

Status Accounts::BeginOwner(const DatabaseIdentity& database, uint64_t* unnamed_before) {
  const port::MutexLock lock(mutex_);
  *unnamed_before = readers_->UnnamedFromOf(database.published);
  AccountChange change = ChangeOf(database);
  change.owner_gone = true;
  change.steps.push_back(AccountStep::CopyAll(kLiveReason, kHeldReason));
  return ApplyLocked(std::move(change));
}

Status Accounts::EndSession(const DatabaseIdentity& database, const SessionEnd& end) {
  const ByteReason fenced = FencedReason(end.number);
  AccountChange change = ChangeOf(database);
  change.owner_gone = end.owner_gone;
  change.unnamed_from = end.unnamed_from;
  if (end.owner) change.steps.push_back(AccountStep::MoveAll(kHeldReason, fenced));
  if (end.fences_live) change.steps.push_back(AccountStep::CopyAll(kLiveReason, fenced));
  // The client reaches the header as well, also with a session that holds nothing.
  change.steps.push_back(AccountStep::CopyAll(kHeaderReason, fenced));
  return Apply(std::move(change));
}

Status Accounts::EndFence(const DatabaseIdentity& database, uint64_t number) {
  const port::MutexLock lock(mutex_);
  if (FindLocked(database.incarnation) == nullptr) return Status::OK();  // Nothing is fenced.
  AccountChange change = ChangeOf(database);
  change.steps.push_back(AccountStep::ReleaseAll(FencedReason(number)));
  return ApplyLocked(std::move(change));
}

Status Accounts::Grant(const DatabaseIdentity& database, SessionId session,
                       const GrantRequest& request, RemoteSpan* extent) {
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
  const uint64_t least = std::max<uint64_t>(request.bytes_min, 1);
  const uint64_t quota_left = QuotaLeftLocked(database.name, request.for_merge);
  const uint64_t room = request.for_merge ? FreeLocked() : GrantableLocked();
  const uint64_t usable = std::min(room, quota_left) / kExtentAlignment * kExtentAlignment;
  if (least > usable) {
    const bool over_quota = quota_left < room;
    NoteRefusedLocked(database.name, session, over_quota);
    return over_quota ? OverQuotaLocked(database.name, least) : NoRoomLocked(least, usable);
  }
  // Both fit into the region from here on, so rounding up does not overflow.
  uint64_t bytes = RoundUpToExtent(std::min({request.bytes, usable, kGrantBytesMax}));
  if (bytes > allocator_.largest_free_bytes()) bytes = allocator_.largest_free_bytes();
  ByteRange range;
  if (bytes < RoundUpToExtent(least) || !FindRoomLocked(bytes, &range)) {
    NoteRefusedLocked(database.name, session, /*over_quota=*/false);
    return NoRoomLocked(least, usable);
  }
  AccountChange change = ChangeOf(database);
  change.steps.push_back(AccountStep::Allocate(kHeldReason, range));
  DLSM_RETURN_IF_ERROR(ApplyLocked(std::move(change)));
  *extent = SpanOf(range.begin, bytes);
  return Status::OK();
}

Status Accounts::Free(const DatabaseIdentity& database, const std::vector<RemoteSpan>& spans,
                      uint64_t unnamed_from, ByteRanges* freed) {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(database.incarnation);
  if (account == nullptr) return HasGone(database);
  const ByteRanges& held = BytesFor(*account, kHeldReason);
  ByteRanges given_back;
  for (const RemoteSpan& span : spans) {
    ByteRange range;
    DLSM_RETURN_IF_ERROR(RangeOf(span, &range));
    if (!held.Contains(range) || given_back.Overlaps(range)) {
      return Status::InvalidArgument(
          fmt::format("database '{}' does not hold the {} bytes at offset {} that it gives back",
                      database.name, span.bytes, span.offset));
    }
    given_back.Add(range);
  }
  AccountChange change = ChangeOf(database);
  change.unnamed_from = unnamed_from;
  change.steps.push_back(AccountStep::Release(kHeldReason, given_back));
  DLSM_RETURN_IF_ERROR(ApplyLocked(std::move(change)));
  *freed = std::move(given_back);
  return Status::OK();
}

Status Accounts::Release(const DatabaseIdentity& database, ByteRanges held) {
  AccountChange change = ChangeOf(database);
  change.steps.push_back(AccountStep::Release(kHeldReason, std::move(held)));
  return Apply(std::move(change));
}

Status Accounts::PutManifest(const DatabaseIdentity& database, const PutManifestRequest& request) {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(database.incarnation);
  if (account == nullptr) return HasGone(database);
  if (request.version <= account->manifest.version) {
    return Status::Aborted(fmt::format("manifest version {} is not newer than version {}",
                                       request.version, account->manifest.version));
  }
  const ByteRanges& held = BytesFor(*account, kHeldReason);
  ByteRanges live;
  for (const RemoteSpan& span : request.live) {
    ByteRange range;
    DLSM_RETURN_IF_ERROR(RangeOf(span, &range));
    if (!held.Contains(range)) {
      return Status::InvalidArgument(
          fmt::format("database '{}' does not hold the {} bytes at offset {} that its manifest "
                      "refers to",
                      database.name, span.bytes, span.offset));
    }
    live.Add(range);
  }
  // It may be large: first, so that the version is never that of another one.
  port::AllocationPoint("memory node: manifest");
  AccountChange change = ChangeOf(database);
  change.manifest = AccountManifest{request.version, request.manifest};
  change.steps.push_back(AccountStep::ReleaseAll(kLiveReason));
  change.steps.push_back(AccountStep::Copy(kHeldReason, kLiveReason, std::move(live)));
  return ApplyLocked(std::move(change));
}

Status Accounts::UnnamedFrom(const DatabaseIdentity& database, uint64_t publication) {
  if (publication == PublishedDatabase::kUnknown) return Status::OK();
  AccountChange change = ChangeOf(database);
  change.unnamed_from = publication;
  return Apply(std::move(change));
}

Status Accounts::BeginMerge(const DatabaseIdentity& database, uint64_t merge,
                            const std::vector<RemoteSpan>& inputs) {
  const port::MutexLock lock(mutex_);
  const Account* const account = FindLocked(database.incarnation);
  if (account == nullptr) return HasGone(database);
  const ByteRanges& held = BytesFor(*account, kHeldReason);
  ByteRanges taken;
  for (const RemoteSpan& span : inputs) {
    ByteRange range;
    DLSM_RETURN_IF_ERROR(RangeOf(span, &range));
    if (!held.Contains(range)) {
      return Status::InvalidArgument(fmt::format(
          "database '{}' does not hold the table of {} bytes at offset {} that it wants "
          "merged",
          database.name, span.bytes, span.offset));
    }
    if (taken.Overlaps(range)) {
      return Status::InvalidArgument("a merge takes the same table twice");
    }
    taken.Add(range);
  }
  AccountChange change = ChangeOf(database);
  change.steps.push_back(AccountStep::Copy(kHeldReason, InputReason(merge), std::move(taken)));
  return ApplyLocked(std::move(change));
}

Status Accounts::AllocateOutput(const DatabaseIdentity& database, uint64_t merge, uint64_t bytes,
                                RemoteSpan* span, bool* in_vain) {
  const port::MutexLock lock(mutex_);
  const uint64_t rounded = RoundUpToExtent(std::max<uint64_t>(bytes, 1));
  if (QuotaLeftLocked(database.name, /*for_merges=*/true) < rounded) {
    return OverQuotaLocked(database.name, rounded);
  }
  ByteRange range;
  *in_vain = !FindRoomLocked(bytes, &range);
  if (*in_vain) return NoRoomLocked(bytes, FreeLocked());
  AccountChange change = ChangeOf(database);
  change.steps.push_back(AccountStep::Allocate(OutputReason(merge), range));
  DLSM_RETURN_IF_ERROR(ApplyLocked(std::move(change)));
  *span = SpanOf(range.begin, rounded);
  return Status::OK();
}

Status Accounts::ShrinkOutput(const DatabaseIdentity& database, uint64_t merge,
                              const RemoteSpan& allocated, uint64_t bytes) {
  const uint64_t kept = RoundUpToExtent(bytes);
  assert(kept <= allocated.bytes);
  ByteRanges rest;
  rest.Add(ByteRange{allocated.offset + kept, allocated.offset + allocated.bytes});
  AccountChange change = ChangeOf(database);
  change.steps.push_back(AccountStep::Free(OutputReason(merge), std::move(rest)));
  return Apply(std::move(change));
}

ByteRanges Accounts::OutputsOf(const DatabaseIdentity& database, uint64_t merge) const {
  return BytesOf(database, OutputReason(merge));
}

Status Accounts::KeepOutputs(const DatabaseIdentity& database, uint64_t merge) {
  AccountChange change = ChangeOf(database);
  change.steps.push_back(AccountStep::MoveAll(OutputReason(merge), kHeldReason));
  return Apply(std::move(change));
}

Status Accounts::EndMerge(const DatabaseIdentity& database, uint64_t merge, bool in_vain) {
  const port::MutexLock lock(mutex_);
  if (in_vain) PressReadersLocked();
  if (FindLocked(database.incarnation) == nullptr) return Status::OK();  // The merge had nothing.
  AccountChange change = ChangeOf(database);
  change.steps.push_back(AccountStep::FreeAll(OutputReason(merge)));
  change.steps.push_back(AccountStep::ReleaseAll(InputReason(merge)));
  return ApplyLocked(std::move(change));
}

}  // namespace dlsm
