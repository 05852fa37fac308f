// When writers must wait for work, and how fast they may go on.
#include <algorithm>
#include <new>

#include "db/background.h"
#include "db/components.h"
#include "port/allocation_point.h"
#include "util/out_of_memory.h"

namespace dlsm {
namespace {

double Share(size_t used, size_t limit) {
  return static_cast<double>(used) / static_cast<double>(std::max<size_t>(limit, 1));
}

// As if `expected` were half of the limit. Where no more is used no merge is due, so nothing is to
// be waited for, however near the limit is.
double ShareBeyond(size_t expected, size_t used, size_t limit) {
  if (used <= expected || limit <= expected) return 0;
  return 0.5 + 0.5 * Share(used - expected, limit - expected);
}

}  // namespace

// Says how much has come through, whoever had it flushed.
Tree::SwitchResult Background::Switch(size_t bytes, const MemtableBudget::Ruling& ruling) {
  const size_t active_bytes = tree_->Usage().active_bytes;
  const Tree::SwitchResult result = tree_->Switch(bytes, ruling.immutables_max);
  if (result == Tree::SwitchResult::kSwitched && config_.slow_down_writes) {
    written_.Add(active_bytes, Clock::now());
  }
  return result;
}

// To be called whenever a memtable has become full or has been flushed. That too many wait is said
// only of a full one: who has asked for the flush of another does not stop writers.
Tree::SwitchResult Background::SwitchIfDue(const MemtableBudget::Ruling& ruling) {
  const Tree::SwitchResult result = Switch(ruling.switch_at, ruling);
  if (result != Tree::SwitchResult::kNotNeeded || flush_before_ == 0) return result;
  // All switches are under this lock: the number stays what it is.
  if (tree_->Memtables().newest_number >= flush_before_) {
    flush_before_ = 0;
    return result;
  }
  const Tree::SwitchResult asked = Switch(/*bytes=*/0, ruling);
  return asked == Tree::SwitchResult::kTooManyMemtables ? result : asked;
}

Background::Clock::time_point Background::NoteNoMemory() {
  if (!no_memory_since_.has_value()) no_memory_since_ = Clock::now();
  return *no_memory_since_;
}

// Writers come by again, but nobody needs to write any more; or there was no memory to judge.
void Background::SwitchAgain() {
  if (!judge_again_.load(std::memory_order_relaxed)) {
    port::MutexLock lock(gate_mutex_);
    if (!no_memory_since_.has_value()) return;
  }
  LookAtMemtable();
}

// Who has changed something has done so, whether there is memory to judge of it or not.
void Background::UpdateGate() noexcept {
  judge_again_.store(false, std::memory_order_relaxed);
  try {
    JudgeGate();
  } catch (const std::bad_alloc&) {
    judge_again_.store(true, std::memory_order_relaxed);
  }
}

// Judged under one lock, so that the last judgement is of the last state: a writer that found no
// room must not close the gate after the flush that made room has opened it.
void Background::JudgeGate() {
  port::MutexLock lock(gate_mutex_);
  port::AllocationPoint("gate");
  SwitchAndJudgeMemtables();
  const std::shared_ptr<const Version> version = tree_->views().Current()->version;
  const double components_share = JudgeComponents(*version);
  gate_->Set(StallReason::kMemory, store_->memory()->full());
  if (store_->memory()->full()) gate_->NoteError(store_->memory()->full_reason());
  if (config_.slow_down_writes) UpdatePace(components_share);
}

// One step, because what becomes of the switch is what tells whether writers must wait.
void Background::SwitchAndJudgeMemtables() {
  const MemtableBudget::Ruling ruling = budget_->RulingFor(*tree_);
  const Tree::SwitchResult result = SwitchIfDue(ruling);
  const bool switched = result == Tree::SwitchResult::kSwitched;
  const bool no_memory = result == Tree::SwitchResult::kNoMemory;
  if (!no_memory) no_memory_since_.reset();
  if (no_memory) NoteNoMemory();
  tree_->LookAgainAt(switched ? ruling.look_at_next : ruling.look_again_at);
  // Nothing waits for its flush, so what keeps writers waiting is not to be found there.
  if (ruling.must_wait && no_memory && tree_->Memtables().immutable == 0) {
    gate_->NoteError(OutOfMemtableMemory("there is none to take the place of one that is full"));
  }
  gate_->Set(StallReason::kMemtables,
             ruling.must_wait || result == Tree::SwitchResult::kTooManyMemtables);
}

double Background::JudgeComponents(const Version& version) {
  if (config_.constraint == ComponentConstraint::kLocal) {
    const size_t level0 = version.levels()[0].table_count();
    gate_->Set(StallReason::kLevel0, level0 >= config_.level0_stop_trigger);
    return ShareBeyond(config_.level0_merge_trigger, level0, config_.level0_stop_trigger);
  }
  const size_t components = CountComponents(version);
  const ComponentLimits limits = LimitsOf(version);
  gate_->Set(StallReason::kComponents, components >= limits.max);
  return ShareBeyond(limits.expected, components, limits.max);
}

void Background::UpdatePace(double components_share) {
  const double memtables_share = budget_->Pressure(*tree_);
  gate_->SetPace(PaceFor(std::max(components_share, memtables_share), written_.Get(Clock::now())));
}

// Memtables grow by pieces of some kilobytes, so a trickle counts as pauses for the most part:
// nothing comes of it that merges would have to bear. Who waits has no part in that.
void Background::LookForPauses() {
  if (!config_.slow_down_writes) return;
  port::MutexLock lock(gate_mutex_);
  const std::shared_ptr<const ReadView> view = tree_->views().Current();
  const uint64_t number = view->active->number();
  const size_t bytes = view->active->MemoryUsage();
  const bool grown = number != seen_number_ || bytes != seen_bytes_;
  seen_number_ = number;
  seen_bytes_ = bytes;
  written_.Look(grown || gate_->somebody_waits(), Clock::now());
}

Background::ComponentLimits Background::LimitsOf(const Version& version) const {
  ComponentLimits limits;
  {
    port::MutexLock lock(mutex_);
    limits.expected = policy_->ExpectedComponents(version);
  }
  limits.max = config_.components_max == 0 ? 2 * limits.expected : config_.components_max;
  limits.max = std::max(limits.max, limits.expected + 1);
  return limits;
}

}  // namespace dlsm
