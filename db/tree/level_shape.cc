#include "db/tree/level_shape.h"

#include <algorithm>
#include <string>
#include <utility>

#include "db/tree/table_runs.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status Unfit(const char* what) {
  return Status::InvalidArgument(
      what,
      "open it with the compaction_style it had, call CompactRange(nullptr, nullptr) and "
      "close it first");
}

// Tables of all guards, by key.
Status ToByKey(const InternalKeyComparator& comparator, Level* level) {
  *level = level->Flattened(Guard::Order::kByKey);
  const bool disjoint = level->CheckInvariants(comparator).ok();
  return disjoint ? Status::OK() : Unfit("this compaction_style has no guards with several runs");
}

Status ToLeveled(const InternalKeyComparator& comparator, std::vector<Level>* levels) {
  for (size_t i = 1; i < levels->size(); ++i) {
    DLSM_RETURN_IF_ERROR(ToByKey(comparator, &(*levels)[i]));
  }
  return Status::OK();
}

bool HasDisjointTables(const Level& level) {
  return level.sentinel().order == Guard::Order::kByKey && level.table_count() > 0;
}

// Whether each level is newer, as a whole, than all that lies deeper.
bool DividesHistory(const std::vector<Level>& levels) {
  SequenceNumber deeper = 0;  // The newest that lies there; numbers begin with 1.
  for (size_t i = levels.size(); i-- > 1;) {
    SequenceNumber newest = deeper;
    for (const TableRef& table : levels[i].AllTables()) {
      if (table->meta().sequence_min <= deeper) return false;
      newest = std::max(newest, table->meta().sequence_max);
    }
    deeper = newest;
  }
  return true;
}

// Guards go down one by one, so that their levels divide the history of each guard and not that of
// the level. Without them a merge of all of a level would put the old of one guard in front of the
// new of another: tables that overlap, and none of which is the newer.
Status CheckWithoutGuards(const std::vector<Level>& levels) {
  const bool guarded = std::any_of(levels.begin(), levels.end(),
                                   [](const Level& level) { return !level.guards().empty(); });
  return !guarded || DividesHistory(levels) ? Status::OK()
                                            : Unfit("the tree has guards, in several levels");
}

// So that merges into a level that was leveled need not take all of it.
void AddGuards(const InternalKeyComparator& comparator, Level* level) {
  constexpr size_t kTablesInGuard = 4;
  const std::vector<TableRef> tables = level->AllTables();
  for (size_t i = kTablesInGuard; i < tables.size(); i += kTablesInGuard) {
    const Slice key = ExtractUserKey(tables[i]->smallest());
    if (!level->DividesTable(comparator, key)) *level = level->WithGuard(comparator, key);
  }
}

// A leveled tree merges parts of a level down, so that its levels do not divide history: where two
// of them overlap, no merge could say which of their tables is the newer.
Status ToRuns(const InternalKeyComparator& comparator, bool guards, std::vector<Level>* levels) {
  if (!guards) DLSM_RETURN_IF_ERROR(CheckWithoutGuards(*levels));
  size_t disjoint_levels = 0;
  for (size_t i = 1; i < levels->size(); ++i) {
    Level& level = (*levels)[i];
    disjoint_levels += HasDisjointTables(level) ? 1 : 0;
    const bool was_leveled = level.sentinel().order == Guard::Order::kByKey;
    if (!guards || was_leveled) {
      level = level.Flattened(Guard::Order::kNewestFirst);
    }
    level = level.With(comparator, {}, {});  // What a manifest does not say: how to search it.
    if (guards && was_leveled) AddGuards(comparator, &level);
    if (!guards || i == 1) continue;
    for (const Guard& guard : (*levels)[i - 1].guards()) {
      if (!level.DividesTable(comparator, guard.key)) {
        level = level.WithGuard(comparator, guard.key);
      }
    }
  }
  return disjoint_levels <= 1 ? Status::OK() : Unfit("the tree is leveled, with several levels");
}

}  // namespace

Status ShapeLevels(const InternalKeyComparator& comparator, CompactionStyle style, size_t count,
                   std::vector<Level>* levels) {
  if (levels->size() > count) {
    return Status::InvalidArgument("the database has " + std::to_string(levels->size()) + " levels",
                                   "raise num_levels");
  }
  const bool by_key = style == CompactionStyle::kLeveled ||
                      style == CompactionStyle::kLeveledChooseBest ||
                      style == CompactionStyle::kFullLeveling;
  while (levels->size() < count) {
    const bool newest_first = levels->empty() || !by_key;
    levels->emplace_back(newest_first ? Guard::Order::kNewestFirst : Guard::Order::kByKey);
  }
  return by_key ? ToLeveled(comparator, levels)
                : ToRuns(comparator, style == CompactionStyle::kGuards, levels);
}

}  // namespace dlsm
