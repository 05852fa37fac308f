// What to merge next. A policy looks at a version and at which tables are being merged already; it
// keeps no locks and starts nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "db/version.h"
#include "table/merge_tables.h"

namespace dlsm {

// A merge of tables of one level with those of the next that they overlap.
struct MergePick {
  size_t level = 0;
  size_t target_level = 0;
  std::vector<TableRef> inputs;  // Of `level`, newest first or ascending, as they lie.
  std::vector<TableRef> target_inputs;
  // What lies below the target level: may hold older versions.
  std::vector<KeyRange> older;

  // Nothing to merge: the tables only change their level.
  bool trivial_move = false;
  uint64_t input_bytes() const;
};

// Numbers of the tables that take part in a merge.
using TablesInMerge = std::set<uint64_t>;

// Called with the scheduler's lock held: one thread at a time.
class MergePolicy {
 public:
  virtual ~MergePolicy() = default;
  // Nothing if no merge is due, or none of those due can start now.
  virtual std::optional<MergePick> Pick(const Version& version, const TablesInMerge& busy) = 0;
  // A merge of whatever overlaps [*begin, *end] in `level`, a step at a time: `done` is set when
  // nothing in the level overlaps any more. Nothing if the step must wait for a merge under way.
  virtual std::optional<MergePick> PickManual(const Version& version, const TablesInMerge& busy,
                                              size_t level, const Slice* begin, const Slice* end,
                                              bool* done) = 0;
};

struct LeveledPolicyConfig {
  size_t level0_trigger = 4;
  uint64_t base_bytes = uint64_t{256} << 20;
  double multiplier = 10;
};

// Partitioned leveling: LevelDB's policy. Level 0 is merged as a whole into level 1; of a deeper
// level that exceeds its size, one table after another, round robin, into the next.
std::unique_ptr<MergePolicy> NewLeveledPolicy(const LeveledPolicyConfig& config);

}  // namespace dlsm
