#include <algorithm>
#include <cmath>
#include <utility>

#include "db/merge/merge_policy.h"
#include "db/tree/components.h"
#include "db/tree/leftovers.h"
#include "db/tree/table_runs.h"

namespace dlsm {
namespace {

class LeveledPolicy final : public MergePolicy {
 public:
  explicit LeveledPolicy(const LeveledPolicyConfig& config) : config_(config) {}

  std::optional<MergePick> Pick(const Version& version, const TablesInMerge& busy) override {
    std::vector<std::pair<double, size_t>> scores;
    for (size_t level = 0; level + 1 < version.levels().size(); ++level) {
      const double score = Score(version, level);
      if (score >= 1) scores.emplace_back(score, level);
    }
    std::sort(scores.rbegin(), scores.rend());
    const bool level0_waits = Score(version, 0) >= 1 && Level0Waits(version, busy);
    for (const auto& [score, level] : scores) {
      // A merge out of level 1 would keep the one out of level 0 waiting even longer.
      if (level == 1 && level0_waits) continue;
      std::optional<MergePick> pick = level == 0 ? PickLevel0(version, busy, level0_tables_max_)
                                                 : PickNextTable(version, busy, level);
      if (pick.has_value()) return pick;
    }
    return std::nullopt;
  }

  std::optional<MergePick> PickManual(const Version& version, const TablesInMerge& busy,
                                      size_t level, const ManualScope& scope, bool* done) override {
    std::vector<TableRef> overlapping =
        version.levels()[level].Overlapping(version.comparator(), scope.begin, scope.end);
    // Those come first, then those above something older: for the sake of room, no others may be
    // worth it.
    const auto others =
        std::stable_partition(overlapping.begin(), overlapping.end(), [&](const TableRef& table) {
          return HoldsLeftovers(*table, snapshots()) || scope.HasLeftover(table, snapshots());
        });
    const bool in_place = level >= ManualTarget(version, scope.begin, scope.end);
    if (in_place) {
      overlapping.erase(others, overlapping.end());
    } else {
      const std::vector<KeyRange> below =
          RangesOf(version.comparator(), TablesFrom(version, level + 1));
      std::stable_partition(others, overlapping.end(), [&](const TableRef& table) {
        return TouchesAny(version.comparator(), below, *table);
      });
    }
    *done = !scope.HasAny(overlapping, /*further_down=*/!in_place);
    if (*done) return std::nullopt;
    if (level == 0) return DropDeletions(PickLevel0(version, busy, /*tables_max=*/0));
    for (const TableRef& table : overlapping) {
      if (!scope.Has(table, /*further_down=*/!in_place)) continue;
      std::optional<MergePick> pick = in_place ? PickInPlace(version, busy, level, table)
                                               : PickAround(version, busy, level, table);
      if (pick.has_value()) return DropDeletions(std::move(pick));
    }
    return std::nullopt;
  }

  size_t ManualLevels(const Version& version, const Slice* begin, const Slice* end) const override {
    return ManualTarget(version, begin, end) + 1;
  }

  size_t ExpectedComponents(const Version& version) const override {
    return config_.level0_trigger + std::max<size_t>(1, LevelsInUse(version));
  }

  uint64_t PendingBytes(const Version& version) const override {
    double pending = 0;
    for (size_t level = 0; level + 1 < version.levels().size(); ++level) {
      const double score = Score(version, level);
      if (score < 1) continue;
      const auto bytes = static_cast<double>(version.levels()[level].bytes());
      const auto below = static_cast<double>(version.levels()[level + 1].bytes());
      // Level 0 goes as a whole, of others what is too much and at least a table, each with its
      // share of the next.
      const double table = 1 / static_cast<double>(version.levels()[level].table_count());
      pending += (level == 0 ? 1 : std::max(1 - 1 / score, table)) * (bytes + below);
    }
    return static_cast<uint64_t>(std::ceil(pending));
  }

  void LimitLevel0Merges(size_t tables) override { level0_tables_max_ = tables; }

 private:
  // Where a manual compaction puts what it merges: a level that has room for everything. From a
  // lesser one, merges that are due would take some of it further down.
  size_t ManualTarget(const Version& version, const Slice* begin, const Slice* end) const {
    size_t level = std::max<size_t>(1, DeepestLevel(version, begin, end));
    const auto bytes = static_cast<double>(version.bytes());
    while (level + 1 < version.levels().size() && bytes >= BytesMax(level)) ++level;
    return level;
  }

  double Score(const Version& version, size_t level) const {
    if (level == 0) {
      return static_cast<double>(version.levels()[0].table_count()) /
             static_cast<double>(config_.level0_trigger);
    }
    return static_cast<double>(version.levels()[level].bytes()) / BytesMax(level);
  }

  // Not of level 0.
  double BytesMax(size_t level) const {
    return static_cast<double>(config_.base_bytes) *
           std::pow(config_.multiplier, static_cast<double>(level - 1));
  }

  // Who asks for a merge wants deletions to be gone: tables that hold any are not just moved.
  static std::optional<MergePick> DropDeletions(std::optional<MergePick> pick) {
    if (pick.has_value()) {
      pick->trivial_move &=
          std::none_of(pick->inputs.begin(), pick->inputs.end(),
                       [](const TableRef& table) { return table->meta().deletions > 0; });
    }
    return pick;
  }

  // Whether a merge out of level 0 could start but for merges out of level 1.
  static bool Level0Waits(const Version& version, const TablesInMerge& busy) {
    return !AnyBusy(version.levels()[0].AllTables(), busy) &&
           AnyBusy(version.levels()[1].AllTables(), busy);
  }

  // Its tables overlap, and a merge must take the oldest without a gap; 0: all.
  static std::optional<MergePick> PickLevel0(const Version& version, const TablesInMerge& busy,
                                             size_t tables_max) {
    MergePick pick;
    pick.level = 0;
    pick.target_level = 1;
    pick.inputs = OldestOf(version.levels()[0].AllTables(), tables_max);
    return Complete(version, busy, std::move(pick));
  }

  std::optional<MergePick> PickNextTable(const Version& version, const TablesInMerge& busy,
                                         size_t level) {
    const std::vector<TableRef> tables = version.levels()[level].AllTables();
    if (cursors_.size() < version.levels().size()) cursors_.resize(version.levels().size());
    std::string& cursor = cursors_[level];
    const InternalKeyComparator& comparator = version.comparator();
    const auto next = std::find_if(tables.begin(), tables.end(), [&](const TableRef& table) {
      return cursor.empty() || comparator.Compare(table->smallest(), cursor) > 0;
    });
    const auto start = config_.choose_best ? BestOf(version, busy, level, tables)
                                           : static_cast<size_t>(next - tables.begin());
    for (size_t i = 0; i < tables.size(); ++i) {
      const TableRef& table = tables[(start + i) % tables.size()];
      std::optional<MergePick> pick = PickAround(version, busy, level, table);
      if (!pick.has_value()) continue;
      cursor = pick->inputs.back()->smallest().ToString();
      return pick;
    }
    return std::nullopt;
  }

  // The index of the table whose merge rewrites the least for what it moves down.
  static size_t BestOf(const Version& version, const TablesInMerge& busy, size_t level,
                       const std::vector<TableRef>& tables) {
    size_t best = 0;
    double least = 0;
    bool found = false;
    for (size_t i = 0; i < tables.size(); ++i) {
      const Slice begin = ExtractUserKey(tables[i]->smallest());
      const Slice end = ExtractUserKey(tables[i]->largest());
      const std::vector<TableRef> below =
          version.levels()[level + 1].Overlapping(version.comparator(), &begin, &end);
      if (AnyBusy({tables[i]}, busy) || AnyBusy(below, busy)) continue;
      const double cost =
          static_cast<double>(BytesOf(below)) / static_cast<double>(tables[i]->meta().image.bytes);
      if (found && cost >= least) continue;
      found = true;
      least = cost;
      best = i;
    }
    return best;
  }

  // One table, and those beside it that hold versions of the same user keys: newer versions must
  // not sink below older ones.
  static std::optional<MergePick> PickAround(const Version& version, const TablesInMerge& busy,
                                             size_t level, const TableRef& table) {
    MergePick pick;
    pick.level = level;
    pick.target_level = level + 1;
    pick.inputs = Around(version, level, table);
    return Complete(version, busy, std::move(pick));
  }

  // The same, merged where they are.
  static std::optional<MergePick> PickInPlace(const Version& version, const TablesInMerge& busy,
                                              size_t level, const TableRef& table) {
    MergePick pick;
    pick.level = pick.target_level = level;
    pick.inputs = Around(version, level, table);
    if (AnyBusy(pick.inputs, busy)) return std::nullopt;
    pick.older = RangesOf(version.comparator(), TablesFrom(version, level + 1));
    return pick;
  }

  static std::vector<TableRef> Around(const Version& version, size_t level, const TableRef& table) {
    std::vector<TableRef> tables = {table};
    while (true) {
      const Slice begin = ExtractUserKey(tables.front()->smallest());
      const Slice end = ExtractUserKey(tables.back()->largest());
      std::vector<TableRef> widened =
          version.levels()[level].Overlapping(version.comparator(), &begin, &end);
      if (widened.size() == tables.size()) return tables;
      tables = std::move(widened);
    }
  }

  // Adds what the inputs overlap in the target level, and what is below.
  static std::optional<MergePick> Complete(const Version& version, const TablesInMerge& busy,
                                           MergePick pick) {
    if (pick.inputs.empty() || AnyBusy(pick.inputs, busy)) return std::nullopt;
    const InternalKeyComparator& comparator = version.comparator();
    KeyRange range = HullOf(comparator, pick.inputs);
    // Versions of one user key may lie in two neighbours of the target level: take both.
    while (true) {
      const Slice begin = range.smallest;
      const Slice end = range.largest;
      std::vector<TableRef> overlapping =
          version.levels()[pick.target_level].Overlapping(comparator, &begin, &end);
      if (overlapping.size() == pick.target_inputs.size()) break;
      pick.target_inputs = std::move(overlapping);
      const KeyRange targets = HullOf(comparator, pick.target_inputs);
      if (comparator.CompareUserKeys(targets.smallest, range.smallest) < 0) {
        range.smallest = targets.smallest;
      }
      if (comparator.CompareUserKeys(targets.largest, range.largest) > 0) {
        range.largest = targets.largest;
      }
      if (AnyBusy(pick.target_inputs, busy)) return std::nullopt;
      if (!SharesUserKeyWithNeighbour(version, pick, range)) break;
    }
    if (AnyBusy(pick.target_inputs, busy)) return std::nullopt;
    pick.older = RangesOf(comparator, TablesFrom(version, pick.target_level + 1));
    pick.trivial_move = pick.target_inputs.empty() && AreDisjoint(comparator, pick.inputs);
    return pick;
  }

  // Whether a table beside the target inputs holds versions of their first or last user key.
  static bool SharesUserKeyWithNeighbour(const Version& version, const MergePick& pick,
                                         const KeyRange& range) {
    const Slice begin = range.smallest;
    const Slice end = range.largest;
    const size_t touching =
        version.levels()[pick.target_level].Overlapping(version.comparator(), &begin, &end).size();
    return touching != pick.target_inputs.size();
  }

  static bool AreDisjoint(const InternalKeyComparator& comparator, std::vector<TableRef> tables) {
    std::sort(tables.begin(), tables.end(), [&comparator](const TableRef& a, const TableRef& b) {
      return comparator.Compare(a->smallest(), b->smallest()) < 0;
    });
    for (size_t i = 1; i < tables.size(); ++i) {
      if (comparator.CompareUserKeys(ExtractUserKey(tables[i - 1]->largest()),
                                     ExtractUserKey(tables[i]->smallest())) >= 0) {
        return false;
      }
    }
    return true;
  }

  const LeveledPolicyConfig config_;
  size_t level0_tables_max_ = 0;
  std::vector<std::string> cursors_;  // By level: the smallest key of the table merged last.
};

}  // namespace

std::unique_ptr<MergePolicy> NewLeveledPolicy(const LeveledPolicyConfig& config) {
  return std::make_unique<LeveledPolicy>(config);
}

}  // namespace dlsm
