// What this compute node knows of the load of both sides: the memory node's reports, and its own
// merges, flushes and processors. Asked by each merge for its place.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "db/nodes/merge_placement.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "table/merge_scheduler.h"
#include "util/cpu_meter.h"
#include "util/deadline.h"
#include "util/rpc/messages/merge_load.h"
#include "util/smoothed_rate.h"

namespace dlsm {

// Thread-safe.
class MergeLoadMonitor {
 public:
  using Clock = port::Clock;

  struct Config {
    // Reports older than this say nothing.
    std::chrono::nanoseconds report_lifetime = std::chrono::seconds(3);
    // How long a merge is waited for while the memory node merges nothing at all.
    std::chrono::nanoseconds patience = std::chrono::seconds(60);
  };
  // `local` has the merges that run here, and outlives this.
  MergeLoadMonitor(const Config& config, const MergeScheduler* local)
      : config_(config), local_(local) {}

  // For a merge of so many bytes of input. If it is not `local` it counts as sent.
  PlaceChoice Place(uint64_t bytes) LOCKS_EXCLUDED(mutex_);
  // The same for one whose place was not chosen here.
  void NoteSent(uint64_t bytes) LOCKS_EXCLUDED(mutex_);
  // The memory node did not take a merge of so many bytes that counts as sent.
  void NoteRefused(uint64_t bytes) LOCKS_EXCLUDED(mutex_);

  // All that was ever sent: to be asked before a report is asked for.
  uint64_t sent_bytes() const LOCKS_EXCLUDED(mutex_);
  // `sent_before`: what of sent_bytes() the report knows for sure. What it knows besides counts
  // twice until the next one.
  void NoteReport(const MergeLoad& load, uint64_t sent_before) LOCKS_EXCLUDED(mutex_);

  // A flush has moved so many bytes.
  void NoteTransfer(uint64_t bytes, std::chrono::nanoseconds took) LOCKS_EXCLUDED(mutex_);
  // To be called every second or so.
  void SampleCpu() LOCKS_EXCLUDED(mutex_);

  // Whether a merge that nobody waits for would find a processor where it runs, here if `local`,
  // that others do not want: as of the last moment when nothing merged there, for merges want some.
  // Of a moment that is longer ago than reports last nothing follows: then it would not, so that
  // who asks lets merges rest, and the next report can tell.
  bool HasSpareProcessor(bool local) const LOCKS_EXCLUDED(mutex_);

  // For a merge that is sent now: put off whenever a report shows that the memory node has merged
  // something since the one before, be it of others that go first.
  Deadline MergeDeadline() const;

  // Both sides as a merge would see them now, in lines "name value".
  std::string Describe() const LOCKS_EXCLUDED(mutex_);

 private:
  RemoteMergeSide RemoteLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LocalMergeSide LocalLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;
  const MergeScheduler* const local_;
  std::atomic<Clock::time_point> merges_until_{Clock::time_point()};  // See MergeDeadline().

  mutable port::Mutex mutex_;  // Protects what follows. Taken before the scheduler's.
  MergePlacement placement_ GUARDED_BY(mutex_);
  std::optional<MergeLoad> report_ GUARDED_BY(mutex_);
  Clock::time_point reported_at_ GUARDED_BY(mutex_);
  bool refused_ GUARDED_BY(mutex_) = false;  // Since the report.
  uint64_t sent_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t reported_bytes_ GUARDED_BY(mutex_) = 0;  // Of these, what the report knows.
  SmoothedRate transfer_ GUARDED_BY(mutex_);
  CpuMeter cpu_ GUARDED_BY(mutex_);
  std::optional<double> cpu_idle_ GUARDED_BY(mutex_);
  // How idle processors were when nothing merged there.
  struct Unmerged {
    std::optional<double> cpu_idle;
    Clock::time_point at;
  };
  Unmerged remote_unmerged_ GUARDED_BY(mutex_);
  Unmerged local_unmerged_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
