// Tiering: a level collects sorted runs until it has runs_max; these become one run of the next
// level. The deepest level that can be has its runs merged in place. (Luo & Carey section 2.2) So
// has the deepest one in use if somebody asks for it, or room is wanted: a single run, too, for
// what released snapshots have left in it (leftovers.h).
#include <algorithm>
#include <utility>

#include "db/merge/merge_policy.h"
#include "db/tree/components.h"
#include "db/tree/table_runs.h"

namespace dlsm {
namespace {

class TieredPolicy final : public MergePolicy {
 public:
  explicit TieredPolicy(const TieredPolicyConfig& config) : config_(config) {}

  std::optional<MergePick> Pick(const Version& version, const TablesInMerge& busy) override {
    for (size_t level = 0; level < version.levels().size(); ++level) {
      if (!IsFull(version, level)) continue;
      std::optional<MergePick> pick = PickLevel(version, busy, level);
      if (pick.has_value()) return pick;
    }
    return std::nullopt;
  }

  std::optional<MergePick> PickManual(const Version& version, const TablesInMerge& busy,
                                      size_t level, const ManualScope& scope, bool* done) override {
    const size_t deepest = std::max<size_t>(1, DeepestLevel(version, nullptr, nullptr));
    const Level& of = version.levels()[level];
    const std::vector<TableRef> overlapping =
        of.Overlapping(version.comparator(), scope.begin, scope.end);
    *done = level > deepest || !scope.HasAny(overlapping, /*further_down=*/level != deepest) ||
            (level == deepest && CountRuns(of.sentinel()) < 2 &&
             !scope.HasLeftovers(overlapping, snapshots()));
    if (*done) return std::nullopt;
    return level == deepest ? PickInPlace(version, busy, level) : PickLevel(version, busy, level);
  }

  size_t ManualLevels(const Version& version, const Slice*, const Slice*) const override {
    return std::max<size_t>(1, DeepestLevel(version, nullptr, nullptr)) + 1;
  }

  size_t ExpectedComponents(const Version& version) const override {
    return config_.level0_trigger + config_.runs_max * std::max<size_t>(1, LevelsInUse(version));
  }

  uint64_t PendingBytes(const Version& version) const override {
    uint64_t pending = 0;
    for (size_t level = 0; level < version.levels().size(); ++level) {
      if (IsFull(version, level)) pending += version.levels()[level].bytes();
    }
    return pending;
  }

 private:
  bool IsFull(const Version& version, size_t level) const {
    const Guard& all = version.levels()[level].sentinel();
    return level == 0 ? all.tables.size() >= config_.level0_trigger
                      : CountRuns(all) >= config_.runs_max;
  }

  std::optional<MergePick> PickLevel(const Version& version, const TablesInMerge& busy,
                                     size_t level) const {
    if (level + 1 == version.levels().size()) return PickInPlace(version, busy, level);
    return PickInto(version, busy, level, level + 1);
  }

  std::optional<MergePick> PickInPlace(const Version& version, const TablesInMerge& busy,
                                       size_t level) const {
    return PickInto(version, busy, level, level);
  }

  // All runs of the level: as old as any it has, so that history stays in order.
  std::optional<MergePick> PickInto(const Version& version, const TablesInMerge& busy, size_t level,
                                    size_t target) const {
    MergePick pick;
    pick.level = level;
    pick.target_level = target;
    pick.inputs = version.levels()[level].sentinel().tables;
    if (pick.inputs.empty() || AnyBusy(pick.inputs, busy)) return std::nullopt;
    // In place, the inputs are all that the level had.
    const size_t first_older = pick.in_place() ? level + 1 : target;
    pick.older = RangesOf(version.comparator(), TablesFrom(version, first_older));
    pick.table_bytes_max = config_.run_bytes_max;
    pick.trivial_move = !pick.in_place() && CountRuns(version.comparator(), pick.inputs) == 1 &&
                        std::none_of(pick.inputs.begin(), pick.inputs.end(),
                                     [](const auto& table) { return table->meta().deletions > 0; });
    return pick;
  }

  const TieredPolicyConfig config_;
};

}  // namespace

std::unique_ptr<MergePolicy> NewTieredPolicy(const TieredPolicyConfig& config) {
  return std::make_unique<TieredPolicy>(config);
}

}  // namespace dlsm
