// What each second of a phase looked like: arrivals, completions, latency, stalls and the tree.
//
// A write belongs to the second in which it arrived with its latency, and to the one in which it
// completed with its completion. So a store that stands still shows seconds without completions,
// and the arrivals of those seconds show what they had to wait, though they completed later.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/engine.h"
#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/histogram.h"

namespace dlsm::bench {

struct SecondRow {
  uint64_t second = 0;
  uint64_t arrivals = 0;
  uint64_t completions = 0;
  // Of the writes that arrived.
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
  // Milliseconds that stalls lasted that ended in this second, of all writers together.
  double stalled_ms = 0;
  TreeState tree;  // At its end.
};

// Times are nanoseconds since the start of the phase.
class TimeSeries {
 public:
  // One thread's part. Writes are added in the order of their arrival.
  class Recorder {
   public:
    explicit Recorder(TimeSeries& series, size_t index) : series_(series), index_(index) {}

    void Add(uint64_t arrival_ns, uint64_t end_ns) {
      AddArrival(arrival_ns, end_ns);
      const uint64_t second = end_ns / kSecondNs;
      if (second >= completions_.size()) [[unlikely]]
        completions_.resize(second + 1);
      ++completions_[second];
    }
    // A write that was given up at `end_ns`, before it began.
    void AddUnfinished(uint64_t arrival_ns, uint64_t end_ns) { AddArrival(arrival_ns, end_ns); }
    // Nothing is added after this.
    void Finish();

   private:
    void AddArrival(uint64_t arrival_ns, uint64_t end_ns) {
      const uint64_t second = arrival_ns / kSecondNs;
      if (second != second_) [[unlikely]]
        Advance(second);
      latency_ns_.Add(end_ns - arrival_ns);
    }
    void Advance(uint64_t second);

    TimeSeries& series_;
    const size_t index_;
    uint64_t second_ = 0;
    Histogram latency_ns_;  // Of second_.
    std::vector<uint64_t> completions_;
  };

  explicit TimeSeries(size_t recorders);
  TimeSeries(const TimeSeries&) = delete;
  TimeSeries& operator=(const TimeSeries&) = delete;

  Recorder& recorder(size_t index) { return *recorders_[index]; }

  // At the end of `second`. `stalled_micros`: of stalls that ended in it. Thread-safe.
  void Sample(uint64_t second, uint64_t stalled_micros, const TreeState& tree)
      LOCKS_EXCLUDED(mutex_);

  // From second 0 to the last in which anything happened. All recorders have finished.
  std::vector<SecondRow> Rows() const LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr uint64_t kSecondNs = 1'000'000'000;
  static constexpr uint64_t kFinished = UINT64_MAX;

  void Merge(size_t recorder, uint64_t from, uint64_t to, const Histogram& latency_ns)
      LOCKS_EXCLUDED(mutex_);
  void CountCompletions(const std::vector<uint64_t>& completions) LOCKS_EXCLUDED(mutex_);
  SecondRow& RowLocked(uint64_t second) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseSecondsLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<std::unique_ptr<Recorder>> recorders_;  // Constant after construction.

  mutable port::Mutex mutex_;
  std::vector<SecondRow> rows_ GUARDED_BY(mutex_);
  // Seconds that a recorder may still add to. A histogram is large, so a second's becomes a row as
  // soon as all recorders are past it.
  std::map<uint64_t, Histogram> open_ GUARDED_BY(mutex_);
  std::vector<uint64_t> reached_ GUARDED_BY(mutex_);  // The second of each recorder.
};

// The file of --timeseries: a CSV with a heading. Figures that a store does not tell are empty.
class TimeSeriesFile {
 public:
  // An empty path: nothing is written.
  explicit TimeSeriesFile(std::string path) : path_(std::move(path)) {}

  // Makes the file, with its heading alone.
  Status Create() const;
  Status Append(const std::string& phase, const std::vector<SecondRow>& rows) const;

 private:
  const std::string path_;
};

}  // namespace dlsm::bench
