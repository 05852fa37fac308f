// The range tombstones of a memtable (table/range_tombstones.h). They are few: a memtable that has
// kMemtableRangesMax of them is full, so a read goes through all of them. They lie in the
// memtable's arena and are never removed. Any number of threads add and read at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "db/memtable/sequencer.h"
#include "table/internal_key.h"
#include "table/range_tombstones.h"
#include "util/memory/arena.h"

namespace dlsm {

inline constexpr size_t kMemtableRangesMax = 128;

class MemtableRanges {
 public:
  MemtableRanges() = default;
  MemtableRanges(const MemtableRanges&) = delete;
  MemtableRanges& operator=(const MemtableRanges&) = delete;

  // `batched` as of Memtable::Add(); `bytes`: what the tombstone counts for. Throws std::bad_alloc
  // if the arena has no memory.
  void Add(Arena* arena, SequenceNumber sequence, const Slice& begin, const Slice& end,
           uint64_t bytes, bool batched);
  // Gives those of a batch up.
  void Withdraw(SequenceNumber first, SequenceNumber last);

  bool empty() const { return newest_.load(std::memory_order_acquire) == nullptr; }
  size_t count() const { return count_.load(std::memory_order_relaxed); }
  // Of all that Add() was told.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // The largest number at or below `most` whose tombstone hides older versions of the key; 0: none
  // does. Passes over tombstones of batches that are open or were given up.
  SequenceNumber NewestAt(const InternalKeyComparator& comparator, const Slice& user_key,
                          SequenceNumber most, Sequencer* sequencer) const;
  // Those with numbers up to `most` that were not given up. No batch with such a number is open.
  std::vector<RangeTombstone> List(SequenceNumber most) const;

 private:
  struct Node;

  // The others follow it. A thread that finds a node sees what is in it: the store that published
  // the node releases.
  std::atomic<Node*> newest_{nullptr};
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace dlsm
