// Size-tiered merging with the parameters of HBase: one level of sorted runs, of which some that
// follow each other are merged in place.
//
//   From the oldest run to the newest: the first one that is no larger than `ratio` times the newer
//   ones that could go with it (at most runs_max in all) begins the merge, if there are runs_min.
//
//   All runs are merged if somebody asks for it, or room is wanted: a single one, too, for what
//   released snapshots have left in it (leftovers.h), if nothing older lies in deeper levels.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "db/merge/merge_policy.h"
#include "db/tree/table_runs.h"

namespace dlsm {
namespace {

class SizeTieredPolicy final : public MergePolicy {
 public:
  explicit SizeTieredPolicy(const SizeTieredPolicyConfig& config) : config_(config) {}

  std::optional<MergePick> Pick(const Version& version, const TablesInMerge& busy) override {
    const std::vector<std::vector<TableRef>> runs = FreeRuns(version, busy);
    size_t begin = 0;
    size_t end = 0;
    if (!Choose(runs, &begin, &end)) return std::nullopt;
    return MergeOf(version, runs, begin, end);
  }

  std::optional<MergePick> PickManual(const Version& version, const TablesInMerge& busy,
                                      size_t level, const ManualScope& scope, bool* done) override {
    const Level& of = version.levels()[level];
    const std::vector<std::vector<TableRef>> runs = RunsOf(of.sentinel());
    const std::vector<TableRef> overlapping =
        of.Overlapping(version.comparator(), scope.begin, scope.end);
    // Above what another style has left in deeper levels, deletions stay however often they are
    // merged.
    const bool is_oldest = TablesFrom(version, 1).empty();
    *done = level > 0 || !scope.HasAny(overlapping) ||
            (runs.size() < 2 && !(is_oldest && scope.HasLeftovers(overlapping, snapshots())));
    if (*done || AnyBusy(of.sentinel().tables, busy)) return std::nullopt;
    return MergeOf(version, runs, 0, runs.size());
  }

  size_t ManualLevels(const Version&, const Slice*, const Slice*) const override { return 1; }

  // A run that starts no merge is larger than `ratio` times what is newer; so with each of them the
  // sum grows by 1 + ratio, from that of the runs too few to be merged to that of all.
  size_t ExpectedComponents(const Version& version) const override {
    uint64_t smallest = UINT64_MAX;
    const std::vector<TableRef>& tables = version.levels()[0].sentinel().tables;
    for (const TableRef& table : tables) smallest = std::min(smallest, BytesOf({table}));
    if (tables.empty() || smallest == 0) return config_.runs_max;
    const double growth = static_cast<double>(BytesOf(tables)) / static_cast<double>(smallest);
    return config_.runs_max +
           static_cast<size_t>(std::ceil(std::log(growth) / std::log(1 + config_.ratio)));
  }

  uint64_t PendingBytes(const Version& version) const override {
    const std::vector<std::vector<TableRef>> runs = FreeRuns(version, {});
    size_t begin = 0;
    size_t end = 0;
    uint64_t pending = 0;
    if (Choose(runs, &begin, &end)) {
      for (size_t i = begin; i < end; ++i) pending += BytesOf(runs[i]);
    }
    return pending;
  }

 private:
  // The runs newer than all that take part in a merge.
  static std::vector<std::vector<TableRef>> FreeRuns(const Version& version,
                                                     const TablesInMerge& busy) {
    std::vector<std::vector<TableRef>> runs = RunsOf(version.levels()[0].sentinel());
    const auto taken = std::find_if(runs.begin(), runs.end(),
                                    [&busy](const auto& run) { return AnyBusy(run, busy); });
    runs.erase(taken, runs.end());
    return runs;
  }

  // Runs [*begin, *end), newest first.
  bool Choose(const std::vector<std::vector<TableRef>>& runs, size_t* begin, size_t* end) const {
    for (*end = runs.size(); *end >= config_.runs_min; --*end) {
      *begin = *end - std::min(*end, config_.runs_max);
      uint64_t newer = 0;
      for (size_t i = *begin; i + 1 < *end; ++i) newer += BytesOf(runs[i]);
      if (static_cast<double>(BytesOf(runs[*end - 1])) <=
          config_.ratio * static_cast<double>(newer)) {
        return true;
      }
    }
    return false;
  }

  std::optional<MergePick> MergeOf(const Version& version,
                                   const std::vector<std::vector<TableRef>>& runs, size_t begin,
                                   size_t end) const {
    MergePick pick;
    for (size_t i = begin; i < end; ++i) {
      pick.inputs.insert(pick.inputs.end(), runs[i].begin(), runs[i].end());
    }
    const std::vector<TableRef>& tables = version.levels()[0].sentinel().tables;
    const auto last = std::find(tables.begin(), tables.end(), pick.inputs.back());
    std::vector<TableRef> older(last + 1, tables.end());
    for (TableRef& table : TablesFrom(version, 1)) older.push_back(std::move(table));
    pick.older = RangesOf(version.comparator(), older);
    pick.table_bytes_max = config_.run_bytes_max;
    return pick;
  }

  const SizeTieredPolicyConfig config_;
};

}  // namespace

std::unique_ptr<MergePolicy> NewSizeTieredPolicy(const SizeTieredPolicyConfig& config) {
  return std::make_unique<SizeTieredPolicy>(config);
}

}  // namespace dlsm
