// What a shard merges next: what its policy says is due, as far as the memory node has room.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "db/memtable/snapshot.h"
#include "db/merge/merge_pieces.h"
#include "db/merge/merge_policy.h"
#include "db/merge/room_watch.h"
#include "db/tree/version.h"

namespace dlsm {

// Not thread-safe, like the policy that it owns.
class MergeChooser {
 public:
  // What there is to choose from at one moment.
  struct Situation {
    const Version& version;
    const TablesInMerge& busy;
    RoomLeft room;
    const SnapshotList& snapshots;
  };

  explicit MergeChooser(std::unique_ptr<MergePolicy> policy) : policy_(std::move(policy)) {}

  MergePolicy& policy() { return *policy_; }
  const MergePolicy& policy() const { return *policy_; }

  // What is due; but while there is no room for that, what makes room. What does not fit waits for
  // the merges that are under way, because they may make room; if there are none, a step of it is
  // taken. While others have no room and nothing is due: what makes some for them.
  // `for_reads`: a merge that only reads have asked for will do.
  std::optional<MergePick> Next(const Situation& situation, bool for_reads);

  // As MergePolicy::PickManual(); where the merge does not fit, a step of it, with *whole unset.
  std::optional<MergePick> NextManual(const Situation& situation, size_t level,
                                      const ManualScope& scope, bool* done, bool* whole);

 private:
  // A step of `whole`, which does not fit; nothing if there is none, or while other merges are
  // under way: steps are taken one by one.
  std::optional<MergePick> StepOf(const Situation& situation, const MergePick& whole);

  const std::unique_ptr<MergePolicy> policy_;
  MergePieces pieces_;
};

}  // namespace dlsm
