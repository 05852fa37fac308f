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
#include <utility>
#include <vector>

#include "dLSM/options.h"
#include "dLSM/status.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "table/merge_tables.h"
#include "util/smoothed_rate.h"

namespace dlsm {

const char* MergeScheduleName(MergeSchedule schedule);
std::optional<MergeSchedule> MergeScheduleFromName(const std::string& name);
// InvalidArgument that lists the names there are.
Status UnknownMergeSchedule(const std::string& name);

struct MergeSchedulerOptions {
  MergeSchedule schedule = MergeSchedule::kGreedy;
  // How many are chosen at a time: as many as there are processors for them. kSingle: one.
  size_t running_max = 2;
  // Of input, over all merges together; 0: no limit.
  uint64_t bytes_per_second = 0;
};

// Thread-safe.
class MergeScheduler {
  using Clock = port::Clock;

 public:
  explicit MergeScheduler(const MergeSchedulerOptions& options);
  // All turns are gone.
  ~MergeScheduler() = default;

  struct Counters {
    uint64_t pauses = 0;         // How often a merge had to wait for others.
    uint64_t paused_micros = 0;  // For how long, and that of the budget included.
  };
  Counters counters() const LOCKS_EXCLUDED(mutex_);

  struct Load {
    uint64_t merges = 0;  // That have a turn.
    // Of their inputs. What the budget has not yet paid for counts as left, not as merged: so a
    // merge that waits for the budget gets on, however large its slices are.
    uint64_t bytes_left = 0;
    uint64_t bytes_merged = 0;      // By all there ever were.
    uint64_t bytes_per_second = 0;  // Of one merge that runs, waits not counted; 0: not known.
  };
  Load load() const LOCKS_EXCLUDED(mutex_);

  // Take effect on the merges under way, too.
  void SetSchedule(MergeSchedule schedule) LOCKS_EXCLUDED(mutex_);
  void SetBudget(uint64_t bytes_per_second) LOCKS_EXCLUDED(mutex_);
  // What is in force.
  MergeSchedulerOptions options() const LOCKS_EXCLUDED(mutex_);

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

    // The merge is done, and has read so much in all. A merge that fails goes without.
    void Finished(uint64_t bytes_read);

   private:
    friend class MergeScheduler;
    MergeScheduler* const scheduler_;
    const uint64_t bytes_;
    const std::atomic<bool>& cancelled_;
    // Guarded by the scheduler's mutex.
    uint64_t done_ = 0;
    bool chosen_ = false;
    uint64_t told_ = 0;          // All that Proceed() was told, which may be more than bytes_.
    Clock::time_point resumed_;  // When Proceed() returned last; before: never.
  };

 private:
  // Smaller goes first.
  double Rank(const Turn& turn) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ChooseLocked() noexcept EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The turn has worked since it was resumed.
  void NoteWorkLocked(Turn* turn, uint64_t bytes) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t UnpaidLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time at which the budget allows `bytes` more.
  Clock::time_point SpendLocked(uint64_t bytes) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable port::Mutex mutex_;  // Protects what follows, and what a Turn says it does.
  MergeSchedulerOptions options_ GUARDED_BY(mutex_);
  uint64_t budgets_ GUARDED_BY(mutex_) = 0;  // How often the budget was changed.
  port::CondVar chosen_changed_{mutex_};
  std::list<Turn*> turns_ GUARDED_BY(mutex_);  // Oldest first.
  // Of ChooseLocked(). With room for all turns.
  std::vector<std::pair<double, Turn*>> ranked_ GUARDED_BY(mutex_);
  Clock::time_point paid_until_ GUARDED_BY(mutex_);
  Counters counters_ GUARDED_BY(mutex_);
  uint64_t bytes_merged_ GUARDED_BY(mutex_) = 0;
  SmoothedRate rate_ GUARDED_BY(mutex_);  // Of one merge that runs.
};

}  // namespace dlsm
