#include "memory_node/accounts/revocations.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "memory_node/accounts/call_rights.h"
#include "port/allocation_point.h"
#include "util/log.h"
#include "util/out_of_memory.h"

namespace dlsm {

Revocations::Prepared Revocations::Prepare(EndedSession ended) {
  port::AllocationPoint("memory node: session ends");
  Revocation revocation;
  revocation.untold = std::exchange(ended.tokens, {});
  revocation.cut_off = revocation.untold.empty();
  revocation.let_go = ended.let_go;
  if (!ended.connected) revocation.gone_at = ended.ends_at;
  Connections connections{ended.connection};
  revocation.ended = std::move(ended);
  Map made;
  {
    const port::MutexLock lock(mutex_);
    made.emplace(next_++, std::move(revocation));
  }
  Prepared prepared;
  prepared.revocation_ = made.extract(made.begin());
  prepared.connection_ = connections.extract(connections.begin());
  return prepared;
}

void Revocations::Begin(Prepared prepared, std::function<void()>* done) noexcept {
  const port::MutexLock lock(mutex_);
  const auto begun = revocations_.insert(std::move(prepared.revocation_)).position;
  if (begun->second.cut_off) {
    IfMemoryPermits([&] {  // Otherwise EndThoseOver() does.
      mutex_.AssertHeld();
      EndLocked(begun);
    });
    return;
  }
  begun->second.done = std::exchange(*done, {});
  if (begun->second.ended.connected) cut_off_.insert(std::move(prepared.connection_));
  RevokeLocked(begun);
}

void Revocations::RevokeLocked(Map::iterator revocation) noexcept {
  assert(revoker_ != nullptr);
  IfMemoryPermits([this, revocation] {
    port::AllocationPoint("memory node: revoked");
    revoker_->Revoke(
        revocation->second.untold,
        [this, number = revocation->first](const Status& status) { Revoked(number, status); });
    revocation->second.untold.clear();
  });
}

void Revocations::Revoked(uint64_t number, const Status& status) {
  RequireSpareMemory();  // Without it, this is told again later.
  std::function<void()> done;
  {
    const port::MutexLock lock(mutex_);
    const auto found = revocations_.find(number);
    if (found == revocations_.end()) return;  // It was told before, and there was no memory then.
    Revocation& revocation = found->second;
    const DatabaseIdentity& database = *revocation.ended.database;
    done = std::exchange(revocation.done, {});
    if (status.ok()) {
      if (!revocation.failure.ok()) {
        Log().Info("{} bytes of database '{}' are in quarantine no more",
                   accounts_->FencedBytes(database, number), database.name);
      }
      revocation.failure = Status::OK();
      revocation.failure.PermitUncheckedError();
      revocation.cut_off = true;
      // A caller that waits for `done` is told all the same.
      const Status ended = WithinMemory(
          [&] {
            mutex_.AssertHeld();
            EndLocked(found);
            return Status::OK();
          },
          &OutOfNodeMemory);
      if (!ended.ok()) {
        Log().Error("memory of a session stays fenced for now: {}", ended.message().ToStringView());
      }
    } else {
      if (revocation.failure.ok() && !status.IsAborted()) {
        Log().Error(
            "{} bytes of database '{}' are in quarantine, because the access of {} to them could "
            "not be taken away: {}; it is tried again, and they are not used before that has "
            "succeeded",
            accounts_->FencedBytes(database, number), database.name, revocation.ended.client,
            status.message().ToStringView());
      }
      revocation.failure = status;
      revocation.failure.PermitUncheckedError();  // Only whether there is one matters.
    }
  }
  if (done) done();
}

void Revocations::EndLocked(Map::iterator revocation) {
  if (!revocation->second.cut_off || !revocation->second.let_go) return;
  // The fence first: if there is no memory for that, it is tried again.
  const Status ended = accounts_->EndFence(*revocation->second.ended.database, revocation->first);
  assert(ended.ok());
  ended.PermitUncheckedError();
  revocations_.erase(revocation);
}

void Revocations::Restore(uint64_t number, DatabasePointer database, bool blocks,
                          Clock::time_point gone_at) {
  Revocation revocation;
  revocation.ended.database = std::move(database);
  revocation.ended.client = "a client of before this memory node was started again";
  revocation.ended.connected = false;
  revocation.ended.blocks = blocks;
  revocation.ended.let_go = false;
  revocation.cut_off = true;  // Its tokens ended with the process.
  revocation.let_go = false;
  revocation.gone_at = gone_at;
  const port::MutexLock lock(mutex_);
  revocations_.emplace(number, std::move(revocation));
  next_ = std::max(next_, number + 1);
}

void Revocations::LetGo(SessionId session) {
  const port::MutexLock lock(mutex_);
  for (auto& [number, revocation] : revocations_) {
    if (revocation.ended.session == session) revocation.let_go = true;
  }
  EndThoseOverLocked();
}

void Revocations::NoteAlive(const RpcPeer& peer, SessionId session) {
  const port::MutexLock lock(mutex_);
  for (auto& [number, revocation] : revocations_) {
    EndedSession& ended = revocation.ended;
    if (ended.session != session || peer.connection <= ended.connection) continue;
    if (!CheckMayOwn(peer, ended.database->name).ok()) continue;
    ended.connection = peer.connection;
    revocation.gone_at = Clock::time_point::max();
  }
}

void Revocations::Disconnected(uint64_t connection, Clock::time_point gone_at) {
  const port::MutexLock lock(mutex_);
  for (auto& [number, revocation] : revocations_) {
    if (revocation.ended.connection == connection) revocation.gone_at = gone_at;
  }
  cut_off_.erase(connection);
}

void Revocations::MoveOn(std::chrono::nanoseconds by) {
  const port::MutexLock lock(mutex_);
  for (auto& [number, revocation] : revocations_) {
    if (revocation.gone_at != Clock::time_point::max()) revocation.gone_at += by;
  }
}

void Revocations::NoteGone(Clock::time_point now) {
  const port::MutexLock lock(mutex_);
  for (auto& [number, revocation] : revocations_) {
    if (revocation.gone_at <= now) revocation.let_go = true;
  }
}

void Revocations::EndThoseOver() {
  const port::MutexLock lock(mutex_);
  EndThoseOverLocked();
}

void Revocations::EndThoseOverLocked() {
  if (revocations_.empty()) return;
  port::AllocationPoint("memory node: revocations");
  RequireSpareMemory();
  for (auto next = revocations_.begin(); next != revocations_.end();) {
    const auto each = next++;
    if (!each->second.untold.empty()) RevokeLocked(each);
    EndLocked(each);
  }
}

bool Revocations::IsCutOff(uint64_t connection) const {
  const port::MutexLock lock(mutex_);
  return cut_off_.contains(connection);
}

std::optional<Revocations::Blocked> Revocations::BlockOn(const DatabaseIdentity& database) const {
  const port::MutexLock lock(mutex_);
  for (const auto& [number, revocation] : revocations_) {
    if (revocation.ended.database.get() != &database || !revocation.ended.blocks) continue;
    return Blocked{revocation.ended.client, revocation.failure};
  }
  return std::nullopt;
}

bool Revocations::Pending(const DatabaseIdentity& database) const {
  const port::MutexLock lock(mutex_);
  return std::any_of(revocations_.begin(), revocations_.end(), [&database](const auto& each) {
    return each.second.ended.database.get() == &database && !each.second.cut_off;
  });
}

bool Revocations::empty() const {
  const port::MutexLock lock(mutex_);
  return revocations_.empty();
}

uint64_t Revocations::quarantined_bytes() const {
  const port::MutexLock lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [number, revocation] : revocations_) {
    if (revocation.failure.ok()) continue;
    bytes += accounts_->FencedBytes(*revocation.ended.database, number);
  }
  return bytes;
}

}  // namespace dlsm
