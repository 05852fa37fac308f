// Leveling without partitions: each level is one sorted run, and a level that is full is merged
// with all of the next. (Luo & Carey section 2.2)
#include <algorithm>
#include <cmath>
#include <utility>

#include "db/merge/merge_policy.h"
#include "db/tree/components.h"

namespace dlsm {
namespace {

class FullLevelingPolicy final : public MergePolicy {
 public:
  explicit FullLevelingPolicy(const LeveledPolicyConfig& config) : config_(config) {}

  std::optional<MergePick> Pick(const Version& version, const TablesInMerge& busy) override {
    // The upper one first: merges below it wait for nothing but their own inputs.
    for (size_t level = 0; level + 1 < version.levels().size(); ++level) {
      if (!IsFull(version, level)) continue;
      std::optional<MergePick> pick = PickLevel(version, busy, level, level0_tables_max_);
      if (pick.has_value()) return pick;
    }
    return std::nullopt;
  }

  std::optional<MergePick> PickManual(const Version& version, const TablesInMerge& busy,
                                      size_t level, const ManualScope& scope, bool* done) override {
    const std::vector<TableRef> overlapping =
        version.levels()[level].Overlapping(version.comparator(), scope.begin, scope.end);
    const bool in_place = level >= ManualTarget(version, scope.begin, scope.end);
    *done = in_place ? !scope.HasLeftovers(overlapping, snapshots())
                     : !scope.HasAny(overlapping, /*further_down=*/true);
    if (*done) return std::nullopt;
    return in_place ? PickInPlace(version, busy, level)
                    : PickLevel(version, busy, level, /*level0_tables_max=*/0);
  }

  size_t ManualLevels(const Version& version, const Slice* begin, const Slice* end) const override {
    return ManualTarget(version, begin, end) + 1;
  }

  size_t ExpectedComponents(const Version& version) const override {
    return config_.level0_trigger + std::max<size_t>(1, LevelsInUse(version));
  }

  uint64_t PendingBytes(const Version& version) const override {
    uint64_t pending = 0;
    for (size_t level = 0; level + 1 < version.levels().size(); ++level) {
      if (!IsFull(version, level)) continue;
      pending += version.levels()[level].bytes() + version.levels()[level + 1].bytes();
    }
    return pending;
  }

  void LimitLevel0Merges(size_t tables) override { level0_tables_max_ = tables; }

 private:
  // One that has room for everything, as in partitioned leveling.
  size_t ManualTarget(const Version& version, const Slice* begin, const Slice* end) const {
    size_t level = std::max<size_t>(1, DeepestLevel(version, begin, end));
    const auto bytes = static_cast<double>(version.bytes());
    while (level + 1 < version.levels().size() && bytes >= BytesMax(level)) ++level;
    return level;
  }

  bool IsFull(const Version& version, size_t level) const {
    const Level& of = version.levels()[level];
    if (level == 0) return of.table_count() >= config_.level0_trigger;
    return static_cast<double>(of.bytes()) >= BytesMax(level);
  }

  // Not of level 0.
  double BytesMax(size_t level) const {
    return static_cast<double>(config_.base_bytes) *
           std::pow(config_.multiplier, static_cast<double>(level - 1));
  }

  // Of level 0 so many of the oldest tables; 0: all.
  static std::optional<MergePick> PickLevel(const Version& version, const TablesInMerge& busy,
                                            size_t level, size_t level0_tables_max) {
    MergePick pick;
    pick.level = level;
    pick.target_level = level + 1;
    pick.inputs = version.levels()[level].AllTables();
    if (level == 0) pick.inputs = OldestOf(std::move(pick.inputs), level0_tables_max);
    pick.target_inputs = version.levels()[level + 1].AllTables();
    if (pick.inputs.empty() || AnyBusy(pick.inputs, busy) || AnyBusy(pick.target_inputs, busy)) {
      return std::nullopt;
    }
    pick.older = RangesOf(version.comparator(), TablesFrom(version, level + 2));
    // A level below level 0 is one run already.
    pick.trivial_move = pick.target_inputs.empty() && level > 0;
    return pick;
  }

  static std::optional<MergePick> PickInPlace(const Version& version, const TablesInMerge& busy,
                                              size_t level) {
    MergePick pick;
    pick.level = pick.target_level = level;
    pick.inputs = version.levels()[level].AllTables();
    if (AnyBusy(pick.inputs, busy)) return std::nullopt;
    pick.older = RangesOf(version.comparator(), TablesFrom(version, level + 1));
    return pick;
  }

  const LeveledPolicyConfig config_;
  size_t level0_tables_max_ = 0;
};

}  // namespace

std::unique_ptr<MergePolicy> NewFullLevelingPolicy(const LeveledPolicyConfig& config) {
  return std::make_unique<FullLevelingPolicy>(config);
}

}  // namespace dlsm
