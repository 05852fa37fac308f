// Steps of a merge for which the memory node has too little room.
//
// What a merge has read is given back only when all of its output has been written. So a merge
// needs about as much free room as its inputs have, and in a full memory node a large merge finds
// none. Its steps need less, and each gives back what it has read:
//
//   level L     | t9 ------|------|---- |      1. Boundaries divide the merge's range into columns
//               |    t8 ---|--    |     |         that fit.
//   level L+1   | t1 ---|------- t2 --- |      2. A table that crosses boundaries is rewritten
//                       b      c                  where it lies, cut at them: one table a step.
//                                              3. When no table crosses a boundary any more, a
//                                                 column is merged by itself; the last one first,
//                                                 so that where tables lie newest first the
//                                                 columns' outputs lie side by side as one run.
//
// A merge that is left half way leaves a level that is newer than the next one in some columns
// only. Reads are right all the same: of each key, newer versions still lie above older ones. But
// Level's invariant is about whole tables, so a later merge must not put versions of a finished
// column and of an unfinished one into one table. SeparateColumns() sees to that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/merge/merge_policy.h"
#include "db/tree/version.h"
#include "table/internal_key.h"

namespace dlsm {

// One thread at a time. Each shard has one, beside its policy.
class MergePieces {
 public:
  // The next step towards `whole`, a merge that was picked from `version`, among those whose inputs
  // have at most `bytes_max`; nothing if there is none. `snapshots`: the live ones, ascending.
  std::optional<MergePick> Next(const Version& version, const MergePick& whole, uint64_t bytes_max,
                                const std::vector<SequenceNumber>& snapshots);

 private:
  // Tables of the merge of which each overlaps another one: no key of theirs is in any other table
  // of the merge.
  struct Group;

  static std::vector<Group> GroupsOf(const InternalKeyComparator& comparator,
                                     const MergePick& whole);
  static MergePick PickOf(const InternalKeyComparator& comparator, const MergePick& whole,
                          const Group& group);
  std::optional<MergePick> Cut(const Version& version, const MergePick& whole, const Group& group,
                               uint64_t bytes_max);
  // The boundaries within the group's range: those that there are, or new ones for that many
  // columns.
  std::vector<std::string> BoundariesIn(const InternalKeyComparator& comparator,
                                        const MergePick& whole, const Group& group,
                                        uint64_t columns);

  // Kept until their columns have been merged: tables that are cut at the same keys come apart.
  std::vector<std::string> boundaries_;
};

// Adds cut points to a merge into a level whose tables lie newest first, so that no table of its
// output overlaps one that stays there and is neither newer nor older than it as a whole. There
// are such only where a merge was left half way.
void SeparateColumns(const Version& version, MergePick* pick);

}  // namespace dlsm
