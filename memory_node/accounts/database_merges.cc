// The merges that run at the memory node: the part of DatabaseTable that keeps their inputs and
// outputs.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <memory>
#include <new>
#include <utility>

#include "memory_node/accounts/database_table.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

Status DatabaseTable::BeginMerge(const RpcPeer& peer, SessionId session_id,
                                 const MergeNumber& number, const std::vector<RemoteSpan>& inputs,
                                 std::unique_ptr<MergeHold>* hold) {
  const port::MutexLock lock(mutex_);
  SessionMap::iterator session;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, session_id, &session));
  SettleMergesLocked(session, number.answers);
  auto merge = std::make_unique<Merge>();
  merge->database = session->second.database;
  merge->session = session_id;
  merge->number = number.own;
  merge->connection = peer.connection;
  for (const RemoteSpan& span : inputs) {
    ByteRange range;
    DLSM_RETURN_IF_ERROR(RangeOf(span, &range));
    if (!merge->database->held.Contains(range)) {
      return Status::InvalidArgument(fmt::format(
          "database '{}' does not hold the table of {} bytes at offset {} that it wants "
          "merged",
          merge->database->name, span.bytes, span.offset));
    }
    if (merge->inputs.Overlaps(range)) {
      return Status::InvalidArgument("a merge takes the same table twice");
    }
    merge->inputs.Add(range);
  }
  DLSM_RETURN_IF_ERROR(session->second.merges.Begin(number.own));
  Merge* const key = merge.get();
  const auto begun = merges_.emplace(key, std::move(merge)).first;
  try {
    *hold = std::make_unique<MergeHold>(this, key);
  } catch (const std::bad_alloc&) {
    merges_.erase(begun);  // Nobody else would.
    throw;
  }
  return Status::OK();
}

void DatabaseTable::SettleMergesLocked(SessionMap::iterator session, const MergeAnswers& answers) {
  Database& database = *session->second.database;
  ByteRanges lost = session->second.merges.Settle(answers);
  for (const auto& [key, merge] : merges_) {
    if (merge->session != session->first || session->second.merges.IsAwaited(merge->number)) {
      continue;
    }
    merge->cancelled.store(true, std::memory_order_relaxed);
  }
  if (lost.empty()) return;
  Log().Info("{} bytes of database '{}' are free again: answers to merges that made them were lost",
             lost.bytes(), database.name);
  database.held.Remove(lost);
  ReleaseLocked(&database, std::move(lost));
}

void DatabaseTable::CancelMerges() {
  const port::MutexLock lock(mutex_);
  for (const auto& [key, merge] : merges_) merge->cancelled.store(true, std::memory_order_relaxed);
}

Status DatabaseTable::AllocateOutput(Merge* merge, uint64_t bytes, RemoteSpan* span) {
  const port::MutexLock lock(mutex_);
  uint64_t offset = 0;
  const uint64_t rounded = RoundUpToExtent(std::max<uint64_t>(bytes, 1));
  if (QuotaLeftLocked(*merge->database, /*for_merges=*/true) < rounded) {
    return OverQuotaLocked(*merge->database, rounded);
  }
  // Whoever is refused a large piece may make do with a smaller one.
  merge->in_vain = !AllocateLocked(merge->database.get(), bytes, &offset);
  if (merge->in_vain) return NoRoomLocked(bytes, allocator_.free_bytes());
  merge->outputs.Add({offset, offset + rounded});
  *span = SpanOf(offset, rounded);
  return Status::OK();
}

void DatabaseTable::ShrinkOutput(Merge* merge, const RemoteSpan& allocated, uint64_t bytes) {
  const port::MutexLock lock(mutex_);
  const uint64_t kept = RoundUpToExtent(bytes);
  assert(kept <= allocated.bytes);
  ByteRanges rest;
  rest.Add(ByteRange{allocated.offset + kept, allocated.offset + allocated.bytes});
  merge->outputs.Remove(rest);
  FreeRangesLocked(merge->database.get(), rest);
}

Status DatabaseTable::KeepOutputs(Merge* merge) {
  const port::MutexLock lock(mutex_);
  FenceLostOwnerLocked(*merge->database);
  // Cancelled: the session has ended, or the connection that waits for the answer, or its client
  // has told that it waits no more.
  if (merge->cancelled.load(std::memory_order_relaxed)) {
    return Status::Aborted("nobody waits for the answer to this merge any more");
  }
  assert(merge->database->session == merge->session);
  sessions_.at(merge->session).merges.Kept(merge->number, merge->outputs);
  merge->database->held.Add(std::exchange(merge->outputs, ByteRanges()));
  return Status::OK();
}

void DatabaseTable::EndMerge(Merge* merge) noexcept {
  const Status ended = WithinMemory(
      [&] {
        const port::MutexLock lock(mutex_);
        EndMergeLocked(merge);
        return Status::OK();
      },
      &OutOfNodeMemory);
  // There is none for a few words, a moment after there was for its outputs.
  if (!ended.ok()) {
    Log().Critical("memory of a merge is lost until this memory node restarts: {}",
                   ended.message().ToStringView());
  }
}

void DatabaseTable::EndMergeLocked(Merge* merge) {
  const auto found = merges_.find(merge);
  assert(found != merges_.end());
  const std::unique_ptr<Merge> ended = std::move(found->second);
  merges_.erase(found);
  if (ended->in_vain) PressReadersLocked();
  FreeRangesLocked(ended->database.get(), ended->outputs);
  ReleaseLocked(ended->database.get(), std::move(ended->inputs));
}

}  // namespace dlsm
