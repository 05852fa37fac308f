#include "db/merge/merge_policy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "db/merge/room_watch.h"
#include "db/tree/leftovers.h"
#include "db/tree/split_keys.h"
#include "db/tree/table_runs.h"

namespace dlsm {

uint64_t MergePick::input_bytes() const { return BytesOf(inputs) + BytesOf(target_inputs); }

bool MergePick::MakesRoom(const InternalKeyComparator& comparator) const {
  std::vector<TableRef> tables = inputs;
  tables.insert(tables.end(), target_inputs.begin(), target_inputs.end());
  const bool deletes = std::any_of(tables.begin(), tables.end(), [](const TableRef& table) {
    return table->meta().deletions > 0;
  });
  return deletes || !AreDisjoint(comparator, std::move(tables));
}

std::vector<std::string> PartBoundaries(const InternalKeyComparator& comparator,
                                        const MergePick& pick, size_t parts_max, size_t parts_min) {
  std::vector<std::string> starts = pick.cut_points;
  if (starts.empty()) {
    for (const TableRef& table : pick.target_inputs) {
      starts.push_back(ExtractUserKey(table->smallest()).ToString());
    }
    // Tables of a guard lie newest first, and overlap.
    const auto before = [&comparator](const std::string& a, const std::string& b) {
      return comparator.CompareUserKeys(a, b) < 0;
    };
    std::sort(starts.begin(), starts.end(), before);
    const auto same = [&before](const std::string& a, const std::string& b) {
      return !before(a, b);
    };
    starts.erase(std::unique(starts.begin(), starts.end(), same), starts.end());
  }
  if (starts.size() < parts_min) {
    std::vector<TableRef> tables = pick.inputs;
    tables.insert(tables.end(), pick.target_inputs.begin(), pick.target_inputs.end());
    return SplitKeys(comparator, tables, parts_min);
  }
  std::vector<std::string> boundaries;
  const size_t parts = std::min(parts_max, starts.size());
  for (size_t i = 1; i < parts; ++i) boundaries.push_back(starts[i * starts.size() / parts]);
  return boundaries;
}

bool ManualScope::HasLeftover(const TableRef& table,
                              const std::vector<SequenceNumber>& live) const {
  return Has(table) && (rewrites || HoldsLeftovers(*table, live));
}

bool ManualScope::HasLeftovers(const std::vector<TableRef>& tables,
                               const std::vector<SequenceNumber>& live) const {
  return std::any_of(tables.begin(), tables.end(),
                     [&](const TableRef& table) { return HasLeftover(table, live); });
}

std::optional<MergePick> MergePolicy::PickForRoom(const Version& version, const TablesInMerge& busy,
                                                  const RoomLeft& room) {
  std::optional<MergePick> smallest;
  for (size_t level = 0; level < version.levels().size(); ++level) {
    bool done;
    std::optional<MergePick> pick = PickManual(version, busy, level, ManualScope{}, &done);
    if (!pick.has_value()) continue;
    const bool presses = room.IsPressing(pick->input_bytes()) && MakesRoom(version, *pick);
    if (!presses && !IsWorthLeftovers(*pick, room)) continue;
    if (room.Fits(pick->input_bytes())) return pick;
    KeepSmaller(std::move(pick), &smallest);
  }
  return smallest;
}

// Tables of which everything is hidden come first: they cost nothing.
std::optional<MergePick> MergePolicy::PickForTombstones(const Version& version,
                                                        const TablesInMerge& busy) {
  for (size_t level = 0; level < version.levels().size(); ++level) {
    std::optional<MergePick> pick = PickAllHidden(version, busy, level);
    if (pick.has_value()) return pick;
  }
  for (size_t level = 0; level < version.levels().size(); ++level) {
    std::optional<MergePick> pick = PickPartlyHidden(version, busy, level);
    if (pick.has_value()) return pick;
  }
  return std::nullopt;
}

std::optional<MergePick> MergePolicy::PickAllHidden(const Version& version,
                                                    const TablesInMerge& busy, size_t level) const {
  MergePick pick;
  pick.level = pick.target_level = level;
  for (const TableRef& table : version.levels()[level].AllTables()) {
    if (table->hidden_below() == 0 || busy.count(table->number()) != 0) continue;
    if (version.tombstones()->HideAll(table->meta(), snapshots_)) pick.inputs.push_back(table);
  }
  if (pick.inputs.empty()) return std::nullopt;
  pick.older = RangesOf(version.comparator(), pick.inputs);
  return pick;
}

std::optional<MergePick> MergePolicy::PickPartlyHidden(const Version& version,
                                                       const TablesInMerge& busy, size_t level) {
  constexpr size_t kTriesMax = 16;
  const auto is_hidden = [this](const TableRef& table) {
    return table->hidden_below() > 0 && HoldsLeftovers(*table, snapshots_);
  };
  size_t tries = 0;
  for (const TableRef& table : version.levels()[level].AllTables()) {
    if (!is_hidden(table) || busy.count(table->number()) != 0) continue;
    if (++tries > kTriesMax) break;
    const Slice smallest = ExtractUserKey(table->smallest());
    const Slice largest = ExtractUserKey(table->largest());
    ManualScope scope;
    scope.begin = &smallest;
    scope.end = &largest;
    bool done;
    std::optional<MergePick> pick = PickManual(version, busy, level, scope, &done);
    if (!pick.has_value() || std::none_of(pick->inputs.begin(), pick->inputs.end(), is_hidden)) {
      continue;
    }
    pick->trivial_move = false;
    return pick;
  }
  return std::nullopt;
}

bool MergePolicy::IsWorthLeftovers(const MergePick& pick, const RoomLeft& room) const {
  return room.IsWorthLeftovers(pick.input_bytes()) && HoldLeftovers(pick.inputs, snapshots_);
}

bool MergePolicy::MakesRoom(const Version& version, const MergePick& pick) {
  const InternalKeyComparator& comparator = version.comparator();
  if (pick.in_place() && AreDisjoint(comparator, pick.inputs)) {
    return BytesOfDeletions(pick.inputs) >= pick.input_bytes() / kWorthPart;
  }
  if (pick.MakesRoom(comparator)) return true;
  const auto hides_some = [&](const TableRef& table) {
    return TouchesAny(comparator, pick.older, *table);
  };
  return !pick.in_place() && std::any_of(pick.inputs.begin(), pick.inputs.end(), hides_some);
}

void MergePolicy::KeepSmaller(std::optional<MergePick> pick, std::optional<MergePick>* smallest) {
  if (!pick.has_value()) return;
  if (!smallest->has_value() || pick->input_bytes() < (*smallest)->input_bytes()) {
    *smallest = std::move(pick);
  }
}

std::vector<TableRef> OldestOf(std::vector<TableRef> tables, size_t max) {
  if (max == 0 || tables.size() <= max) return tables;
  auto first = tables.end() - static_cast<ptrdiff_t>(max);
  SequenceNumber newest = 0;  // Of what is taken, and, in the loop, of what lies behind `table`.
  SequenceNumber passed = 0;
  for (auto table = tables.end(); table != tables.begin();) {
    --table;
    passed = std::max(passed, (*table)->meta().sequence_max);
    if (table < first && (*table)->meta().sequence_min > newest) continue;
    first = std::min(first, table);
    newest = passed;
  }
  tables.erase(tables.begin(), first);
  return tables;
}

bool AnyBusy(const std::vector<TableRef>& tables, const TablesInMerge& busy) {
  return std::any_of(tables.begin(), tables.end(),
                     [&busy](const TableRef& table) { return busy.count(table->number()) != 0; });
}

KeyRange HullOf(const InternalKeyComparator& comparator, const std::vector<TableRef>& tables) {
  KeyRange range;
  for (const TableRef& table : tables) {
    const Slice smallest = ExtractUserKey(table->smallest());
    const Slice largest = ExtractUserKey(table->largest());
    const bool first = table == tables.front();
    if (first || comparator.CompareUserKeys(smallest, range.smallest) < 0) {
      range.smallest = smallest.ToString();
    }
    if (first || comparator.CompareUserKeys(largest, range.largest) > 0) {
      range.largest = largest.ToString();
    }
  }
  return range;
}

std::vector<KeyRange> RangesOf(const InternalKeyComparator& comparator,
                               const std::vector<TableRef>& tables) {
  std::vector<KeyRange> ranges;
  ranges.reserve(tables.size());
  for (const TableRef& table : tables) {
    ranges.push_back(KeyRange{ExtractUserKey(table->smallest()).ToString(),
                              ExtractUserKey(table->largest()).ToString()});
  }
  std::sort(ranges.begin(), ranges.end(), [&comparator](const KeyRange& a, const KeyRange& b) {
    return comparator.CompareUserKeys(a.smallest, b.smallest) < 0;
  });
  std::vector<KeyRange> joined;
  for (KeyRange& range : ranges) {
    if (joined.empty() || comparator.CompareUserKeys(joined.back().largest, range.smallest) < 0) {
      joined.push_back(std::move(range));
    } else if (comparator.CompareUserKeys(joined.back().largest, range.largest) < 0) {
      joined.back().largest = std::move(range.largest);
    }
  }
  return joined;
}

bool TouchesAny(const InternalKeyComparator& comparator, const std::vector<KeyRange>& ranges,
                const Table& table) {
  const Slice smallest = ExtractUserKey(table.smallest());
  const Slice largest = ExtractUserKey(table.largest());
  // The first one that does not end before the table.
  const auto range = std::lower_bound(ranges.begin(), ranges.end(), smallest,
                                      [&comparator](const KeyRange& each, const Slice& key) {
                                        return comparator.CompareUserKeys(each.largest, key) < 0;
                                      });
  return range != ranges.end() && comparator.CompareUserKeys(range->smallest, largest) <= 0;
}

std::vector<TableRef> TablesFrom(const Version& version, size_t first) {
  std::vector<TableRef> tables;
  for (size_t level = first; level < version.levels().size(); ++level) {
    const std::vector<TableRef> all = version.levels()[level].AllTables();
    tables.insert(tables.end(), all.begin(), all.end());
  }
  return tables;
}

size_t DeepestLevel(const Version& version, const Slice* begin, const Slice* end) {
  for (size_t level = version.levels().size() - 1; level > 0; --level) {
    if (!version.levels()[level].Overlapping(version.comparator(), begin, end).empty()) {
      return level;
    }
  }
  return 0;
}

namespace {

// Whether a table of the merge's output may come to have keys on both sides of `key` in one of the
// levels from `level` on.
bool MayDivide(const InternalKeyComparator& comparator, const Slice& key, size_t level,
               const MergePick& merge) {
  if (merge.target_level < level) return false;
  std::vector<TableRef> all = merge.inputs;
  all.insert(all.end(), merge.target_inputs.begin(), merge.target_inputs.end());
  const KeyRange hull = HullOf(comparator, all);
  return comparator.CompareUserKeys(hull.smallest, key) < 0 &&
         comparator.CompareUserKeys(key, hull.largest) <= 0;
}

}  // namespace

VersionEdit EditOf(const MergePick& pick, const Version& version,
                   const std::vector<TableRef>& outputs,
                   const std::vector<const MergePick*>& others) {
  VersionEdit edit(pick.target_level + 1);
  VersionEdit::LevelEdit& source = edit.levels[pick.level];
  VersionEdit::LevelEdit& target = edit.levels[pick.target_level];
  for (const TableRef& table : pick.inputs) source.removed.push_back(table->number());
  for (const TableRef& table : pick.target_inputs) target.removed.push_back(table->number());
  source.guards_max = pick.guards_max;
  target.guards_max = pick.target_guards_max;
  target.in_place = pick.in_place();
  target.added = pick.trivial_move ? pick.inputs : outputs;
  const size_t below = pick.target_level + 1;
  target.guards = ChooseGuards(version.comparator(), version.levels()[pick.target_level],
                               below < version.levels().size() ? &version.levels()[below] : nullptr,
                               target.added, pick.guard_bytes);
  std::erase_if(target.guards, [&](const std::string& guard) {
    return std::any_of(others.begin(), others.end(), [&](const MergePick* other) {
      return MayDivide(version.comparator(), guard, pick.target_level, *other);
    });
  });
  return edit;
}

std::vector<std::string> ChooseGuards(const InternalKeyComparator& comparator, const Level& level,
                                      const Level* below, const std::vector<TableRef>& outputs,
                                      uint64_t guard_bytes) {
  std::vector<std::string> guards;
  if (guard_bytes == 0) return guards;
  uint64_t bytes = 0;  // Since the last guard.
  for (size_t i = 0; i + 1 < outputs.size(); ++i) {
    const Slice last = ExtractUserKey(outputs[i]->largest());
    const Slice next = ExtractUserKey(outputs[i + 1]->smallest());
    bytes += outputs[i]->meta().image.bytes;
    if (comparator.CompareUserKeys(last, next) == 0) continue;
    if (&level.GuardFor(comparator, last) != &level.GuardFor(comparator, next)) {
      bytes = 0;
      continue;
    }
    if (bytes < guard_bytes) continue;
    bytes = 0;
    guards.push_back(next.ToString());
    if (below == nullptr) continue;
    // The last guard of the level below that is not behind `next`, if it is behind `last`.
    const Guard& there = below->GuardFor(comparator, next);
    if (&there != &below->sentinel() && comparator.CompareUserKeys(last, there.key) < 0) {
      guards.back() = there.key;
    }
  }
  return guards;
}

}  // namespace dlsm
