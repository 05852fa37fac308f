// In which order ingests become visible, and which numbers their entries have.
//
// An ingest writes its entries into tables before it has its place among the writes, so their
// number is chosen when it begins: so far ahead that writes do not get there meanwhile. When the
// tables are complete the sequencer skips to that number (Tree::SwitchForIngest). So a later ingest
// has a higher number, and waits for the earlier ones to end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

#include "dLSM/status.h"
#include "db/memtable/sequencer.h"
#include "port/mutex.h"
#include "table/internal_key.h"
#include "util/thread_number.h"

namespace dlsm {

// Thread-safe.
class IngestTurns {
 public:
  // Writes that there may be while an ingest reads its source, and between the shards that it
  // enters one after the other.
  static constexpr SequenceNumber kNumbersAhead = SequenceNumber{1} << 32;
  static constexpr SequenceNumber kNumbersBetween = SequenceNumber{1} << 26;

  class Turn {
   public:
    // Of an ingest into at most so many shards.
    Turn(IngestTurns* turns, const Sequencer& sequencer, size_t shards) : turns_(turns) {
      const port::MutexLock lock(turns_->mutex_);
      const SequenceNumber behind = turns_->waiting_.empty() ? 0 : turns_->end_;
      first_ = std::max(behind, sequencer.Now().next) + kNumbersAhead;
      turns_->end_ = first_ + shards * kNumbersBetween;
      turns_->waiting_.emplace(first_, ThreadNumber::Current());
    }
    ~Turn() {
      const port::MutexLock lock(turns_->mutex_);
      turns_->waiting_.erase(first_);
      turns_->changed_.SignalAll();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Of the entries in the i-th shard that the ingest enters.
    SequenceNumber number(size_t i) const { return first_ + i * kNumbersBetween; }
    // Returns when the earlier ingests have ended. InvalidArgument if one of them is a call of this
    // thread, whose source has begun this one: neither would ever end.
    Status Await() const LOCKS_EXCLUDED(turns_->mutex_) {
      const port::MutexLock lock(turns_->mutex_);
      for (const auto& [first, thread] : turns_->waiting_) {
        if (first < first_ && thread == ThreadNumber::Current()) {
          return Status::InvalidArgument("the source of an ingest ingests into the same database",
                                         "ingest one stream after the other");
        }
      }
      while (turns_->waiting_.begin()->first != first_) turns_->changed_.Wait();
      return Status::OK();
    }

   private:
    IngestTurns* const turns_;
    SequenceNumber first_ = 0;
  };

 private:
  port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  std::map<SequenceNumber, uint32_t> waiting_ GUARDED_BY(mutex_);  // First number, and thread.
  SequenceNumber end_ GUARDED_BY(mutex_) = 0;                      // Behind those of the last one.
};

}  // namespace dlsm
