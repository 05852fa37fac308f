// In which order ingests become visible, and which numbers their entries have.
//
// An ingest writes its entries into tables before it has its place among the writes, so their
// number is chosen when it begins: so far ahead that writes do not get there meanwhile. When the
// tables are complete the sequencer skips to that number (Tree::SwitchForIngest), which is Busy if
// writes have come near it all the same. So a later ingest has a higher number, and waits for the
// earlier ones to end. Numbers that are skipped are lost: there are enough for 2^24 ingests.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>

#include "dLSM/status.h"
#include "db/memtable/sequencer.h"
#include "db/tree/manifest.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "table/internal_key.h"
#include "util/thread_number.h"

namespace dlsm {

// Thread-safe.
class IngestTurns {
 public:
  // Writes that there may be while an ingest reads its source, and between the shards that it
  // enters one after the other.
  static constexpr SequenceNumber kNumbersAhead = SequenceNumber{1} << 30;
  static constexpr SequenceNumber kNumbersBetween = SequenceNumber{1} << 26;

  // Half of those that a manifest may have.
  static constexpr SequenceNumber kNumberMax = Manifest::kLastSequenceMax / 2;

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

    // NotSupported if so many numbers are gone that the ingest might use up what writes need.
    Status CheckNumbers(size_t shards) const {
      if (number(shards) <= kNumberMax) return Status::OK();
      return Status::NotSupported(
          "the database has no more sequence numbers for ingests",
          "write the entries in batches, or copy the database into a new one: dlsm_tool backup");
    }
    // Of the entries in the i-th shard that the ingest enters.
    SequenceNumber number(size_t i) const { return first_ + i * kNumbersBetween; }
    // Returns when the earlier ingests have ended, or with the error that usable() has meanwhile.
    // InvalidArgument if one of them is a call of this thread, whose source has begun this one:
    // neither would ever end.
    template <typename Usable>
    Status Await(const Usable& usable) const LOCKS_EXCLUDED(turns_->mutex_) {
      const port::MutexLock lock(turns_->mutex_);
      for (const auto& [first, thread] : turns_->waiting_) {
        if (first < first_ && thread == ThreadNumber::Current()) {
          return Status::InvalidArgument("the source of an ingest ingests into the same database",
                                         "ingest one stream after the other");
        }
      }
      while (turns_->waiting_.begin()->first != first_) {
        const Status status = usable();
        if (!status.ok()) return status;
        turns_->changed_.WaitUntil(port::Clock::now() + kLook);
      }
      return Status::OK();
    }

   private:
    IngestTurns* const turns_;
    SequenceNumber first_ = 0;
  };

 private:
  static constexpr auto kLook = std::chrono::milliseconds(100);

  port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  std::map<SequenceNumber, uint32_t> waiting_ GUARDED_BY(mutex_);  // First number, and thread.
  SequenceNumber end_ GUARDED_BY(mutex_) = 0;                      // Behind those of the last one.
};

}  // namespace dlsm
