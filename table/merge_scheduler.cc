#include "table/merge_scheduler.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace dlsm {
namespace {

constexpr std::array kNames = {
    std::pair{MergeSchedule::kSingle, "single"},
    std::pair{MergeSchedule::kFair, "fair"},
    std::pair{MergeSchedule::kGreedy, "greedy"},
    std::pair{MergeSchedule::kSpringAndGear, "spring_and_gear"},
};

// How soon a merge that waits notices that it has been cancelled.
constexpr auto kCancelledNoticed = std::chrono::milliseconds(20);

// What the budget may be behind, so that it is not lost while nothing is merged for a moment.
constexpr auto kBurst = std::chrono::milliseconds(100);

}  // namespace

const char* MergeScheduleName(MergeSchedule schedule) {
  for (const auto& [known, name] : kNames) {
    if (known == schedule) return name;
  }
  return "unknown";
}

std::optional<MergeSchedule> MergeScheduleFromName(const std::string& name) {
  for (const auto& [schedule, known] : kNames) {
    if (name == known) return schedule;
  }
  return std::nullopt;
}

Status UnknownMergeSchedule(const std::string& name) {
  std::string known;
  for (const auto& [schedule, other] : kNames)
    known += (known.empty() ? "" : ", ") + std::string(other);
  return Status::InvalidArgument("unknown merge schedule \"" + name + "\"", "there are " + known);
}

MergeScheduler::MergeScheduler(const MergeSchedulerOptions& options) : options_(options) {}

uint64_t MergeScheduler::UnpaidLocked() const {
  const Clock::time_point now = Clock::now();
  if (options_.bytes_per_second == 0 || paid_until_ <= now) return 0;
  const double bytes = std::chrono::duration<double>(paid_until_ - now).count() *
                       static_cast<double>(options_.bytes_per_second);
  return std::min(static_cast<uint64_t>(bytes), bytes_merged_);
}

MergeScheduler::Load MergeScheduler::load() const {
  port::MutexLock lock(mutex_);
  Load load;
  load.merges = turns_.size();
  for (const Turn* turn : turns_) load.bytes_left += turn->bytes_ - turn->done_;
  const uint64_t unpaid = UnpaidLocked();
  load.bytes_left += unpaid;
  load.bytes_merged = bytes_merged_ - unpaid;
  load.bytes_per_second = rate_.BytesPerSecond();
  return load;
}

void MergeScheduler::SetSchedule(MergeSchedule schedule) {
  port::MutexLock lock(mutex_);
  options_.schedule = schedule;
  ChooseLocked();
}

void MergeScheduler::SetBudget(uint64_t bytes_per_second) {
  port::MutexLock lock(mutex_);
  options_.bytes_per_second = bytes_per_second;
  // What was spent before was spent of the budget before.
  paid_until_ = Clock::now();
  ++budgets_;
  chosen_changed_.SignalAll();
}

MergeSchedulerOptions MergeScheduler::options() const {
  port::MutexLock lock(mutex_);
  return options_;
}

MergeScheduler::Counters MergeScheduler::counters() const {
  port::MutexLock lock(mutex_);
  return counters_;
}

double MergeScheduler::Rank(const Turn& turn) const {
  const auto done = static_cast<double>(turn.done_);
  const auto all = static_cast<double>(std::max<uint64_t>(turn.bytes_, 1));
  switch (options_.schedule) {
    case MergeSchedule::kSingle:
      return 0;  // The order of age decides.
    case MergeSchedule::kFair:
      // Not of what it was said to have: beyond that it would have done no more, ever.
      return static_cast<double>(turn.told_);
    case MergeSchedule::kGreedy:
      return all - done;
    case MergeSchedule::kSpringAndGear:
      return done / all;
  }
  return 0;
}

// Part of a turn's end, which cannot fail: so nothing is allocated.
void MergeScheduler::ChooseLocked() noexcept {
  const size_t running_max =
      options_.schedule == MergeSchedule::kSingle ? 1 : std::max<size_t>(options_.running_max, 1);
  ranked_.clear();
  for (Turn* turn : turns_) ranked_.emplace_back(Rank(*turn), turn);
  // Stable: the older one of two equals. (It does without memory where there is none.)
  std::stable_sort(ranked_.begin(), ranked_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  bool some_may_go = false;
  for (size_t i = 0; i < ranked_.size(); ++i) {
    Turn* const turn = ranked_[i].second;
    const bool chosen = i < running_max;
    some_may_go |= chosen && !turn->chosen_;
    turn->chosen_ = chosen;
  }
  if (some_may_go) chosen_changed_.SignalAll();
}

void MergeScheduler::NoteWorkLocked(Turn* turn, uint64_t bytes) {
  bytes_merged_ += bytes;
  turn->told_ += bytes;
  if (turn->resumed_ == Clock::time_point()) return;
  const Clock::time_point now = Clock::now();
  rate_.Add(bytes, now - turn->resumed_, now);
}

MergeScheduler::Clock::time_point MergeScheduler::SpendLocked(uint64_t bytes) {
  const Clock::time_point now = Clock::now();
  if (options_.bytes_per_second == 0) return now;
  const std::chrono::duration<double> cost(static_cast<double>(bytes) /
                                           static_cast<double>(options_.bytes_per_second));
  paid_until_ =
      std::max(paid_until_, now - kBurst) + std::chrono::duration_cast<Clock::duration>(cost);
  return paid_until_;
}

MergeScheduler::Turn::Turn(MergeScheduler* scheduler, uint64_t bytes,
                           const std::atomic<bool>& cancelled)
    : scheduler_(scheduler), bytes_(bytes), cancelled_(cancelled) {
  port::MutexLock lock(scheduler_->mutex_);
  scheduler_->ranked_.reserve(scheduler_->turns_.size() + 1);
  scheduler_->turns_.push_back(this);
  scheduler_->ChooseLocked();
}

MergeScheduler::Turn::~Turn() {
  port::MutexLock lock(scheduler_->mutex_);
  scheduler_->turns_.remove(this);
  scheduler_->ChooseLocked();
}

void MergeScheduler::Turn::Finished(uint64_t bytes_read) {
  port::MutexLock lock(scheduler_->mutex_);
  scheduler_->NoteWorkLocked(this, bytes_read > told_ ? bytes_read - told_ : 0);
  done_ = bytes_;
}

Status MergeScheduler::Turn::Proceed(uint64_t bytes) {
  MergeScheduler& scheduler = *scheduler_;
  const auto start = Clock::now();
  bool waited = false;
  port::MutexLock lock(scheduler.mutex_);
  scheduler.NoteWorkLocked(this, bytes);
  done_ = std::min(done_ + bytes, bytes_);
  scheduler.ChooseLocked();
  Clock::time_point affordable = scheduler.SpendLocked(bytes);
  uint64_t budget = scheduler.budgets_;
  while (!cancelled_.load(std::memory_order_relaxed)) {
    const Clock::time_point now = Clock::now();
    if (std::exchange(budget, scheduler.budgets_) != scheduler.budgets_) affordable = now;
    if (chosen_ && now >= affordable) break;
    const auto patience = now + kCancelledNoticed;
    scheduler.chosen_changed_.WaitUntil(chosen_ ? std::min(affordable, patience) : patience);
    waited = true;
  }
  if (waited) {
    ++scheduler.counters_.pauses;
    scheduler.counters_.paused_micros += port::MicrosecondsSince(start);
  }
  resumed_ = Clock::now();
  return cancelled_.load(std::memory_order_relaxed) ? Status::Aborted("the merge was cancelled")
                                                    : Status::OK();
}

}  // namespace dlsm
