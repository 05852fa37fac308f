#include "db/memtable/memtable_epochs.h"

#include <algorithm>

namespace dlsm {

void MemtableEpochs::Join(EpochMap* shard, Memtable* first) {
  port::MutexLock lock(mutex_);
  for (auto& memtable : shard->memtables_) memtable.store(first, std::memory_order_release);
  shards_.push_back(shard);
}

void MemtableEpochs::Leave(EpochMap* shard) {
  port::MutexLock lock(mutex_);
  std::erase(shards_, shard);
}

SequenceNumber MemtableEpochs::Switch(EpochMap* shard, Memtable* fresh, SequenceNumber skipped_to) {
  port::MutexLock lock(mutex_);
  const auto now = static_cast<size_t>(current_);
  const auto next = static_cast<uint8_t>(now + 1);
  if (ended_[next] != 0) sequencer_.WaitSettled(ended_[next] - 1);
  for (EpochMap* each : shards_) {
    Memtable* const stays = each->memtables_[now].load(std::memory_order_relaxed);
    each->memtables_[next].store(each == shard ? fresh : stays, std::memory_order_release);
  }
  // Writers may take numbers meanwhile: then as many more are skipped.
  const SequenceNumber given = sequencer_.Now().next - 1;
  ended_[now] = sequencer_.Switch(skipped_to > given ? skipped_to - given : 0);
  current_ = MemtableEpoch{next};
  return ended_[now];
}

}  // namespace dlsm
