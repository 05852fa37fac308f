// What a merge of one guard takes along, and where its outputs are cut, so that their boundaries
// can be made guards. When there is one, and of which guard, says guards_policy.cc, which opens
// with the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "db/merge/merge_policy.h"

namespace dlsm {

class GuardMerges {
 public:
  // Of which guards of the deepest level a merge into that takes the tables along.
  enum class Along { kNone, kDue, kAll };

  explicit GuardMerges(const GuardsPolicyConfig& config) : config_(config) {}

  // The deepest level that has tables; at least 1.
  static size_t Bottom(const Version& version);
  // A level that has more gives of it to the next.
  double BytesMax(size_t level) const;
  // Whether what is newer than the oldest run is too much beside it. Where there is little of both
  // that is not worth a merge: if there is ever more, it moves down.
  bool Outweighed(uint64_t bytes, uint64_t oldest_bytes) const;

  // The guard's tables merged into the next level, with tables of its guards, as `along` says, if
  // that is the deepest. Of level 0 the oldest `level0_tables_max` (0: all), unless all of what
  // lies below is taken along. Nothing if it has to wait for another merge.
  std::optional<MergePick> PickDown(const Version& version, const TablesInMerge& busy, size_t level,
                                    const Guard& guard, Along along,
                                    size_t level0_tables_max) const;
  // The guard's tables, or the newest of them, merged into tables of the same guard; unless they
  // are disjoint, and nothing else is to be gained, when they may only move.
  std::optional<MergePick> PickInPlace(const Version& version, const TablesInMerge& busy,
                                       size_t level, const Guard& guard, bool take_all,
                                       bool may_move = true) const;

 private:
  // How many guards keep a piece of a merge into this level about one table in size.
  size_t GuardsMax(size_t level) const;
  // A guard in use has room for this much; one of the deepest level that has more is split.
  uint64_t GuardBytes() const { return config_.runs_max * config_.table_bytes_max / 2; }
  // Smaller ones are crumbs, which are merged instead of moved.
  uint64_t MovedBytesMin() const;
  // Where tables of the output should end, so that guards can be made of their boundaries.
  void SetCuts(const Version& version, const KeyRange& hull, MergePick* pick) const;
  // Eight keys in each table.
  uint32_t BitsFor(const std::vector<TableRef>& tables) const;

  const GuardsPolicyConfig config_;
};

}  // namespace dlsm
