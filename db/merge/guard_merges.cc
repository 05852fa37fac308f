#include "db/merge/guard_merges.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "db/merge/guard_ranges.h"
#include "db/tree/table_runs.h"

namespace dlsm {

size_t GuardMerges::Bottom(const Version& version) {
  size_t level = version.levels().size() - 1;
  while (level > 1 && version.levels()[level].table_count() == 0) --level;
  return level;
}

double GuardMerges::BytesMax(size_t level) const {
  return static_cast<double>(config_.base_bytes) *
         std::pow(static_cast<double>(config_.runs_max), static_cast<double>(level));
}

size_t GuardMerges::GuardsMax(size_t level) const {
  const double pieces = BytesMax(level - 1) / static_cast<double>(config_.table_bytes_max);
  return static_cast<size_t>(std::clamp(pieces, 1.0, 1e9));
}

bool GuardMerges::Outweighed(uint64_t bytes, uint64_t oldest_bytes) const {
  const uint64_t tables_min = config_.runs_max / 4;
  const uint64_t newer = bytes - oldest_bytes;
  return newer >= std::max<uint64_t>(tables_min, 1) * config_.table_bytes_max &&
         newer >= oldest_bytes / 100 * config_.newer_percent_max;
}

std::optional<MergePick> GuardMerges::PickDown(const Version& version, const TablesInMerge& busy,
                                               size_t level, const Guard& guard, Along along,
                                               size_t level0_tables_max) const {
  if (guard.tables.empty() || AnyBusy(guard.tables, busy)) return std::nullopt;
  const InternalKeyComparator& comparator = version.comparator();
  MergePick pick;
  pick.level = level;
  pick.target_level = level + 1;
  pick.inputs =
      level == 0 && along != Along::kAll ? OldestOf(guard.tables, level0_tables_max) : guard.tables;
  const KeyRange hull = HullOf(comparator, pick.inputs);
  const Level& target = version.levels()[pick.target_level];
  pick.cut_points = GuardKeys(comparator, target, hull);
  const bool deepest = pick.target_level >= Bottom(version);
  const uint64_t piece = BytesOf(pick.inputs) / (pick.cut_points.size() + 1);
  for (const Guard* below : target.AllGuards()) {
    if (!IsWithin(comparator, target, *below, hull) || below->tables.empty()) continue;
    const std::vector<std::vector<TableRef>> runs = RunsOf(*below);
    // It does not keep up: its merge comes first.
    if (!deepest && runs.size() >= 2 * config_.runs_max) return std::nullopt;
    const bool due = runs.size() + 1 >= config_.runs_max ||
                     Outweighed(BytesOf(below->tables) + piece, BytesOf(runs.back()));
    const bool taken = along == Along::kAll || (along == Along::kDue && due);
    if (!deepest || !taken || AnyBusy(below->tables, busy) ||
        !Overlap(comparator, pick.inputs, *below)) {
      continue;
    }
    pick.target_inputs.insert(pick.target_inputs.end(), below->tables.begin(), below->tables.end());
  }
  SetOlder(version, hull, pick.target_level, &pick);
  SetCuts(version, hull, &pick);
  pick.target_guards_max = deepest ? SIZE_MAX : GuardsMax(pick.target_level);
  pick.undivided = level > 0;  // Other guards' merges run side by side with it.
  if (level > 0) pick.guards_max = GuardsMax(level);
  if (target.guards().size() < pick.target_guards_max) {
    pick.guard_bytes = pick.target_inputs.empty() ? config_.table_bytes_max / 2 : GuardBytes();
  }
  TryTrivialMove(comparator, MovedBytesMin(), &pick);
  return pick;
}

std::optional<MergePick> GuardMerges::PickInPlace(const Version& version, const TablesInMerge& busy,
                                                  size_t level, const Guard& guard, bool take_all,
                                                  bool may_move) const {
  if (AnyBusy(guard.tables, busy)) return std::nullopt;
  const InternalKeyComparator& comparator = version.comparator();
  MergePick pick;
  pick.level = pick.target_level = level;
  pick.undivided = true;
  const std::vector<std::vector<TableRef>> runs = RunsOf(guard);
  const uint64_t newer = BytesOf(guard.tables) - BytesOf(runs.back());
  const bool only_newer = !take_all && runs.size() > 2 && newer < BytesOf(runs.back()) / 2;
  for (size_t i = 0; i + (only_newer ? 1 : 0) < runs.size(); ++i) {
    pick.inputs.insert(pick.inputs.end(), runs[i].begin(), runs[i].end());
  }
  const KeyRange hull = HullOf(comparator, pick.inputs);
  SetOlder(version, hull, level, &pick);
  SetCuts(version, hull, &pick);
  if (level == Bottom(version)) pick.guard_bytes = GuardBytes();
  if (may_move) TryTrivialMove(comparator, MovedBytesMin(), &pick);
  return pick;
}

void GuardMerges::SetCuts(const Version& version, const KeyRange& hull, MergePick* pick) const {
  const InternalKeyComparator& comparator = version.comparator();
  const Slice begin = hull.smallest;
  const Slice end = hull.largest;
  const size_t below = pick->target_level + 1;
  if (below < version.levels().size()) {
    const Level& level = version.levels()[below];
    if (!level.Overlapping(comparator, &begin, &end).empty()) {
      pick->cut_candidates = GuardKeys(comparator, level, hull);
      return;
    }
  }
  pick->cut_hash_bits = config_.hash_bits > 0 ? config_.hash_bits : BitsFor(pick->inputs);
}

uint32_t GuardMerges::BitsFor(const std::vector<TableRef>& tables) const {
  uint64_t entries = 1;
  for (const TableRef& table : tables) entries += table->meta().entries;
  const uint64_t record_bytes = std::max<uint64_t>(BytesOf(tables) / entries, 1);
  const uint64_t records = config_.table_bytes_max / record_bytes / 8;
  return std::max<uint32_t>(static_cast<uint32_t>(std::bit_width(records)), 2) - 1;
}

uint64_t GuardMerges::MovedBytesMin() const {
  return std::min(config_.table_bytes_max, config_.base_bytes) / 8;
}

}  // namespace dlsm
