// The write path of a handle: what a write goes through, from its entries to its answer.
//
//   1. check     All entries are checked before the first one is anybody's business.
//   2. gates     The write passes the gates of all shards that it touches. Whatever it may have to
//                wait for belongs here and to the next step: behind that nothing waits before the
//                write is visible.
//   3. log       With a log, the write takes a place there. If it has to wait for room, it goes
//                back to the gates afterwards.
//   4. numbers   It takes the numbers of all its entries at once, and learns with them which
//                memtables own them. It is announced from here to the end of step 5, so it
//                becomes visible in all shards at once.
//   5. insert    Its entries go into the memtables. If one gets no memory there, the entries before
//                it are withdrawn. The write is refused, and nobody has seen any of it.
//   6. frame     It fills its place in the log, or leaves it void if it was refused.
//   7. look      Memtables that have become large are looked at: one may have to be switched
//                (BackgroundWorkers::LookAtMemtable ──> Background ──> GateKeeper::Rule ──>
//                Tree::Switch ──> MemtableEpochs::Switch).
//   8. wait      With WriteOptions::sync, the write waits until the log is as safe behind it as
//                Options::log says; without a log, until all that was written is flushed.
//
// A write of one entry takes the same steps without anything that is only for several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "dLSM/comparator.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"
#include "db/background/stall_gate.h"
#include "db/log/write_log.h"
#include "db/memtable/sequencer.h"
#include "db/nodes/compute_range.h"
#include "db/nodes/shard_map.h"
#include "db/tree/tree.h"
#include "table/internal_key.h"

namespace dlsm {

// Thread-safe.
class Writer {
 public:
  // Where a shard's entries go.
  struct Shard {
    StallGate* gate;
    Tree* tree;
  };
  // What the rest of the handle does for writes. A shard is given by its number.
  struct Calls {
    // A write of so much is about to begin there.
    std::function<void(size_t shard, uint64_t bytes, uint64_t entries)> cover;
    // The shard's active memtable is to be looked at.
    std::function<void(size_t shard)> look;
    // Says in an error which shard it is of.
    std::function<Status(size_t shard, const Status&)> named;
    // Flushes all that was written, and waits for that.
    std::function<Status()> flush;
  };
  // All outlive the writer. `shards`: in the map's order, at least one.
  struct Parts {
    const Comparator* comparator;
    const ComputeRange* range;
    const ShardMap* map;
    std::vector<Shard> shards;
    Sequencer* sequencer;
    WriteLog* log;  // Is null without a log.
    Statistics* statistics;
    Calls calls;
  };

  explicit Writer(Parts parts)
      : parts_(std::move(parts)),
        only_(parts_.shards.size() == 1 ? parts_.shards.data() : nullptr),
        sequencer_(parts_.sequencer),
        log_(parts_.log) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // One entry; a deletion has no value. An error says that nothing was written, Busy also where the
  // process has no memory for it; but with options.sync it may be written and not safe.
  Status WriteOne(const WriteOptions& options, ValueType type, const Slice& key,
                  const Slice& value);
  // The same of all entries of a batch, or none.
  Status Write(const WriteOptions& options, const WriteBatch& updates);

 private:
  // Room for range tombstones of a batch, which is given back in the end.
  class ReservedTombstones {
   public:
    ReservedTombstones() = default;
    ReservedTombstones(const ReservedTombstones&) = delete;
    ReservedTombstones& operator=(const ReservedTombstones&) = delete;
    ReservedTombstones(ReservedTombstones&& other) noexcept
        : tree_(other.tree_), bytes_(std::exchange(other.bytes_, 0)) {}
    ReservedTombstones& operator=(ReservedTombstones&& other) = delete;
    ~ReservedTombstones() {
      if (bytes_ > 0) tree_->ReleaseTombstones(bytes_);
    }
    void Add(Tree* tree, uint64_t bytes) {
      tree_ = tree;
      bytes_ += bytes;
    }

   private:
    Tree* tree_ = nullptr;
    uint64_t bytes_ = 0;
  };

  // What a batch writes to one shard.
  struct Part {
    uint64_t bytes = 0;
    uint64_t entries = 0;
    bool only_deletes = true;
    bool look_is_due = false;
    ReservedTombstones reserved;
  };
  struct Batch {
    explicit Batch(const WriteBatch& of) : updates(of) {}

    const WriteBatch& updates;
    uint32_t entries = 0;
    uint64_t bytes = 0;  // Keys and values.
    // By shard. A batch of a handle with one shard has its part in here.
    Part only;
    std::vector<Part> several;
    std::span<Part> parts;
    // With several shards: that of each entry; of a range tombstone, the first and the last one. A
    // shard is asked for only once, for it is the application's comparator that tells it.
    std::vector<uint16_t> shard_of;
    uint32_t ranges = 0;  // That it deletes.
    // Whether readers may see nothing of it before all of it is there.
    bool together = false;
  };

  struct InsertedOne {
    SequenceNumber number = 0;
    bool done = false;  // Otherwise the memtable had no memory for it, and it is not there.
    bool look_is_due = false;
  };
  // Numbers and insert, of one entry.
  InsertedOne InsertOne(const Shard& shard, ValueType type, const Slice& key,
                        const Slice& value) const;
  // The steps of a batch, in this order.
  Status Check(Batch* batch) const;
  Status Divide(Batch* batch) const;
  Status PassGates(const WriteOptions& options, const Batch& batch) const;
  // A place in the log for a write that has passed its gates. Where it has to wait for one, it
  // passes them once more after that: memtables may be full by then, or the database another's.
  template <typename PassAgain>
  Status ReserveInLog(uint64_t bytes, const WriteOptions& options, const PassAgain& pass_again,
                      WriteLog::Place* place) const;
  // Where a range tombstone goes, and how: see Divide() and Insert().
  Status DivideRanges(Batch* batch) const;
  Status DivideRange(const Slice& begin, const Slice& end, Batch* batch) const;
  bool InsertInto(size_t shard, const Sequencer::Write& write, uint32_t entry, ValueType type,
                  const Slice& key, const Slice& value, Batch* batch) const;
  // Returns false if a memtable had no memory for an entry. Then nothing is there.
  bool Insert(const Sequencer::Write& write, Batch* batch) const;
  void Withdraw(const Sequencer::Write& write, uint32_t inserted, const Batch& batch) const;
  void Look(const Batch& batch) const;
  // WriteOptions::sync, of a write whose frame ends there: what was written before is safe then,
  // too.
  Status AwaitSafe(LogPosition end) const;

  size_t NumberOf(const Shard& shard) const {
    return static_cast<size_t>(&shard - parts_.shards.data());
  }
  const Shard& ShardOf(const Slice& key) const {
    if (only_ != nullptr) [[likely]]
      return *only_;
    return parts_.shards[parts_.map->ShardOf(*parts_.comparator, key)];
  }

  const Parts parts_;
  const Shard* const only_;  // If there is only one.
  Sequencer* const sequencer_;
  WriteLog* const log_;  // Is null without a log.
};

}  // namespace dlsm
