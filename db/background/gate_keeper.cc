#include "db/background/gate_keeper.h"

#include <algorithm>
#include <memory>

#include "db/nodes/flush_room.h"
#include "db/nodes/placed_memory.h"
#include "db/tree/components.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

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

GateKeeper::GateKeeper(const Config& config, const Parts& parts)
    : config_(config),
      tree_(parts.tree),
      store_(parts.store),
      gate_(parts.gate),
      budget_(parts.budget),
      expected_components_(parts.expected_components) {}

// Memtables may not outgrow what the reserve (flush_room.h) could flush if the memory node were
// full. There is no such limit while nobody knows the reserve, or where it covers anything.
MemtableBudget::Ruling GateKeeper::Rule(bool* beyond) {
  MemtableBudget::Ruling ruling = budget_->RulingFor(*tree_);
  *beyond = false;
  PlacedMemory& memory = *store_->memory();
  const RemoteMemory::Covered covered = memory.covered();
  if (covered.data == UINT64_MAX) return ruling;
  const Tree::MemtableUsage usage = tree_->Usage();
  const uint64_t all = usage.active_bytes + usage.immutable_bytes;
  const bool grows = ReserveShouldGrow(all, covered.data);
  // While the memory node is full there is nothing to grow by, and what would be wanted puts off
  // the moment when it no longer counts as full.
  if (grows && !memory.full()) {
    memory.GrowReserves(GrownReserveFor(all));
    reserve_is_due_.store(true, std::memory_order_relaxed);
  }
  *beyond = all >= covered.data;
  LookAgainFor(covered, usage, grows, &ruling);
  SwitchForReserve(covered, usage, &ruling);
  return ruling;
}

void GateKeeper::LookAgainFor(const RemoteMemory::Covered& covered,
                              const Tree::MemtableUsage& usage, bool grows,
                              MemtableBudget::Ruling* ruling) {
  const auto beside = [](uint64_t others, uint64_t limit) {
    return std::max<size_t>(limit > others ? limit - others : 0, MemtableBudget::kMemtableBytesMin);
  };
  const uint64_t next = grows ? covered.data : covered.data / 2;
  const uint64_t all = usage.active_bytes + usage.immutable_bytes;
  ruling->look_again_at = std::min(ruling->look_again_at, beside(usage.immutable_bytes, next));
  ruling->look_at_next = std::min(ruling->look_at_next, beside(all, next));
}

void GateKeeper::SwitchForReserve(const RemoteMemory::Covered& covered,
                                  const Tree::MemtableUsage& usage,
                                  MemtableBudget::Ruling* ruling) {
  const auto switch_at = [ruling](uint64_t bytes) {
    ruling->switch_at = std::min<size_t>(ruling->switch_at, bytes);
  };
  const bool stays = store_->memory()->full() || store_->memory()->reserves_refused();
  // Where nothing is left of the reserve, smaller memtables are flushed no sooner than larger ones.
  if (stays && covered.data >= usage.immutable_bytes + MemtableBudget::kMemtableBytesMin) {
    switch_at(covered.data - usage.immutable_bytes);
  }
  // Writers fill one memtable while another is flushed.
  if (covered.limited) switch_at(covered.data / 2);
  // Deletions go on beyond what is covered with them to come, and then wait as well: what no flush
  // finds room for would keep the merges from making any.
  const uint64_t all = usage.active_bytes + usage.immutable_bytes;
  if (all < covered.deletions + MemtableBudget::kMemtableBytesMin) return;
  ruling->must_wait = true;
  if (stays && usage.immutable_bytes == 0) switch_at(usage.active_bytes);
}

// Says how much has come through, whoever had it flushed.
Tree::SwitchResult GateKeeper::Switch(size_t bytes, const MemtableBudget::Ruling& ruling) {
  const size_t active_bytes = tree_->Usage().active_bytes;
  const Tree::SwitchResult result = tree_->Switch(bytes, ruling.immutables_max);
  if (result == Tree::SwitchResult::kSwitched && config_.slow_down_writes) {
    written_.Add(active_bytes, Clock::now());
  }
  return result;
}

// Who asks for a flush after each write does not leave a table for each.
Tree::SwitchResult GateKeeper::SwitchAsAsked(MemtableBudget::Ruling ruling) {
  ruling.immutables_max = std::min(ruling.immutables_max, config_.flushes_at_once);
  return Switch(/*bytes=*/0, ruling);
}

// To be called whenever a memtable has become full or has been flushed. That too many wait is said
// only of a full one: who has asked for the flush of another does not stop writers.
Tree::SwitchResult GateKeeper::SwitchIfDue(const MemtableBudget::Ruling& ruling) {
  const Tree::SwitchResult result = Switch(ruling.switch_at, ruling);
  if (result != Tree::SwitchResult::kNotNeeded || flush_before_ == 0) return result;
  // All switches are under this lock: the number stays what it is.
  if (tree_->Memtables().newest_number >= flush_before_) {
    flush_before_ = 0;
    return result;
  }
  const Tree::SwitchResult asked = SwitchAsAsked(ruling);
  return asked == Tree::SwitchResult::kTooManyMemtables ? result : asked;
}

GateKeeper::Clock::time_point GateKeeper::NoteNoMemory() {
  if (!no_memory_since_.has_value()) no_memory_since_ = Clock::now();
  return *no_memory_since_;
}

bool GateKeeper::lacks_room() const {
  port::MutexLock lock(mutex_);
  return gate_->closed(StallReason::kMemory);
}

bool GateKeeper::must_judge_again() const {
  port::MutexLock lock(mutex_);
  return no_memory_since_.has_value();
}

GateKeeper::AskedSwitch GateKeeper::SwitchForFlush(uint64_t number) {
  AskedSwitch asked;
  port::MutexLock lock(mutex_);
  bool beyond;
  const MemtableBudget::Ruling ruling = Rule(&beyond);
  const Tree::SwitchResult result = SwitchAsAsked(ruling);
  if (result == Tree::SwitchResult::kSwitched) {
    tree_->LookAgainAt(ruling.look_at_next);
    no_memory_since_.reset();
    asked.switched = true;
  } else if (result != Tree::SwitchResult::kNotNeeded) {
    flush_before_ = number + 1;  // Whoever makes room for it will see to it.
    if (result == Tree::SwitchResult::kNoMemory) asked.no_memory_since = NoteNoMemory();
  }
  // Somebody else may have switched since: then it was the next memtable that is empty.
  asked.is_empty =
      result == Tree::SwitchResult::kNotNeeded && tree_->Memtables().newest_number == number;
  return asked;
}

Status GateKeeper::SwitchForIngest(SequenceNumber number, const std::vector<TableRef>& tables,
                                   uint64_t* memtable) {
  port::MutexLock lock(mutex_);
  bool beyond;
  const MemtableBudget::Ruling ruling = Rule(&beyond);
  DLSM_RETURN_IF_ERROR(tree_->SwitchForIngest(number, tables, memtable));
  tree_->LookAgainAt(ruling.look_at_next);
  return Status::OK();
}

// Judged under one lock, so that the last judgement is of the last state: a writer that found no
// room must not close the gate after the flush that made room has opened it.
bool GateKeeper::Judge() {
  port::MutexLock lock(mutex_);
  bool switched;
  bool beyond;
  SwitchAndJudgeMemtables(&switched, &beyond);
  const std::shared_ptr<const Version> version = tree_->views().Current()->version;
  const double components_share = JudgeComponents(*version);
  gate_->Set(StallReason::kMemory, store_->memory()->full() || beyond);
  if (store_->memory()->full()) gate_->NoteError(store_->memory()->full_reason());
  if (config_.slow_down_writes) UpdatePace(components_share);
  return switched;
}

// One step, because what becomes of the switch is what tells whether writers must wait.
void GateKeeper::SwitchAndJudgeMemtables(bool* switched, bool* beyond) {
  const MemtableBudget::Ruling ruling = Rule(beyond);
  const Tree::SwitchResult result = SwitchIfDue(ruling);
  *switched = result == Tree::SwitchResult::kSwitched;
  const bool no_memory = result == Tree::SwitchResult::kNoMemory;
  if (!no_memory) no_memory_since_.reset();
  if (no_memory) NoteNoMemory();
  tree_->LookAgainAt(*switched ? ruling.look_at_next : ruling.look_again_at);
  // Nothing waits for its flush, so what keeps writers waiting is not to be found there.
  if (ruling.must_wait && no_memory && tree_->Memtables().immutable == 0) {
    gate_->NoteError(OutOfMemtableMemory("there is none to take the place of one that is full"));
  }
  gate_->Set(StallReason::kMemtables,
             ruling.must_wait || result == Tree::SwitchResult::kTooManyMemtables);
}

double GateKeeper::JudgeComponents(const Version& version) {
  if (!config_.stops_for_components) return 0;
  if (config_.constraint == ComponentConstraint::kLocal) {
    const size_t level0 = version.levels()[0].table_count();
    gate_->Set(StallReason::kLevel0, level0 >= config_.level0_stop_trigger);
    return ShareBeyond(config_.level0_merge_trigger, level0, config_.level0_stop_trigger);
  }
  const size_t components = CountComponents(version);
  const size_t expected = expected_components_(version);
  const size_t wanted = config_.components_max == 0 ? 2 * expected : config_.components_max;
  const size_t limit = std::max(wanted, expected + 1);
  gate_->Set(StallReason::kComponents, components >= limit);
  return ShareBeyond(expected, components, limit);
}

void GateKeeper::UpdatePace(double components_share) {
  const double memtables_share = budget_->Pressure(*tree_);
  gate_->SetPace(PaceFor(std::max(components_share, memtables_share), written_.Get(Clock::now())));
}

// Memtables grow by pieces of some kilobytes, so a trickle counts as pauses for the most part:
// nothing comes of it that merges would have to bear. Who waits has no part in that.
void GateKeeper::LookForPauses() {
  if (!config_.slow_down_writes) return;
  port::MutexLock lock(mutex_);
  const std::shared_ptr<const ReadView> view = tree_->views().Current();
  const uint64_t number = view->active->number();
  const size_t bytes = view->active->MemoryUsage();
  const bool grown = number != seen_number_ || bytes != seen_bytes_;
  seen_number_ = number;
  seen_bytes_ = bytes;
  written_.Look(grown || gate_->somebody_waits(), Clock::now());
}

void GateKeeper::EndPause() {
  if (!config_.slow_down_writes) return;
  port::MutexLock lock(mutex_);
  written_.Look(/*busy=*/false, Clock::now());
}

}  // namespace dlsm
