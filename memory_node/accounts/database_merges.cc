// The merges that run at the memory node: the part of DatabaseTable that knows whose they are.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <memory>
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
  Session* session = nullptr;
  DLSM_RETURN_IF_ERROR(FindSessionLocked(peer, session_id, &session));
  SettleMergesLocked(session_id, number.answers, session);
  auto merge = std::make_unique<Merge>();
  const uint64_t id = next_merge_++;
  const DatabasePointer database = session->database;
  merge->id = id;
  merge->database = database;
  merge->session = session_id;
  merge->number = number.own;
  merge->connection = peer.connection;
  Merge* const begun = merge.get();
  DLSM_RETURN_IF_ERROR(accounts_.BeginMerge(*database, id, inputs));
  const Status held = WithinMemory(
      [&]() -> Status {
        mutex_.AssertHeld();
        DLSM_RETURN_IF_ERROR(session->merges.Begin(number.own));
        merges_.emplace(begun->id, std::move(merge));
        *hold = std::make_unique<MergeHold>(this, begun);
        return Status::OK();
      },
      &OutOfNodeMemory);
  if (held.ok()) return held;
  // Without a hold nothing else would give the inputs back.
  DLSM_RETURN_IF_ERROR(accounts_.EndMerge(*database, id, /*in_vain=*/false));
  merges_.erase(id);
  return held;
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
  return Status::OK();
}

void DatabaseTable::EndMerge(Merge* merge) noexcept {
  const Status ended = WithinMemory(
      [&] {
        const port::MutexLock lock(mutex_);
        const auto found = merges_.find(merge->id);
        assert(found != merges_.end());
        const std::unique_ptr<Merge> over = std::move(found->second);
        merges_.erase(found);
        return accounts_.EndMerge(*over->database, over->id, over->in_vain);
      },
      &OutOfNodeMemory);
  // There is none for a few words, a moment after there was for its outputs.
  if (!ended.ok()) {
    Log().Critical("memory of a merge is lost until this memory node restarts: {}",
                   ended.message().ToStringView());
  }
}

}  // namespace dlsm
