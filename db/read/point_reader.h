// Point lookups: memtables newest first, then tables, newest first, each behind its filter.
//
// PointReader::Get() takes one key all the way. MultiGet and GetPipeline take many keys through the
// same steps side by side (table_lookup.h), for which they use the parts of Get() that are public
// here. Get() does not go through TableLookup itself: it need not remember the candidates, for it
// fetches from one before it asks the next.
#pragma once

#include <cstdint>
#include <memory>

#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/tree/read_view.h"
#include "table/node_queue_pairs.h"
#include "util/thread_number.h"

namespace dlsm {

// Prefetches a record that is read in place, so that the lines of its value do not wait for those
// of its header.
void PrefetchRecord(const Slice& bytes);

// Whether a pinned value keeps the buffer that `bytes` of this table were fetched into; otherwise
// it is copied. Less than 8 KB is copied, because a whole doorbell may share the buffer. So is a
// value of a block, which may be small beside its block.
bool SharesFetched(const Table& table, uint64_t bytes);

// Thread-safe.
class PointReader {
 public:
  // All outlive the reader.
  PointReader(Sequencer* sequencer, NodeQueuePairs* queue_pairs, Statistics* statistics)
      : sequencer_(sequencer), queue_pairs_(queue_pairs), statistics_(statistics) {}

  // Where there is no such key the result's state says so, and the Status is OK. How long
  // result->value stays where it is:
  //   result->holder is set   as long as that
  //   *fetched                until the thread's next lookup: it lies in the thread's scratch
  //   neither                 as long as the view
  Status Get(const ReadView& view, const LookupKey& key, const TableReadOptions& options,
             LookupResult* result, bool* fetched) const;

  // True if a memtable has the key, or its deletion: then the result is as Get() says, and tables
  // need not be asked.
  bool GetFromMemtables(const ReadView& view, const LookupKey& key, const Statistics::Mine& counts,
                        LookupResult* result) const;

  // Prefetches a byte near a record that is read in place, so that the processor looks up its page
  // while it waits for the index to say where exactly the record is. With more data than the TLB
  // covers, that was a lookup's longest wait. False: the memory node's records are not read in
  // place.
  bool PrefetchPage(const RemoteSpan& near, const TableReadOptions& options) const;

  // Whether the value cache has the record that Find() has named; then the result is what that
  // record says of the key, and lies in the thread's scratch. Counts hits and misses, those of the
  // block cache as well: Find() has asked that, but keeps no statistics.
  bool AnswerFromCache(const Table& table, const LookupKey& key, const TableProbe& probe,
                       const TableReadOptions& options, LookupResult* result) const;
  // Puts what was fetched and decoded into the value cache, if the table has one and options allow.
  void KeepInCache(const Table& table, const TableProbe& probe, const Slice& fetched,
                   const TableReadOptions& options) const;

  NodeQueuePairs* queue_pairs() const { return queue_pairs_; }
  Statistics* statistics() const { return statistics_; }

 private:
  // Gets the record that Find() has named, from a cache or the memory node, and decodes it.
  Status Read(const Table& table, const LookupKey& key, const TableProbe& probe,
              const TableReadOptions& options, LookupResult* result, bool* fetched) const;
  // The one-sided read, unless the bytes can be read in place. `holder` not null: fetches into a
  // buffer that *holder keeps, else into the thread's scratch.
  Status Fetch(const RemoteSpan& span, const TableReadOptions& options,
               std::shared_ptr<const void>* holder, Slice* bytes, bool* fetched) const;

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
