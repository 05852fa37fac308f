// Point lookups: the newest version of a key that a reader may see.
//
//   1. The memtables are asked, newest first, each behind its filter. On the way it shows which
//      range tombstone is the newest that covers the key: what is older is hidden, and tables with
//      nothing newer are not asked.
//   2. The tables are asked, those with newer versions of the key first, each behind its filter
//      (Version::ForEachCandidate()).
//   3. A table's index names the one record that may be the key's. The value cache may have it;
//      else it is read from the memory node.
//   4. If the record is a version of the key, a deletion like any other, the lookup has ended. If
//      it is another key's, the next table is asked.
//
// PointReader decides all this for every kind of point lookup. Lookups differ in how their reads
// are posted only. Get() takes one key all the way, and waits for each read before it asks the next
// table. MultiGet and GetPipeline take many keys through each step before the next, and post the
// reads together (table_lookup.h).
#pragma once

#include <cstdint>
#include <memory>

#include "dLSM/options.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/tree/read_view.h"
#include "table/node_queue_pairs.h"
#include "util/thread_number.h"

namespace dlsm {

// How a read with `options` reads tables, in a database of these `database_options`.
TableReadOptions TableReadOptionsFor(const Options& database_options, const ReadOptions& options);

// The record where it lies, prefetched, so that the lines of its value do not wait for those of its
// header; empty if it cannot be read in place.
Slice RecordInPlace(QueuePair* queue_pair, const RemoteSpan& span, const TableReadOptions& options);

// Whether a pinned value keeps the buffer that `bytes` of this table were fetched into; otherwise
// it is copied. Less than 8 KB is copied, because a whole doorbell may share the buffer. So is a
// value of a block, which may be small beside its block.
bool SharesFetched(const Table& table, uint64_t bytes);

// Shows what was found in *value. `keeper` keeps it where it lies, if nothing of its own does;
// null: it is copied.
void Pin(LookupResult* result, std::shared_ptr<const void> keeper, PinnableSlice* value);

// Thread-safe.
class PointReader {
 public:
  // All outlive the reader.
  PointReader(Sequencer* sequencer, NodeQueuePairs* queue_pairs, Statistics* statistics)
      : sequencer_(sequencer), queue_pairs_(queue_pairs), statistics_(statistics) {}

  // NotFound where there is no such key, or it was deleted. Counts the key as read. How long
  // result->value stays where it is:
  //   result->holder is set   as long as that
  //   result->in_scratch      until the thread's next lookup
  //   neither                 as long as the view
  Status Get(const ReadView& view, const Slice& user_key, SequenceNumber sequence,
             const TableReadOptions& options, LookupResult* result) const;

  // Step 1. Returns true if the lookup has ended; then the result is as Get() says. Otherwise the
  // tables are to be asked, with result->hidden_below as it is then.
  bool AskMemtables(const ReadView& view, const LookupKey& key, const Statistics::Mine& counts,
                    LookupResult* result) const;

  enum class TableAnswer {
    kAbsent,  // The table does not have the key: the next one is to be asked.
    kEnded,   // The value cache had its record: the lookup has ended, and the result says how.
    kFetch,   // AskRecord() is to be asked, with the bytes of probe->span if probe->cached is null.
  };
  // Step 3, without a read. `filtered`: the table's filter has been asked.
  TableAnswer AskTable(const Table& table, bool filtered, const LookupKey& key,
                       const TableReadOptions& options, const Statistics::Mine& counts,
                       TableProbe* probe, LookupResult* result) const;
  // Step 4, and puts what was fetched into the value cache, if the table has one and the options
  // allow. If the result's state is kAbsent, the next table is to be asked.
  Status AskRecord(const Table& table, const LookupKey& key, const TableProbe& probe,
                   const Slice& bytes, const TableReadOptions& options,
                   const Statistics::Mine& counts, LookupResult* result) const;

  // Prefetches a byte near a record that is read in place, so that the processor looks up its page
  // while it waits for the index to say where exactly the record is. With more data than the TLB
  // covers, that was a lookup's longest wait. Returns false if the memory node's records are not
  // read in place.
  bool PrefetchPage(const RemoteSpan& near, const TableReadOptions& options) const;

  NodeQueuePairs* queue_pairs() const { return queue_pairs_; }
  Statistics* statistics() const { return statistics_; }

 private:
  // AskMemtables(), for Get(): without a call, which costs 22 instructions.
  bool AskMemtablesHere(const ReadView& view, const LookupKey& key, const Statistics::Mine& counts,
                        LookupResult* result) const;
  // AskTable(), for Get(), likewise.
  TableAnswer AskTableHere(const Table& table, bool filtered, const LookupKey& key,
                           const TableReadOptions& options, const Statistics::Mine& counts,
                           TableProbe* probe, LookupResult* result) const;
  // The end of step 1, in a version with range tombstones.
  static void AskTombstones(const Version& version, const LookupKey& key, LookupResult* result);
  // Get() with options that are limited: limited_get.cc.
  Status GetWithinLimits(const ReadView& view, const LookupKey& key,
                         const TableReadOptions& options, const Statistics::Mine& counts,
                         LookupResult* result) const;
  // Steps 2 to 4.
  Status AskTables(const ReadView& view, const LookupKey& key, const TableReadOptions& options,
                   const Statistics::Mine& counts, LookupResult* result) const;
  // Reads the record that AskTable() has named, and asks it.
  Status FetchRecord(const Table& table, const LookupKey& key, const TableProbe& probe,
                     const TableReadOptions& options, const Statistics::Mine& counts,
                     LookupResult* result) const;
  // The one-sided read, unless the bytes can be read in place. `holder` not null: fetches into a
  // buffer that *holder keeps, else into the thread's scratch.
  Status Fetch(const RemoteSpan& span, const TableReadOptions& options,
               std::shared_ptr<const void>* holder, Slice* bytes, bool* in_scratch) const;
  // Whether the value cache has the record; then the result is what that says of the key. Counts
  // hits and misses, those of the block cache as well: Find() has asked that, but keeps no
  // statistics.
  static bool AskCache(const Table& table, const LookupKey& key, const TableProbe& probe,
                       const TableReadOptions& options, const Statistics::Mine& counts,
                       LookupResult* result);
  static void KeepInCache(const Table& table, const TableProbe& probe, const Slice& fetched,
                          const TableReadOptions& options, const Statistics::Mine& counts);

  // Whether a thread's lookups in tables mostly find something: then the next one probably does,
  // and Find() may begin before the filters are here (see CandidateList).
  class Habit {
   public:
    bool finds() const { return found_ >= kMost / 2; }
    void Note(bool found) {
      if (found && found_ < kMost) ++found_;
      if (!found && found_ > 0) --found_;
    }

   private:
    static constexpr uint32_t kMost = 16;
    uint32_t found_ = kMost / 2;
  };

  Sequencer* const sequencer_;
  NodeQueuePairs* const queue_pairs_;
  Statistics* const statistics_;
  mutable PerThread<Habit> habits_;
};

}  // namespace dlsm
