// Reads one table. The resident part (index and filter) is in local memory; records and blocks are
// fetched one-sided. Thread-safe. A reader does not change after Open(); only the evictable one
// fetches its resident part when that is first needed (db/tree/evictable_table_reader.h).
//
// A point lookup has three steps, so that MultiGet can post the reads of many keys together:
//   Find()    asks the resident part: the table cannot hold the key, or which bytes to fetch;
//   (the caller fetches probe.span, one record or one block, unless probe.cached is set)
//   Decode()  checks the fetched bytes and tells what they say of the key.
// Approach() and ApproachFurther() are the first parts of Find(). Every lookup takes them, because
// each overlaps cache misses: of the tables that a key may be in, or of many keys. They may store
// Find()'s answer in the probe; then Find() only returns it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dLSM/status.h"
#include "table/internal_key.h"
#include "table/table_builder.h"
#include "table/table_iterator.h"
#include "table/table_meta.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"

namespace dlsm {

class CachedBlocks;
struct ReadBounds;
struct TableReadOptions;

// Hands out the calling thread's queue pair to a memory node. Thread-safe.
class QueuePairs {
 public:
  virtual ~QueuePairs() = default;
  // *queue_pair stays the provider's, is open, and is to be used by this thread only and before it
  // next calls ForThisThread(). A closed one is replaced.
  virtual Status ForThisThread(NodeId node, QueuePair** queue_pair) = 0;
  // The same for a read whose options are limited. Its deadline holds for what making a queue pair
  // takes, too. One that may transfer nothing gets a queue pair only where memory is mapped.
  virtual Status ForLimitedRead(NodeId node, const TableReadOptions& options,
                                QueuePair** queue_pair);
  virtual Status NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) = 0;
  // Of how many nodes the memory may be others' by now. What was found in place while there were
  // fewer is not looked at before ForThisThread() has said that its node is none of them.
  virtual const std::atomic<uint32_t>& LostNodes() const {
    static const std::atomic<uint32_t> none{0};
    return none;
  }
};

// How to read.
struct TableReadOptions {
  bool verify_checksums = true;
  bool fill_cache = true;
  Purpose purpose = Purpose::kRead;
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);  // For each wait on the fabric.
  // The first prefetch of an iterator; it doubles with sequential use up to the maximum.
  uint32_t prefetch_bytes = 4 << 10;  // About ten records: what a short scan uses.
  uint32_t prefetch_bytes_max = 1 << 20;
  // Of iterators, which they outlive; null: none.
  const ReadBounds* bounds = nullptr;

  // Whether one of the two that follow is in force.
  bool limited = false;
  bool local = false;  // Nothing may be transferred.
  // Of all waits together.
  Deadline::Clock::time_point deadline = Deadline::Clock::time_point::max();

  // When a wait that begins now is to end.
  Deadline WaitEnds() const {
    return Deadline::At(
        std::min<Deadline::Clock::time_point>(Deadline::Clock::now() + timeout, deadline));
  }
  // Of a limited read: TimedOut if its deadline has passed.
  Status CheckDeadline() const;
  // The same, and Incomplete if it may transfer nothing.
  Status CheckTransfer() const;
};

// Where a region is mapped, what is verified in place may change before it is used: who asks for
// verification gets what was verified, which is a copy. Merges check what they rely on.
inline bool MayReadInPlace(const TableReadOptions& options) {
  return !options.verify_checksums || options.purpose == Purpose::kCompaction;
}

// One lookup's way through one table: each step leaves here what the next one needs.
struct TableProbe {
  // What to fetch; until Find(), that or a byte not far from it.
  RemoteSpan span;
  // Not null: fetch nothing, Decode() needs no more than this. Only the reader knows what it is: a
  // block from the block cache, or why the resident part could not be fetched.
  std::shared_ptr<const void> cached;
  // Byte-addressable tables: what Approach() and ApproachFurther() have found.
  uint32_t samples = kUnknown;
  uint32_t groups = kUnknown;
  std::optional<bool> answer;  // Find()'s, where ApproachFurther() has it already.

  static constexpr uint32_t kUnknown = UINT32_MAX;
};

enum class LookupState : uint8_t { kAbsent, kFound, kDeleted };

struct LookupResult {
  // What the newest visible version says of its key. A deletion hides all older versions as a value
  // does, and so does one that a range tombstone hides.
  void Set(uint64_t trailer, const Slice& version_value) {
    sequence = TrailerSequence(trailer);
    const bool found = TrailerType(trailer) == ValueType::kValue && sequence >= hidden_below;
    state = found ? LookupState::kFound : LookupState::kDeleted;
    value = version_value;
  }

  LookupState state = LookupState::kAbsent;
  SequenceNumber sequence = 0;
  // The number of the newest range tombstone that covers the key: older versions are hidden.
  SequenceNumber hidden_below = 0;
  Slice value;                         // Into the fetched bytes, or into *holder.
  std::shared_ptr<const void> holder;  // Keeps `value` alive where that is not the fetched bytes.
  bool in_scratch = false;  // `value` lies in the thread's scratch, until its next lookup.
  bool pins = false;        // The caller's: it would keep the holder, do not copy.
};

// Whether an entry is a version of the key that is looked up. Keys are the same if their order says
// so, whatever their bytes.
inline bool IsVersionOf(const InternalKeyComparator& comparator, const LookupKey& key,
                        const Slice& internal_key) {
  return comparator.CompareUserKeys(ExtractUserKey(internal_key), key.user_key()) == 0;
}

class TableReader {
 public:
  // `resident` holds the index and filter of `meta`; its bytes stay alive as long as `owner` does
  // (null: as long as the reader). Corruption if they do not fit `meta` or their checksums.
  // `blocks` are the table's in the cache.
  static Status Open(const TableOptions& options, const TableMeta& meta, const Slice& resident,
                     std::shared_ptr<const void> owner, const CachedBlocks& blocks,
                     std::unique_ptr<TableReader>* reader);
  virtual ~TableReader() = default;

  // Before the first step of a limited read: has what the steps need of the table's resident part,
  // or says why not.
  virtual Status MakeReady(const TableReadOptions& options) const {
    return options.CheckDeadline();
  }

  // Two steps towards Find(): each ends by prefetching the cache lines that the next step will
  // touch, so those of all tables or keys are on their way together. Either may be left out.
  virtual void Approach(const LookupKey& key, TableProbe* probe) const {
    static_cast<void>(key);
    static_cast<void>(probe);
  }
  virtual void ApproachFurther(const LookupKey& key, TableProbe* probe) const {
    static_cast<void>(key);
    static_cast<void>(probe);
  }
  // False: the table holds no version of the key at or below its sequence number; nothing to fetch.
  // `filtered`: the built-in filter has been asked, and has not denied the key. Cannot fail: what
  // is wrong with the resident part, Decode() says.
  virtual bool Find(const LookupKey& key, bool filtered, TableProbe* probe) const = 0;
  // After a Find() that has returned true with this probe. `fetched`: the bytes of probe.span;
  // empty if there was nothing to fetch. On success result->state says what the table has.
  virtual Status Decode(const LookupKey& key, const TableProbe& probe, const Slice& fetched,
                        const TableReadOptions& options, LookupResult* result) const = 0;

  // Over internal keys. `queue_pairs` and this reader outlive the iterator. Where the fabric
  // allows, key() and value() point into the table's own memory and stay valid as long as the table
  // does.
  virtual std::unique_ptr<TableIterator> NewIterator(const TableReadOptions& options,
                                                     QueuePairs* queue_pairs) const = 0;

  // How many bytes of data lie before a key, as exactly as the resident part tells: no fewer than
  // `least` and no more than `most`. Between the two lie the versions of one user key
  // (byte-addressable), or one block.
  struct OffsetBounds {
    uint64_t least = 0;
    uint64_t most = 0;
  };
  virtual OffsetBounds BoundOffset(const Slice& internal_key) const = 0;
  uint64_t ApproximateOffsetOf(const Slice& internal_key) const {
    const OffsetBounds bounds = BoundOffset(internal_key);
    return bounds.least + (bounds.most - bounds.least) / 2;
  }
  // How many bytes of data the keys of [start, limit) have. Off by one user key's versions, or by
  // one block, at most; 0 only if there are none.
  virtual uint64_t ApproximateBytes(const Slice& start, const Slice& limit) const;
  // The bytes of the built-in filter, as long as the reader lives; empty if the table has none.
  virtual Slice bloom_filter() const { return Slice(); }
  // Those who have this reader go on reading, but nobody else begins: another reader takes its
  // place, or the table itself has left the tree.
  virtual void NoteLeaving() const {}
  // Index and filter, and what the reader adds to them.
  virtual size_t resident_bytes() const = 0;
  const TableMeta& meta() const { return meta_; }

 protected:
  explicit TableReader(const TableMeta& meta) : meta_(meta) {}

 private:
  const TableMeta meta_;
};

}  // namespace dlsm
