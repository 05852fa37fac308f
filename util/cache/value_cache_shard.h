// One shard of a ValueCache: what is kept, and what goes (S3-FIFO, Yang et al., SOSP 2023).
//
//              ┌── small: a tenth ──┐  read twice     ┌──────── main ────────┐
//   insert ──> │ newest ... oldest  │ ──────────────> │ newest ...    oldest │ ──> gone
//        │     └────────────────────┘                 └──────────────────────┘
//        │              │ else: its fingerprint           ^          │ read since: once more,
//        │              v                                 │          │ counted one lower
//        │            ghosts                              └──────────┘
//        └── was there lately: into main at once ─────────────^
//
// So what is read once passes through the small ring and pushes nothing out of the main one.
//
// An index of buckets, each one cache line, says where entries lie. A slot is one word, so readers
// need no lock: they load it, copy the entry (see EntryRing) and count their read in the slot by a
// compare-and-swap, which fails if the entry has moved. A full bucket loses its least read entry.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "port/mutex.h"
#include "util/cache/entry_ring.h"
#include "util/cache/ghost_list.h"

namespace dlsm {

// Tables that no read will ask for again, the latest ones: a hint, without locks.
class DeadTables {
 public:
  void Add(uint64_t table) { Slot(table).store(table, std::memory_order_relaxed); }
  bool Has(uint64_t table) const {
    return dead_[table % kSlots].load(std::memory_order_relaxed) == table;
  }

 private:
  static constexpr size_t kSlots = 1024;
  std::atomic<uint64_t>& Slot(uint64_t table) { return dead_[table % kSlots]; }

  std::atomic<uint64_t> dead_[kSlots] = {};
};

class ValueCacheShard {
 public:
  struct Change {
    bool inserted = false;
    uint32_t evicted = 0;  // Without those of dead tables.
  };

  // `words`, of which there are `count`, are zero, aligned to a cache line, and outlive the shard.
  ValueCacheShard(uint64_t* words, uint64_t count, const DeadTables* dead)
      : ValueCacheShard(words, PartsOf(count), dead) {}
  ValueCacheShard(const ValueCacheShard&) = delete;
  ValueCacheShard& operator=(const ValueCacheShard&) = delete;

  // What is larger is not cached: it would push out too much else.
  static uint64_t EntryBytesMax(uint64_t shard_words) {
    return shard_words * sizeof(uint64_t) / 64;
  }

  // Any thread; takes no lock. `hash` is the key's. Copies the bytes to *buffer.
  bool Lookup(uint64_t hash, const EntryKey& key, EntryBuffer* buffer) const;
  // Does nothing where another thread is just inserting: a read does not wait for a cache.
  Change Insert(uint64_t hash, const EntryKey& key, const char* bytes) LOCKS_EXCLUDED(mutex_);
  // Of the rings.
  uint64_t UsedBytes() const LOCKS_EXCLUDED(mutex_);

 private:
  using Slot = std::atomic_ref<uint64_t>;

  static constexpr uint64_t kBucketSlots = 8;

  // How the words are divided, in the order in which they lie.
  struct Parts {
    uint64_t buckets = 0;
    uint64_t small = 0;
    uint64_t main = 0;
    uint64_t ghosts = 0;
  };

  static Parts PartsOf(uint64_t words);
  ValueCacheShard(uint64_t* words, const Parts& parts, const DeadTables* dead);

  uint64_t* BucketOf(uint64_t hash) const {
    return slots_ + (hash >> 16) % buckets_ * kBucketSlots;
  }

  const EntryRing& RingOf(uint64_t slot) const;
  bool IsThereLocked(uint64_t hash, const EntryKey& key) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t* SlotAtLocked(const EntryKey& key, uint64_t position, bool in_main) const
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoomInSmallLocked(uint64_t bytes, Change* change) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoomInMainLocked(uint64_t bytes, Change* change) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PutLocked(uint64_t hash, uint64_t slot, Change* change) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DeadTables* const dead_;
  // Atomics, which only the thread that has the lock changes, but for the counts of reads.
  uint64_t* const slots_;
  const uint64_t buckets_;

  mutable port::Mutex mutex_;
  // Changed under the lock, read without.
  EntryRing small_;
  EntryRing main_;

  GhostList ghosts_ GUARDED_BY(mutex_);
  bool main_was_full_ GUARDED_BY(mutex_) = false;
};

}  // namespace dlsm
