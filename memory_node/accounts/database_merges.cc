// The merges that run at the memory node: the part of DatabaseTable that knows whose they are.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <memory>
#include <utility>

#include "memory_node/accounts/database_table.h"
#include "port/allocation_point.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

Status DatabaseTable::BeginMerge(const RpcPeer& peer, SessionId session_id,
                                 const MergeNumber& number, const std::vector<RemoteSpan>& inputs,
                                 std::unique_ptr<MergeHold>* hold) {
  // It goes after the lock: what has begun when something fails is ended as any merge is.
  auto made = std::make_unique<MergeHold>(this);
  const port::MutexLock lock(mutex_);
  Session* session = nullptr;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, session_id, &session));
  SettleMergesLocked(session_id, number.answers, session);
  auto merge = std::make_unique<Merge>();
  const uint64_t id = next_merge_++;
  merge->id = id;
  merge->database = session->database;
  merge->session = session_id;
  merge->number = number.own;
  merge->connection = peer.connection;
  port::AllocationPoint("memory node: merge begins");
  made->merge_ = merges_.emplace(id, std::move(merge)).first->second.get();
  DLSM_RETURN_IF_ERROR(session->merges.Begin(number.own));
  // Last, for the number of a merge that has not begun is remembered without harm.
  DLSM_RETURN_IF_ERROR(accounts_.BeginMerge(*session->database, id, inputs));
  NoteChange();
  *hold = std::move(made);
  return Status::OK();
}

void DatabaseTable::SettleMergesLocked(SessionId id, const MergeAnswers& answers,
                                       Session* session) {
  NumberedMerges::Settlement settlement = session->merges.SettlementOf(answers);
  if (!settlement.lost.empty()) {
    Log().Info(
        "{} bytes of database '{}' are free again: answers to merges that made them were lost",
        settlement.lost.bytes(), session->database->name);
    // Before they are forgotten: if there is no memory for it, the client tells of them again.
    const Status released = accounts_.Release(*session->database, std::move(settlement.lost));
    assert(released.ok());
    released.PermitUncheckedError();
  }
  session->merges.Settle(std::move(settlement));
  for (const auto& [number, merge] : merges_) {
    if (merge->session != id || session->merges.IsAwaited(merge->number)) continue;
    merge->cancelled.store(true, std::memory_order_relaxed);
  }
}

void DatabaseTable::CancelMerges() {
  const port::MutexLock lock(mutex_);
  for (const auto& [id, merge] : merges_) merge->cancelled.store(true, std::memory_order_relaxed);
}

Status DatabaseTable::KeepOutputs(Merge* merge) {
  const port::MutexLock lock(mutex_);
  FenceLostOwnerLocked(*merge->database);
  // Cancelled: the session has ended, or the connection that waits for the answer, or its client
  // has told that it waits no more.
  Session* const session = sessions_.Find(merge->session);
  if (merge->cancelled.load(std::memory_order_relaxed) || session == nullptr ||
      !session->merges.IsAwaited(merge->number)) {
    return Status::Aborted("nobody waits for the answer to this merge any more");
  }
  assert(ownership_.IsOwner(merge->session));
  ByteRanges outputs = accounts_.OutputsOf(*merge->database, merge->id);
  DLSM_RETURN_IF_ERROR(accounts_.KeepOutputs(*merge->database, merge->id));
  session->merges.Kept(merge->number, std::move(outputs));
  NoteChange();
  return Status::OK();
}

void DatabaseTable::EndMerge(Merge* merge) noexcept {
  const port::MutexLock lock(mutex_);
  merge->ended = true;
  IfMemoryPermits([&] {  // Otherwise EndExpiredSessions() does.
    mutex_.AssertHeld();
    EndMergeLocked(merge);
  });
}

// The account first, for what is not known any more is not tried again.
void DatabaseTable::EndMergeLocked(Merge* merge) {
  const Status ended = accounts_.EndMerge(*merge->database, merge->id, merge->in_vain);
  assert(ended.ok());
  ended.PermitUncheckedError();
  merges_.erase(merge->id);
}

void DatabaseTable::EndMergesOverLocked() {
  for (auto next = merges_.begin(); next != merges_.end();) {
    const auto each = next++;
    if (each->second->ended) EndMergeLocked(each->second.get());
  }
}

}  // namespace dlsm
