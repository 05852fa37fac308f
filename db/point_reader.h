// Point lookups: memtables newest first, then tables, newest first, each behind its filter.
#pragma once

#include <cstdint>
#include <memory>

#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "db/read_view.h"
#include "table/node_queue_pairs.h"
#include "util/thread_number.h"

namespace dlsm {

// Asks for the cache lines of a record that is read in place: so they come side by side, not the
// value's after the header's.
void PrefetchRecord(const Slice& bytes);

// Whether who wants to pin a value shares what is fetched of a table for it. What has less than 8
// KB is copied: of a MultiGet it is but a part of what would be kept. So may a value be of a block.
bool SharesFetched(const Table& table, uint64_t bytes);

// Thread-safe.
class PointReader {
 public:
  // All outlive the reader.
  PointReader(Sequencer* sequencer, NodeQueuePairs* queue_pairs, Statistics* statistics)
      : sequencer_(sequencer), queue_pairs_(queue_pairs), statistics_(statistics) {}

  // result->value stays where it is as long as result->holder; where that is null as long as the
  // view, or until the thread's next lookup where *fetched is set: then it lies in the thread's
  // scratch. NotFound is told by the result's state.
  Status Get(const ReadView& view, const LookupKey& key, const TableReadOptions& options,
             LookupResult* result, bool* fetched) const;

  // True if a memtable has decided; then the result is as Get() says.
  bool GetFromMemtables(const ReadView& view, const LookupKey& key, const Statistics::Mine& counts,
                        LookupResult* result) const;

  // Where a record is read in place: the processor looks up the page of a byte near it while it
  // waits for the index to say where the record is. Of more data than it has pages at hand, a
  // lookup's longest wait was that. False: its memory node's records are not read in place.
  bool PrefetchPage(const RemoteSpan& near, const TableReadOptions& options) const;

  // Whether the value cache has the record that Find() has named; then the result, which lies in
  // the thread's scratch, is what it says of the key. Counts.
  bool AnswerFromCache(const Table& table, const LookupKey& key, const TableProbe& probe,
                       const TableReadOptions& options, LookupResult* result) const;
  // For the next reads, what was fetched and decoded.
  void KeepInCache(const Table& table, const TableProbe& probe, const Slice& fetched,
                   const TableReadOptions& options) const;

  NodeQueuePairs* queue_pairs() const { return queue_pairs_; }
  Statistics* statistics() const { return statistics_; }

 private:
  // The table's record that Find() has named, from the cache or from its memory node.
  Status Read(const Table& table, const LookupKey& key, const TableProbe& probe,
              const TableReadOptions& options, LookupResult* result, bool* fetched) const;
  // `holder` may be null: the bytes are as Get() says without one then. Otherwise it gets what
  // holds them, unless they lie in place.
  Status Fetch(const RemoteSpan& span, const TableReadOptions& options,
               std::shared_ptr<const void>* holder, Slice* bytes, bool* fetched) const;

  // Whether a thread's lookups in tables mostly find what they look for: then the next one probably
  // does.
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
