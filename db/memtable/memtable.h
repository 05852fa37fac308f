// A memtable: the newest writes of a database, in the memory of the compute node.
//
// Any number of threads add and read at once. A memtable owns a range of sequence numbers (see
// Sequencer): it is *cut* when the range ends, and complete once every write with a number before
// the cut has ended. Only then may it be flushed.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "db/memtable/memtable_filter.h"
#include "db/memtable/memtable_ranges.h"
#include "db/memtable/memtable_tree.h"
#include "db/memtable/sequencer.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/table_reader.h"
#include "util/memory/arena.h"
#include "util/numa.h"

namespace dlsm {

class Memtable {
 public:
  // The most that one may be made to hold. With that, no product of it wraps: of as many as there
  // may be, several times over.
  static constexpr size_t kBytesMax = size_t{1} << 40;

  // `number`: memtables of a database are numbered in the order of their sequence ranges.
  // `bytes`: how large it becomes, about; 0: not known, and lookups always search it.
  // `numa_node`: see Arena.
  Memtable(const InternalKeyComparator& comparator, uint64_t number, const Slice& prefix_guess,
           size_t bytes = 0, int numa_node = kNoNumaNode)
      : number_(number),
        // Another comparator may find keys equal of which the bytes, and so the hashes, differ.
        filter_(comparator.bytewise() ? bytes : 0),
        arena_(numa_node),
        tree_(comparator, &arena_, prefix_guess),
        comparator_(comparator) {}

  // `batched`: the entry belongs to a batch of several, whose Sequencer::Write is open. Returns
  // false, and the entry is not there, if the process has no memory for the arena's next block.
  [[nodiscard]] bool Add(SequenceNumber sequence, ValueType type, const Slice& user_key,
                         const Slice& value, bool batched);

  // Likewise a range tombstone that counts for so many bytes (Tree::CostOfTombstone()). It hides
  // the older versions of keys in [begin, end) here and in all that is older.
  [[nodiscard]] bool AddRange(SequenceNumber sequence, const Slice& begin, const Slice& end,
                              uint64_t bytes, bool batched);

  // Gives a batch up, whose Sequencer::Write is open: what it has added here is never seen. Takes
  // as long as to go through all of the memtable.
  void Withdraw(SequenceNumber first, SequenceNumber last) {
    tree_.Withdraw(first, last);
    ranges_.Withdraw(first, last);
  }

  // The newest version of the key at or below its sequence number, passing over entries of batches
  // that are still open or were given up. result->value stays where it is as long as the memtable.
  // A version that a range tombstone hides counts as deleted; result->hidden_below, which may have
  // been set by a newer memtable, is raised to what the tombstones here hide of the key.
  // Returns false if the filter says that the memtable has nothing of the key; then its tree was
  // not searched. Whether the key was found is in *result.
  bool Get(const LookupKey& key, Sequencer* sequencer, LookupResult* result) const;

  // Over internal keys. The memtable outlives it. `whole`: it will go through all entries,
  // forwards.
  std::unique_ptr<InternalIterator> NewIterator(bool whole = false) const;

  uint64_t number() const { return number_; }
  // Of its entries, by which it is full.
  size_t MemoryUsage() const { return arena_.MemoryUsage(); }
  size_t filter_bytes() const { return filter_.words() * sizeof(uint64_t); }

  // No entry has this number or a later one; 0: not cut yet. Set once, before the memtable is
  // handed to a flush.
  void set_cut(SequenceNumber cut) { cut_.store(cut, std::memory_order_release); }
  SequenceNumber cut() const { return cut_.load(std::memory_order_acquire); }
  bool empty() const { return tree_.Empty() && ranges_.empty(); }

  const MemtableRanges& ranges() const { return ranges_; }
  // Whether it has so many range tombstones that it had better be switched.
  bool RangesFull() const { return ranges_.count() >= kMemtableRangesMax; }

  // Positions in the handle's log. No entry has its frame before the first, which is set before
  // there is an entry, nor behind the second, which is set before a flush.
  void set_log_from(uint64_t position) { log_from_.store(position, std::memory_order_release); }
  uint64_t log_from() const { return log_from_.load(std::memory_order_acquire); }
  void set_log_end(uint64_t position) { log_end_.store(position, std::memory_order_release); }
  uint64_t log_end() const { return log_end_.load(std::memory_order_acquire); }

 private:
  void GetAmongRanges(const LookupKey& key, Sequencer* sequencer, LookupResult* result) const;
  void Search(const LookupKey& key, Sequencer* sequencer, LookupResult* result) const;
  RecordPointer Find(const Slice& user_key, SequenceNumber newest) const;

  const uint64_t number_;
  std::atomic<SequenceNumber> cut_{0};
  std::atomic<uint64_t> log_from_{0};
  std::atomic<uint64_t> log_end_{0};
  MemtableFilter filter_;
  Arena arena_;
  MemtableTree tree_;
  MemtableRanges ranges_;
  const InternalKeyComparator comparator_;
};

}  // namespace dlsm
