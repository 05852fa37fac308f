// Which of the merges that are under way in a process may go on. Each runs in a thread of its own
// and asks after every slice; those that are not chosen wait there. (Luo & Carey, VLDB 2019,
// sections 4 and 5; spring and gear: Sears and Ramakrishnan, SIGMOD 2012.)
//
//   single           the oldest alone, until it is done
//   fair             whoever has done least: all get the same share
//   greedy           whoever has least left: the number of tables falls as fast as it can
//   spring_and_gear  whoever is least complete: all are done at about the same time
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "port/mutex.h"
#include "table/merge_tables.h"

namespace dlsm {

const char* MergeScheduleName(MergeSchedule schedule);
std::optional<MergeSchedule> MergeScheduleFromName(const std::string& name);

struct MergeSchedulerOptions {
  MergeSchedule schedule = MergeSchedule::kGreedy;
  // How many are chosen at a time: as many as there are processors for them. kSingle: one.
  size_t running_max = 2;
  // Of input, over all merges together; 0: no limit.
  uint64_t bytes_per_second = 0;
};

// Thread-safe.
class MergeScheduler {
 public:
  explicit MergeScheduler(const MergeSchedulerOptions& options);
  // All turns are gone.
  ~MergeScheduler() = default;

  struct Counters {
    uint64_t pauses = 0;         // How often a merge had to wait for others.
    uint64_t paused_micros = 0;  // For how long, and that of the budget included.
  };
  Counters counters() const LOCKS_EXCLUDED(mutex_);

  // One merge's place in the schedule, from its construction on. Used by one thread.
  class Turn final : public MergePace {
   public:
    // `bytes`: of all inputs. `cancelled` ends waiting; it and the scheduler outlive the turn.
    Turn(MergeScheduler* scheduler, uint64_t bytes, const std::atomic<bool>& cancelled);
    ~Turn() override;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Returns when the merge is chosen and the budget allows it; Aborted once cancelled.
    Status Proceed(uint64_t bytes) override;

   private:
    friend class MergeScheduler;
    MergeScheduler* const scheduler_;
    const uint64_t bytes_;
    const std::atomic<bool>& cancelled_;
    // Guarded by the scheduler's mutex.
    uint64_t done_ = 0;
    bool chosen_ = false;
  };

 private:
  using Clock = std::chrono::steady_clock;

  // Smaller goes first.
  double Rank(const Turn& turn) const;
  void ChooseLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time at which the budget allows `bytes` more.
  Clock::time_point SpendLocked(uint64_t bytes) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const MergeSchedulerOptions options_;

  mutable port::Mutex mutex_;  // Protects what follows, and what a Turn says it does.
  port::CondVar chosen_changed_{mutex_};
  std::list<Turn*> turns_ GUARDED_BY(mutex_);  // Oldest first.
  Clock::time_point paid_until_ GUARDED_BY(mutex_);
  Counters counters_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
