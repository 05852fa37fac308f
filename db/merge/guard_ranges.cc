#include "db/merge/guard_ranges.h"

#include <algorithm>

#include "db/tree/table_runs.h"

namespace dlsm {

bool HoldsSome(const InternalKeyComparator& comparator, const Guard& guard, const Slice* begin,
               const Slice* end) {
  return std::any_of(guard.tables.begin(), guard.tables.end(), [&](const TableRef& table) {
    return Overlaps(comparator, *table, begin, end);
  });
}

bool Overlap(const InternalKeyComparator& comparator, const std::vector<TableRef>& tables,
             const Guard& guard) {
  return std::any_of(tables.begin(), tables.end(), [&](const TableRef& table) {
    const Slice begin = ExtractUserKey(table->smallest());
    const Slice end = ExtractUserKey(table->largest());
    return HoldsSome(comparator, guard, &begin, &end);
  });
}

std::vector<std::string> GuardKeys(const InternalKeyComparator& comparator, const Level& level,
                                   const KeyRange& hull) {
  std::vector<std::string> keys;
  for (const Guard& guard : level.guards()) {
    if (comparator.CompareUserKeys(hull.smallest, guard.key) < 0 &&
        comparator.CompareUserKeys(guard.key, hull.largest) <= 0) {
      keys.push_back(guard.key);
    }
  }
  return keys;
}

bool IsWithin(const InternalKeyComparator& comparator, const Level& level, const Guard& guard,
              const KeyRange& hull) {
  const Guard& first = level.GuardFor(comparator, hull.smallest);
  if (&guard == &first) return true;
  return &guard != &level.sentinel() && comparator.CompareUserKeys(hull.smallest, guard.key) < 0 &&
         comparator.CompareUserKeys(guard.key, hull.largest) <= 0;
}

void SetOlder(const Version& version, const KeyRange& hull, size_t first, MergePick* pick) {
  TablesInMerge inputs;
  for (const TableRef& table : pick->inputs) inputs.insert(table->number());
  for (const TableRef& table : pick->target_inputs) inputs.insert(table->number());
  const Slice begin = hull.smallest;
  const Slice end = hull.largest;
  std::vector<TableRef> older;
  for (size_t level = first; level < version.levels().size(); ++level) {
    for (const TableRef& table :
         version.levels()[level].Overlapping(version.comparator(), &begin, &end)) {
      if (inputs.count(table->number()) == 0) older.push_back(table);
    }
  }
  pick->older = RangesOf(version.comparator(), older);
}

void TryTrivialMove(const InternalKeyComparator& comparator, uint64_t bytes_min, MergePick* pick) {
  if (!pick->target_inputs.empty()) return;
  std::vector<TableRef> tables = pick->inputs;
  std::sort(tables.begin(), tables.end(), [&](const TableRef& a, const TableRef& b) {
    return comparator.Compare(a->smallest(), b->smallest()) < 0;
  });
  if (tables.size() > 1 && BytesOf(tables) / tables.size() < bytes_min) return;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i]->meta().deletions > 0) return;
    const Slice smallest = ExtractUserKey(tables[i]->smallest());
    const Slice largest = ExtractUserKey(tables[i]->largest());
    if (i > 0 &&
        comparator.CompareUserKeys(ExtractUserKey(tables[i - 1]->largest()), smallest) >= 0) {
      return;
    }
    for (const std::string& cut : pick->cut_points) {
      if (comparator.CompareUserKeys(smallest, cut) < 0 &&
          comparator.CompareUserKeys(cut, largest) <= 0) {
        return;
      }
    }
  }
  pick->inputs = std::move(tables);
  pick->trivial_move = true;
}

}  // namespace dlsm
