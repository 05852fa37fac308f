#include "db/merge/merge_pieces.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "db/tree/leftovers.h"
#include "db/tree/split_keys.h"
#include "db/tree/table_runs.h"

namespace dlsm {
namespace {

// More would be found too slowly; what is still too large then is divided once more.
constexpr uint64_t kColumnsMax = 256;
// Of all merges that are under way by steps, before those that are of no more use are dropped.
constexpr size_t kBoundariesMax = 4 * kColumnsMax;

Slice FirstKey(const TableRef& table) { return ExtractUserKey(table->smallest()); }
Slice LastKey(const TableRef& table) { return ExtractUserKey(table->largest()); }

// Whether a boundary has keys of the table on both sides.
bool Crosses(const InternalKeyComparator& comparator, const TableRef& table,
             const std::string& boundary) {
  return comparator.CompareUserKeys(FirstKey(table), boundary) < 0 &&
         comparator.CompareUserKeys(LastKey(table), boundary) >= 0;
}

std::vector<TableRef> AllInputs(const MergePick& pick) {
  std::vector<TableRef> tables = pick.inputs;
  tables.insert(tables.end(), pick.target_inputs.begin(), pick.target_inputs.end());
  return tables;
}

void SortByFirstKey(const InternalKeyComparator& comparator, std::vector<TableRef>* tables) {
  std::sort(tables->begin(), tables->end(), [&](const TableRef& a, const TableRef& b) {
    return comparator.Compare(a->smallest(), b->smallest()) < 0;
  });
}

void SortKeys(const InternalKeyComparator& comparator, std::vector<std::string>* keys) {
  const auto before = [&](const std::string& a, const std::string& b) {
    return comparator.CompareUserKeys(a, b) < 0;
  };
  std::sort(keys->begin(), keys->end(), before);
  const auto same = [&](const std::string& a, const std::string& b) { return !before(a, b); };
  keys->erase(std::unique(keys->begin(), keys->end(), same), keys->end());
}

bool IsTrivialMove(const InternalKeyComparator& comparator, const MergePick& pick) {
  if (pick.in_place() || pick.inputs.size() != 1 || !pick.target_inputs.empty()) return false;
  const TableRef& table = pick.inputs.front();
  return table->meta().deletions == 0 &&
         std::none_of(pick.cut_points.begin(), pick.cut_points.end(),
                      [&](const std::string& point) { return Crosses(comparator, table, point); });
}

// Tables that overlap nothing, but do not lie in the order of their keys, so that they count as
// several runs. Nothing has to be rewritten for that.
std::optional<MergePick> InOrder(const InternalKeyComparator& comparator, const MergePick& whole) {
  if (!whole.in_place() || CountRuns(comparator, whole.inputs) < 2) return std::nullopt;
  MergePick pick = whole;
  SortByFirstKey(comparator, &pick.inputs);
  pick.trivial_move = pick.is_step = true;
  return pick;
}

// They are to have half of the room, because they will not come out alike.
uint64_t ColumnsFor(uint64_t bytes, uint64_t bytes_max) {
  return std::min(bytes / std::max<uint64_t>(bytes_max / 2, 1) + 2, kColumnsMax);
}

// `table` is rewritten where it lies.
MergePick CutOf(const Version& version, size_t level, const TableRef& table,
                std::vector<std::string> boundaries) {
  MergePick pick;
  pick.level = pick.target_level = level;
  pick.inputs = {table};
  pick.cut_points = std::move(boundaries);
  pick.is_step = pick.cuts_only = true;
  pick.undivided = true;
  std::vector<TableRef> older = TablesFrom(version, level);
  std::erase(older, table);
  pick.older = RangesOf(version.comparator(), older);
  return pick;
}

}  // namespace

struct MergePieces::Group {
  std::vector<TableRef> inputs;  // In the order that they have in the merge.
  std::vector<TableRef> target_inputs;

  std::vector<TableRef> tables() const {
    std::vector<TableRef> all = inputs;
    all.insert(all.end(), target_inputs.begin(), target_inputs.end());
    return all;
  }
  uint64_t bytes() const { return BytesOf(inputs) + BytesOf(target_inputs); }
};

// Ascending.
std::vector<MergePieces::Group> MergePieces::GroupsOf(const InternalKeyComparator& comparator,
                                                      const MergePick& whole) {
  std::vector<TableRef> tables = AllInputs(whole);
  SortByFirstKey(comparator, &tables);
  std::vector<Group> groups;
  std::unordered_set<uint64_t> members;
  const auto end_group = [&] {
    Group& group = groups.emplace_back();
    const auto is_member = [&](const TableRef& table) { return members.contains(table->number()); };
    std::copy_if(whole.inputs.begin(), whole.inputs.end(), std::back_inserter(group.inputs),
                 is_member);
    std::copy_if(whole.target_inputs.begin(), whole.target_inputs.end(),
                 std::back_inserter(group.target_inputs), is_member);
    members.clear();
  };
  const TableRef* last = nullptr;  // The table of the group that reaches furthest.
  for (const TableRef& table : tables) {
    if (last != nullptr && comparator.CompareUserKeys(LastKey(*last), FirstKey(table)) < 0) {
      end_group();
      last = nullptr;
    }
    if (last == nullptr || comparator.CompareUserKeys(LastKey(*last), LastKey(table)) < 0) {
      last = &table;
    }
    members.insert(table->number());
  }
  if (last != nullptr) end_group();
  return groups;
}

MergePick MergePieces::PickOf(const InternalKeyComparator& comparator, const MergePick& whole,
                              const Group& group) {
  MergePick pick = whole;
  pick.inputs = group.inputs;
  pick.target_inputs = group.target_inputs;
  const KeyRange hull = HullOf(comparator, group.tables());
  std::erase_if(pick.cut_points, [&](const std::string& point) {
    return comparator.CompareUserKeys(point, hull.smallest) <= 0 ||
           comparator.CompareUserKeys(point, hull.largest) > 0;
  });
  pick.trivial_move = IsTrivialMove(comparator, pick);
  pick.is_step = true;
  return pick;
}

std::optional<MergePick> MergePieces::Next(const Version& version, const MergePick& whole,
                                           uint64_t bytes_max,
                                           const std::vector<SequenceNumber>& snapshots) {
  const InternalKeyComparator& comparator = version.comparator();
  // In place, a table that overlaps no other one is merged for what can be dropped from it.
  const auto is_due = [&](const Group& group) {
    if (group.inputs.empty()) return false;
    if (!whole.in_place() || group.inputs.size() > 1) return true;
    const Table& table = *group.inputs.front();
    return HoldsLeftovers(table, snapshots) && !TouchesAny(comparator, whole.older, table);
  };
  std::vector<Group> groups = GroupsOf(comparator, whole);
  std::erase_if(groups, [&](const Group& group) { return !is_due(group); });
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    MergePick pick = PickOf(comparator, whole, *group);
    if (pick.trivial_move || group->bytes() <= bytes_max) return pick;
  }
  return groups.empty() ? InOrder(comparator, whole)
                        : Cut(version, whole, groups.back(), bytes_max);
}

// One of the tables that cross a boundary: the smallest, which finds room soonest. Where nothing
// tells how to divide the group, as where the order of keys is the user's own, the largest table
// that fits is cut by size: its pieces begin at keys that can be boundaries.
std::optional<MergePick> MergePieces::Cut(const Version& version, const MergePick& whole,
                                          const Group& group, uint64_t bytes_max) {
  const InternalKeyComparator& comparator = version.comparator();
  const uint64_t columns = ColumnsFor(group.bytes(), bytes_max);
  const std::vector<std::string> boundaries = BoundariesIn(comparator, whole, group, columns);
  const bool by_size = boundaries.empty();
  std::optional<MergePick> chosen;
  for (const TableRef& table : group.tables()) {
    std::vector<std::string> crossed;
    std::copy_if(boundaries.begin(), boundaries.end(), std::back_inserter(crossed),
                 [&](const std::string& boundary) { return Crosses(comparator, table, boundary); });
    const uint64_t bytes = table->meta().image.bytes;
    const bool divides = by_size ? table->meta().entries > 1 : !crossed.empty();
    if (!divides || bytes > bytes_max) continue;
    if (chosen.has_value() && (chosen->input_bytes() <= bytes) != by_size) continue;
    const bool of_target =
        std::find(group.inputs.begin(), group.inputs.end(), table) == group.inputs.end();
    chosen =
        CutOf(version, of_target ? whole.target_level : whole.level, table, std::move(crossed));
    if (by_size) chosen->table_bytes_max = std::max<uint64_t>(bytes / columns, 1);
  }
  return chosen;
}

std::vector<std::string> MergePieces::BoundariesIn(const InternalKeyComparator& comparator,
                                                   const MergePick& whole, const Group& group,
                                                   uint64_t columns) {
  const std::vector<TableRef> tables = group.tables();
  const auto within = [&](std::vector<std::string> boundaries) {
    std::erase_if(boundaries, [&](const std::string& boundary) {
      return std::none_of(tables.begin(), tables.end(), [&](const TableRef& table) {
        return Crosses(comparator, table, boundary);
      });
    });
    return boundaries;
  };
  std::vector<std::string> boundaries = within(boundaries_);
  if (!boundaries.empty()) return boundaries;
  MergePick merge = whole;
  merge.inputs = group.inputs;
  merge.target_inputs = group.target_inputs;
  boundaries = within(PartBoundaries(comparator, merge, columns, columns));
  if (boundaries_.size() > kBoundariesMax) boundaries_.clear();
  boundaries_.insert(boundaries_.end(), boundaries.begin(), boundaries.end());
  return boundaries;
}

namespace {

// Where the output of a merge and a table that stays must not be in one piece: between an input and
// that table, which then are disjoint, if the input is not newer (or, of a table in front, not
// older) than it as a whole.
void AddSeparations(const InternalKeyComparator& comparator, const std::vector<TableRef>& inputs,
                    const TableRef& stays, bool in_front, std::vector<std::string>* starts) {
  for (const TableRef& input : inputs) {
    const bool uneven = in_front ? input->meta().sequence_max >= stays->meta().sequence_min
                                 : input->meta().sequence_min <= stays->meta().sequence_max;
    if (!uneven) continue;
    const bool input_is_last = comparator.CompareUserKeys(FirstKey(stays), FirstKey(input)) < 0;
    starts->push_back((input_is_last ? FirstKey(input) : FirstKey(stays)).ToString());
  }
}

}  // namespace

void SeparateColumns(const Version& version, MergePick* pick) {
  const std::vector<Level>& levels = version.levels();
  if (levels[pick->target_level].sentinel().order == Guard::Order::kByKey || pick->cuts_only)
    return;
  const InternalKeyComparator& comparator = version.comparator();
  const std::vector<TableRef> inputs = AllInputs(*pick);
  const KeyRange hull = HullOf(comparator, inputs);
  const Slice begin = hull.smallest;
  const Slice end = hull.largest;
  std::unordered_set<uint64_t> going;
  for (const TableRef& table : inputs) going.insert(table->number());
  std::vector<std::string> starts;
  for (size_t i = 0; i < levels.size(); ++i) {
    // In its target level the output lies where the first input was, or in front of all.
    bool in_front = i < pick->target_level || (i == pick->target_level && pick->in_place());
    for (const TableRef& table : levels[i].Overlapping(comparator, &begin, &end)) {
      if (!going.contains(table->number())) {
        AddSeparations(comparator, inputs, table, in_front, &starts);
      } else if (i == pick->target_level) {
        in_front = false;
      }
    }
  }
  if (starts.empty()) return;
  pick->cut_points.insert(pick->cut_points.end(), starts.begin(), starts.end());
  SortKeys(comparator, &pick->cut_points);
  const auto is_cut = [&](const TableRef& table) {
    return std::any_of(pick->cut_points.begin(), pick->cut_points.end(),
                       [&](const std::string& point) { return Crosses(comparator, table, point); });
  };
  pick->trivial_move = pick->trivial_move && std::none_of(inputs.begin(), inputs.end(), is_cut);
}

}  // namespace dlsm
