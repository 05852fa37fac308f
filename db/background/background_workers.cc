#include "db/background/background_workers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "port/sync_point.h"

namespace dlsm {
namespace {

// How many houses of one memory node are kept at once, of all handles of the process together. Each
// may have to wait for a time-out; and where many handles are in use, so many calls under way are
// enough for a thousand a second if one takes 16 ms.
constexpr size_t kHousesAtOnce = 16;

// How often one that sleeps is kept all the same, and its memory node hears all of it.
constexpr std::chrono::milliseconds kOwnHeartbeatInterval{30'000};

// A handle that an operation has woken does not sleep again for so long.
constexpr auto kAwakeMin = std::chrono::seconds(1);

using Clock = BackgroundWorkers::Clock;

// The next multiple of kHouseInterval.
Clock::time_point RoundUp(Clock::time_point time) {
  constexpr auto kInterval =
      std::chrono::duration_cast<Clock::duration>(Background::kHouseInterval);
  return time + (kInterval - time.time_since_epoch() % kInterval);
}

}  // namespace

BackgroundWorkers::BackgroundWorkers(const Config& config, Parts parts)
    : parts_(std::move(parts)),
      flushes_{&Background::FlushOne, nullptr, &Background::flushes_fail, config.flush_threads},
      merges_{&Background::MergeOne, &Background::MergeWhileIdle, &Background::merges_fail,
              config.merge_threads} {
  const auto new_task = [this](Kind* kind) {
    return std::make_unique<ThreadPool::Task>(parts_.pool, static_cast<size_t>(kind->threads),
                                              [this, kind] { return Work(kind); });
  };
  flush_task_ = new_task(&flushes_);
  merge_task_ = new_task(&merges_);
  for (const House& house : parts_.houses) {
    KeptHouse* const kept = houses_.emplace_back(std::make_unique<KeptHouse>(house)).get();
    kept->task = std::make_unique<ThreadPool::Task>(
        parts_.pool, 1, [this, kept] { return KeepHouse(kept); },
        parts_.pool->GroupOf("memory node " + house.node, kHousesAtOnce));
  }
  for (const auto& kept : houses_) {
    SleepingSessions::Sleeper& sleeper = kept->sleeper;
    sleeper.rpc = kept->house.rpc;
    for (const House::Member& each : kept->house.shards) {
      sleeper.sessions.push_back(each.shard->session(each.node));
    }
    sleeper.renewed = [house = kept.get()](std::span<const RenewedSession> sessions) {
      NoteRenewed(house, sessions);
    };
    sleeper.forgotten = [house = kept.get()] {
      house->forgotten.store(true, std::memory_order_release);
      WakeUp(house);
    };
  }
  // From here on nothing fails.
  parts_.signal->Attach(flush_task_.get(), merge_task_.get());
  flush_task_->Wake();
  merge_task_->Wake();
  for (const auto& kept : houses_) {
    kept->sleeps_long = kept->house.rpc->WhenDisconnected([house = kept.get()] { WakeUp(house); });
    kept->task->Wake();
  }
}

BackgroundWorkers::~BackgroundWorkers() {
  StopWork();
  for (size_t i = 0; i < houses_.size(); ++i) StopHouse(i);
  parts_.signal->Detach();
}

void BackgroundWorkers::StopWork() {
  for (Background* shard : parts_.shards) shard->Stop();
  EndThreads();
}

void BackgroundWorkers::EndThreads() {
  if (stopping()) return;
  for (Background* shard : parts_.shards) shard->EndThreads();
  stopping_.store(true, std::memory_order_release);
  flush_task_->Stop();
  merge_task_->Stop();
}

void BackgroundWorkers::StopHouse(size_t house) {
  KeptHouse& kept = *houses_[house];
  kept.house.rpc->WhenDisconnected({});
  kept.task->Stop();
  SleepWithOthers(&kept, false);
}

// Another shard's memtable may be the one that has to make room.
void BackgroundWorkers::LookAtMemtable(size_t shard) {
  const std::vector<Background*>& shards = parts_.shards;
  shards[shard]->LookAtMemtable();
  if (shards[shard]->TakeHouseIsDue()) WakeHouses();
  if (shards.size() == 1) return;
  const size_t largest = parts_.budget->ShardToSwitch();
  if (largest != MemtableBudget::kNone && largest != shard) shards[largest]->LookAtMemtable();
}

void BackgroundWorkers::WakeHouses() noexcept {
  for (const auto& kept : houses_) {
    kept->room_is_due.store(true, std::memory_order_release);
    kept->task->Wake();
  }
}

void BackgroundWorkers::WakeUp() noexcept {
  for (Background* shard : parts_.shards) shard->NoteWoken();
  for (const auto& kept : houses_) WakeUp(kept.get());
}

void BackgroundWorkers::WakeUp(KeptHouse* kept) noexcept {
  kept->used.store(true, std::memory_order_release);
  kept->task->Wake();
}

// -------- Flushes and merges

Clock::time_point BackgroundWorkers::Work(Kind* kind) {
  auto due = Clock::time_point::max();
  while (!stopping() && WorkOnce(kind, &due)) due = Clock::time_point::max();
  return due;
}

bool BackgroundWorkers::WorkOnce(Kind* kind, Clock::time_point* due) {
  return WorkAtAny(kind, kind->work, due) ||
         (kind->while_idle != nullptr && WorkAtAny(kind, kind->while_idle, due));
}

bool BackgroundWorkers::WorkAtAny(Kind* kind, Piece piece, Clock::time_point* due) {
  const std::vector<Background*>& shards = parts_.shards;
  const size_t first = kind->next.load(std::memory_order_relaxed);
  for (size_t i = 0; i < shards.size(); ++i) {
    const size_t shard = (first + i) % shards.size();
    kind->next.store((shard + 1) % shards.size(), std::memory_order_relaxed);
    if (!WorkAt(kind, piece, shards[shard], due)) continue;
    // What one shard's flush has freed, others may take.
    if (kind == &flushes_ && shards.size() > 1) {
      for (Background* each : shards) each->LookIfWritersWait();
    }
    return true;
  }
  return false;
}

bool BackgroundWorkers::WorkAt(Kind* kind, Piece piece, Background* shard, Clock::time_point* due) {
  if (parts_.shards.size() == 1 || kind->threads == 1 || !(shard->*kind->fails)()) {
    return (shard->*piece)(due);
  }
  // A thread that is not permitted does not learn when the work is to be tried again, and perhaps
  // none does: two may keep each other off.
  constexpr auto kLookAgain = std::chrono::milliseconds(50);
  const bool permitted = kind->failing.fetch_add(1, std::memory_order_relaxed) < kind->threads - 1;
  if (!permitted) *due = std::min(*due, Clock::now() + kLookAgain);
  const bool worked = permitted && (shard->*piece)(due);
  kind->failing.fetch_sub(1, std::memory_order_relaxed);
  return worked;
}

// -------- Houses

// Who stops it waits for what one shard sends, not for all of them: a memory node that hangs may
// take a time-out for each.
Clock::time_point BackgroundWorkers::KeepHouse(KeptHouse* kept) {
  port::SyncPoint(kept->begun ? "house: look" : "house: first look");
  const bool room_is_due = kept->room_is_due.exchange(false, std::memory_order_acquire);
  // Whether somebody writes cannot be told before the second look. But the first one may be late,
  // so that writers wait already for what they have asked for.
  if (!std::exchange(kept->begun, true)) {
    for (const House::Member& each : kept->house.shards) {
      if (room_is_due) each.shard->NoticeRoom(each.node);
    }
    return Clock::now() + Background::kHouseInterval;
  }
  for (const House::Member& each : kept->house.shards) {
    if (kept->task->stopping()) break;
    each.shard->KeepHouse(each.node);
  }
  if (kept->used.exchange(false, std::memory_order_acq_rel)) {
    kept->used_until = Clock::now() + kAwakeMin;
  }
  const bool asleep = FallAsleep(kept);
  if (!asleep) SleepWithOthers(kept, false);
  const Clock::time_point next = SendHeartbeats(kept, asleep);
  // Now that they were renewed, or are about to be.
  if (asleep && kept->sleeps_long && !kept->task->stopping()) SleepWithOthers(kept, true);
  return RoundUp(asleep ? next : Clock::now());
}

void BackgroundWorkers::SleepWithOthers(KeptHouse* kept, bool sleep) {
  if (kept->with_others == sleep) return;
  if (sleep) {
    kept->with_others = kept->house.sleeping->Add(&kept->sleeper);
  } else {
    kept->house.sleeping->Remove(&kept->sleeper);
    kept->with_others = false;
  }
}

void BackgroundWorkers::NoteRenewed(KeptHouse* kept, std::span<const RenewedSession> sessions) {
  const std::vector<House::Member>& members = kept->house.shards;
  for (size_t i = 0; i < members.size(); ++i) {
    members[i].shard->NoteRenewed(members[i].node, sessions[i]);
    // What is used without an operation of the handle, as an iterator is, wakes nobody.
    if (!members[i].shard->Rests(members[i].node)) WakeUp(kept);
  }
}

// Operations that begin from then on wake the handle; what others have done is looked for after
// that.
bool BackgroundWorkers::FallAsleep(KeptHouse* kept) {
  const auto rest = [kept] {
    return std::ranges::all_of(
        kept->house.shards, [](const House::Member& each) { return each.shard->Rests(each.node); });
  };
  if (Clock::now() < kept->used_until || !rest()) return false;
  parts_.state->FallAsleep();
  return rest();
}

std::chrono::milliseconds BackgroundWorkers::HeartbeatInterval(const KeptHouse& kept, bool asleep) {
  const Background& any = *kept.house.shards.front().shard;
  if (!asleep || !kept.sleeps_long) return any.heartbeat_interval();
  return kept.with_others ? kOwnHeartbeatInterval : any.sleeping_heartbeat_interval();
}

Clock::time_point BackgroundWorkers::SendHeartbeats(KeptHouse* kept, bool asleep) {
  const std::chrono::milliseconds interval = HeartbeatInterval(*kept, asleep);
  const Clock::time_point now = Clock::now();
  const bool forgotten = kept->forgotten.exchange(false, std::memory_order_acq_rel);
  if (!forgotten && now < kept->heartbeat_at + interval) return kept->heartbeat_at + interval;
  kept->heartbeat_at = now;
  for (const House::Member& each : kept->house.shards) {
    if (kept->task->stopping()) break;
    each.shard->Heartbeat(each.node, asleep);
  }
  if (!asleep) kept->house.merge_load->SampleCpu();
  return now + interval;
}

}  // namespace dlsm
