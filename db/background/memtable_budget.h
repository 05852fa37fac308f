// How much memory the memtables of a handle may take: write_buffer_size * max_write_buffer_number,
// however many shards share it.
//
// One shard has so many memtables of that size. Several share the bytes:
//
//   | guaranteed to shard 0 | to shard 1 | ... |      for whoever takes it      |
//   <--------------- half of the budget ------> <------------- half ----------->
//
//   1. A memtable is switched when it has write_buffer_size bytes; when the shared half is used up,
//      as soon as it has half of what its shard is guaranteed, and the largest of all first.
//   2. While the shared half is used up, who has no less than is guaranteed to him waits for his
//      flushes.
// So there are always two memtables for each shard, whatever holds the others up: no shard waits
// for another's memory node.
#pragma once

#include <cstddef>
#include <vector>

#include "dLSM/status.h"

namespace dlsm {

class Tree;

// Thread-safe once Share() has been called.
class MemtableBudget {
 public:
  // The least that a memtable may be made to hold.
  static constexpr size_t kMemtableBytesMin = size_t{16} << 10;

  MemtableBudget(size_t memtable_bytes, size_t memtables_max);

  // InvalidArgument if that is too little for so many shards.
  static Status Check(size_t memtable_bytes, size_t memtables_max, size_t shards);

  // The most bytes that one of so many shards may hold, roughly: what is guaranteed to it and all
  // that is for whoever takes it.
  static size_t MostOfOneShard(size_t memtable_bytes, size_t memtables_max, size_t shards);

  // Among whom it is shared; until the last call of anything else.
  void Share(std::vector<Tree*> shards);

  // What holds for one shard.
  struct Ruling {
    size_t switch_at = 0;       // Its active memtable's bytes.
    size_t immutables_max = 0;  // Of its memtables.
    bool must_wait = false;     // Until a flush has ended.
    size_t look_again_at = 0;   // When its active memtable has so many bytes.
    size_t look_at_next = 0;    // The same for the memtable after it.
  };
  Ruling RulingFor(Tree& shard) const;

  // The shard whose active memtable should go first because the shared half is used up; kNone while
  // it is not.
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t ShardToSwitch() const;

  // What share of what the shard may have waits to be flushed: 1 is all of it.
  double Pressure(Tree& shard) const;

 private:
  bool UsedUp() const;
  size_t excess_max() const { return memtable_bytes_ * memtables_max_ / 2; }

  const size_t memtable_bytes_;
  const size_t memtables_max_;
  size_t guaranteed_ = 0;  // To each shard.
  std::vector<Tree*> shards_;
};

}  // namespace dlsm
