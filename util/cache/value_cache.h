// Bytes of tables that are read often, kept on the compute node: Options::value_cache_size.
//
// Entries are found by where they lie: a table, and a place in it. Tables never change, and the
// number of a table is never given out again. So what is found here is what is there: nothing can
// be out of date, and nothing has to be invalidated. Entries of tables that are gone are just not
// asked for any more; see NoteDead().
//
// All memory is taken at once: index, rings and ghosts of the shards are cut out of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/cache/entry_ring.h"
#include "util/cache/value_cache_shard.h"
#include "util/memory/huge_memory.h"
#include "util/thread_number.h"

namespace dlsm {

// Thread-safe.
class ValueCache {
 public:
  using Change = ValueCacheShard::Change;

  static constexpr uint64_t kBytesMin = uint64_t{64} << 10;
  static constexpr uint64_t kBytesMax = uint64_t{16} << 40;

  // From kBytesMin to kBytesMax; InvalidArgument if the process cannot have that much.
  static Status New(uint64_t bytes, std::shared_ptr<ValueCache>* cache);

  // Throws std::bad_alloc then.
  explicit ValueCache(uint64_t bytes);
  ValueCache(const ValueCache&) = delete;
  ValueCache& operator=(const ValueCache&) = delete;

  // A number that no table ever had.
  uint64_t NewTable() { return last_table_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // What is cached of it goes first, however often it was read.
  void NoteDead(uint64_t table) { dead_.Add(table); }

  // Takes no lock. *bytes is the calling thread's until it looks up again. What the process has no
  // memory to copy to is not found.
  bool Lookup(const EntryKey& key, Slice* bytes);
  // May do nothing: the bytes are too many, or another thread is in the way.
  Change Insert(const EntryKey& key, const Slice& bytes);

  uint64_t bytes() const { return words_ * shards_.size() * sizeof(uint64_t); }
  // Of entries, whether their tables live or not.
  uint64_t UsedBytes() const;

 private:
  bool Admits(uint64_t bytes) const { return bytes > 0 && bytes <= entry_bytes_max_; }
  // By the upper bits; shards use the lower ones.
  ValueCacheShard& ShardOf(uint64_t hash) { return *shards_[hash >> 32 & (shards_.size() - 1)]; }

  const uint64_t words_;  // Of a shard.
  const uint64_t entry_bytes_max_;
  HugeMemory memory_;
  DeadTables dead_;
  std::vector<std::unique_ptr<ValueCacheShard>> shards_;  // As many as a power of two.
  std::atomic<uint64_t> last_table_{0};
  PerThread<EntryBuffer> buffers_;
};

}  // namespace dlsm
