#include "db/background_workers.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "port/thread.h"
#include "util/out_of_memory.h"

namespace dlsm {

using Clock = Background::Clock;

BackgroundWorkers::BackgroundWorkers(const Config& config, std::vector<Background*> shards,
                                     std::vector<House> houses, const MemtableBudget* budget,
                                     WorkSignal* signal)
    : shards_(std::move(shards)),
      houses_(std::move(houses)),
      budget_(budget),
      signal_(signal),
      flushes_{&Background::FlushOne, nullptr, &Background::flushes_fail, config.flush_threads},
      merges_{&Background::MergeOne, &Background::MergeWhileIdle, &Background::merges_fail,
              config.merge_threads},
      house_threads_(houses_.size()) {
  try {
    Start();
  } catch (...) {
    Stop();
    throw;
  }
}

BackgroundWorkers::~BackgroundWorkers() { Stop(); }

void BackgroundWorkers::Stop() {
  StopWork();
  for (size_t i = 0; i < houses_.size(); ++i) StopHouse(i);
}

void BackgroundWorkers::Start() {
  port::MutexLock lock(mutex_);
  for (Kind* kind : {&flushes_, &merges_}) {
    for (int i = 0; i < kind->threads; ++i) {
      work_threads_.emplace_back([this, kind] { Work(kind); });
    }
  }
  for (size_t i = 0; i < houses_.size(); ++i) {
    house_threads_[i].thread = port::Thread([this, i] { KeepHouse(i); });
  }
}

void BackgroundWorkers::StopWork() {
  for (Background* shard : shards_) shard->Stop();
  EndThreads();
}

void BackgroundWorkers::EndThreads() {
  if (stopping()) return;
  for (Background* shard : shards_) shard->EndThreads();
  std::vector<port::Thread> threads;
  {
    port::MutexLock lock(mutex_);
    stopping_.store(true, std::memory_order_release);
    threads.swap(work_threads_);
  }
  signal_->Notify();
  for (port::Thread& thread : threads) thread.join();
}

void BackgroundWorkers::StopHouse(size_t house) {
  port::Thread thread;
  {
    port::MutexLock lock(mutex_);
    house_threads_[house].stopped = true;
    house_stopped_.SignalAll();
    std::swap(thread, house_threads_[house].thread);
  }
  if (thread.joinable()) thread.join();
}

void BackgroundWorkers::LookAtMemtable(size_t shard) noexcept {
  try {
    LookAtMemtables(shard);
  } catch (const std::bad_alloc&) {
    // The next writer finds that a look is due, too.
  }
}

// Another shard's memtable may be the one that has to make room.
void BackgroundWorkers::LookAtMemtables(size_t shard) {
  shards_[shard]->LookAtMemtable();
  if (shards_.size() == 1) return;
  const size_t largest = budget_->ShardToSwitch();
  if (largest != MemtableBudget::kNone && largest != shard) shards_[largest]->LookAtMemtable();
}

void BackgroundWorkers::Work(Kind* kind) {
  while (!stopping()) {
    const uint64_t seen = signal_->count();
    auto due = Clock::time_point::max();
    if (!WorkOnce(kind, &due) && !stopping()) signal_->Wait(seen, due);
  }
}

bool BackgroundWorkers::WorkOnce(Kind* kind, Clock::time_point* due) {
  return WorkAtAny(kind, kind->work, due) ||
         (kind->while_idle != nullptr && WorkAtAny(kind, kind->while_idle, due));
}

bool BackgroundWorkers::WorkAtAny(Kind* kind, Piece piece, Clock::time_point* due) {
  const size_t first = kind->next.load(std::memory_order_relaxed);
  for (size_t i = 0; i < shards_.size(); ++i) {
    const size_t shard = (first + i) % shards_.size();
    kind->next.store((shard + 1) % shards_.size(), std::memory_order_relaxed);
    if (!WorkAt(kind, piece, shards_[shard], due)) continue;
    // What one shard's flush has freed, others may take.
    if (kind == &flushes_ && shards_.size() > 1) {
      for (Background* each : shards_) each->LookIfWritersWait();
    }
    return true;
  }
  return false;
}

bool BackgroundWorkers::WorkAt(Kind* kind, Piece piece, Background* shard, Clock::time_point* due) {
  if (shards_.size() == 1 || kind->threads == 1 || !(shard->*kind->fails)()) {
    return (shard->*piece)(due);
  }
  // Who is not permitted does not learn when the work is to be tried again, and perhaps nobody
  // does: two threads may keep each other off.
  constexpr auto kLookAgain = std::chrono::milliseconds(50);
  const bool permitted = kind->failing.fetch_add(1, std::memory_order_relaxed) < kind->threads - 1;
  if (!permitted) *due = std::min(*due, Clock::now() + kLookAgain);
  const bool worked = permitted && (shard->*piece)(due);
  kind->failing.fetch_sub(1, std::memory_order_relaxed);
  return worked;
}

bool BackgroundWorkers::HouseStopped(size_t number) {
  port::MutexLock lock(mutex_);
  return house_threads_[number].stopped;
}

// Who stops it waits for what one shard sends, not for all of them: a memory node that hangs may
// take a time-out for each.
void BackgroundWorkers::KeepHouse(size_t number) {
  const House& house = houses_[number];
  const std::chrono::milliseconds interval = house.shards.front().shard->heartbeat_interval();
  auto next_heartbeat = Clock::now();  // The first merges need a report.
  while (true) {
    {
      port::MutexLock lock(mutex_);
      const auto until = Clock::now() + Background::kHouseInterval;
      while (!house_threads_[number].stopped && Clock::now() < until) {
        house_stopped_.WaitUntil(until);
      }
      if (house_threads_[number].stopped) return;
    }
    for (const House::Member& each : house.shards) {
      if (HouseStopped(number)) return;
      each.shard->KeepHouse(each.node);
    }
    if (Clock::now() < next_heartbeat) continue;
    next_heartbeat = Clock::now() + interval;
    for (const House::Member& each : house.shards) {
      if (HouseStopped(number)) return;
      each.shard->Heartbeat(each.node);
    }
    IfMemoryPermits([&house] { house.merge_load->SampleCpu(); });
  }
}

}  // namespace dlsm
