// What to merge next. A policy looks at a version and at which tables are being merged already; it
// starts nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/merge/room_watch.h"
#include "db/tree/version.h"
#include "table/internal_key.h"
#include "table/merge_tables.h"

namespace dlsm {

// Whom a merge is for.
enum class MergeCause : uint8_t {
  kShape,  // Writers, in the end: the tree would get out of shape.
  kReads,  // Reads that have paid for it.
  kIdle,   // Reads that may come, while the memory node has nothing else to do.
};

// A merge of tables of one level, with or without tables of the target level, into that.
struct MergePick {
  size_t level = 0;
  size_t target_level = 0;       // `level` itself: the merge is done in place.
  std::vector<TableRef> inputs;  // Of `level`, newest first or ascending, as they lie.
  // Where tables of the target level lie newest first: of each guard there all or none. Empty for a
  // merge in place.
  std::vector<TableRef> target_inputs;
  // What is older than the inputs: what lies below, and tables of the target level that are neither
  // inputs nor newer than they are.
  std::vector<KeyRange> older;

  // Nothing to merge: the tables only change their level.
  bool trivial_move = false;

  // Guards of the target level: starts of guards within the range of the merge, where the output is
  // to be cut.
  std::vector<std::string> cut_points;
  // As in MergeOptions.
  std::vector<std::string> cut_candidates;
  uint32_t cut_hash_bits = 0;
  // Boundaries between tables of the output that lie in one guard of the target level become guards
  // if they are at least this many bytes apart; 0: none do.
  uint64_t guard_bytes = 0;
  uint64_t table_bytes_max = 0;  // Of the output; 0: as the database is configured.
  // As in VersionEdit::LevelEdit, of both levels.
  size_t guards_max = SIZE_MAX;
  size_t target_guards_max = SIZE_MAX;
  MergeCause cause = MergeCause::kShape;
  // Not worth dividing into parts that run side by side.
  bool undivided = false;
  // A step of a larger merge, for which there is no room (merge_pieces.h).
  bool is_step = false;
  // Of steps, one that divides a table where it lies: what the table is to be merged with, its
  // pieces still are.
  bool cuts_only = false;

  bool in_place() const { return level == target_level; }
  uint64_t input_bytes() const;
  // Whether the merge leaves fewer bytes than it takes: it has overlapping inputs, or deletions.
  bool MakesRoom(const InternalKeyComparator& comparator) const;
};

// The user keys at which a merge is cut into parts: where the target's tables or guards start,
// about evenly; if it must be cut into `parts_min` and these are too few, anywhere (split_keys.h).
std::vector<std::string> PartBoundaries(const InternalKeyComparator& comparator,
                                        const MergePick& pick, size_t parts_max, size_t parts_min);

// Numbers of the tables that take part in a merge.
using TablesInMerge = std::set<uint64_t>;

// What a compaction that somebody asks for is about: whatever overlaps [*begin, *end], null:
// without a bound, but not what flushes and other merges make meanwhile. Where somebody writes that
// would never come to an end.
struct ManualScope {
  const Slice* begin = nullptr;
  const Slice* end = nullptr;
  uint64_t made_before = UINT64_MAX;  // By tables' numbers.
  // What others' merges have made of its tables where they lie, and of what came to them there.
  std::set<uint64_t> also{};
  // Whether all of that is merged once, though there be nothing to merge it with: there is a
  // compaction filter to be asked.
  bool rewrites = false;
  // And its own merges. That is done with, unless it turns out that it must go further down.
  std::set<uint64_t> merged{};

  bool Has(const TableRef& table, bool further_down = false) const {
    return table->number() < made_before || also.contains(table->number()) ||
           (further_down && merged.contains(table->number()));
  }
  bool HasAny(const std::vector<TableRef>& tables, bool further_down = false) const {
    return std::any_of(tables.begin(), tables.end(), [this, further_down](const TableRef& table) {
      return Has(table, further_down);
    });
  }
  // Whether it has one of them that holds leftovers (leftovers.h), or is to be merged anyway.
  bool HasLeftover(const TableRef& table, const std::vector<SequenceNumber>& live) const;
  bool HasLeftovers(const std::vector<TableRef>& tables,
                    const std::vector<SequenceNumber>& live) const;
};

// Not thread-safe: each shard has one, which its Background calls under its own mutex. So nothing
// here may wait.
class MergePolicy {
 public:
  virtual ~MergePolicy() = default;
  // Nothing if no merge is due, or none of those due can start now.
  virtual std::optional<MergePick> Pick(const Version& version, const TablesInMerge& busy) = 0;
  // While nobody writes and none of those is due: one that nobody has asked for, for the sake of
  // reads that may come. Sooner or later there is none.
  virtual std::optional<MergePick> PickWhileIdle(const Version& /*version*/,
                                                 const TablesInMerge& /*busy*/) {
    return std::nullopt;
  }
  // The live snapshots, ascending. To be told before PickManual() and PickForRoom().
  void SetSnapshots(std::vector<SequenceNumber> snapshots) { snapshots_ = std::move(snapshots); }
  // A merge of what the scope has in `level`, a step at a time: `done` is set when it has nothing
  // there any more. Nothing if the step must wait for a merge under way. In the deepest level,
  // what holds leftovers (leftovers.h) is merged though there is nothing to merge it with.
  virtual std::optional<MergePick> PickManual(const Version& version, const TablesInMerge& busy,
                                              size_t level, const ManualScope& scope,
                                              bool* done) = 0;
  // A manual compaction of [*begin, *end] goes through the levels before this one, in order, the
  // last of which is where everything comes to lie.
  virtual size_t ManualLevels(const Version& version, const Slice* begin,
                              const Slice* end) const = 0;
  // While there is but `room` at the memory node: a merge that makes room, though none is due, if
  // it had better start now (RoomLeft::IsPressing), or somebody waits for what it makes
  // (IsWorthLeftovers). One that fits if there is any, else the smallest.
  virtual std::optional<MergePick> PickForRoom(const Version& version, const TablesInMerge& busy,
                                               const RoomLeft& room);
  // A merge of tables in which range tombstones hide something, and no snapshot needs that: so that
  // the memory comes back, and the tombstones need not be kept. The version has tombstones. Told as
  // for PickManual().
  std::optional<MergePick> PickForTombstones(const Version& version, const TablesInMerge& busy);
  // The most components (CountComponents) that a tree of this size has where merges keep up. With
  // more, a merge is due.
  virtual size_t ExpectedComponents(const Version& version) const = 0;
  // About how many bytes the merges that are due would read; 0 if none is.
  virtual uint64_t PendingBytes(const Version& version) const = 0;
  // Whether the database is not being written to: then merges for the sake of readers are worth
  // while sooner, for they take nothing from those that writers wait for.
  virtual void SetQuiet(bool /*quiet*/) {}
  // Merges out of level 0 that are due take at most so many of its tables, the oldest; 0: all, as
  // those take that somebody asks for. To measure what can be sustained: a merge that takes more is
  // cheaper for each byte, so that a store that has fallen behind looks faster than it is (Luo &
  // Carey section 6.2). Styles whose merges take a number of runs that is fixed have no need of it.
  virtual void LimitLevel0Merges(size_t /*tables*/) {}

 protected:
  const std::vector<SequenceNumber>& snapshots() const { return snapshots_; }
  // Whether the merge makes room, or moves what others will make room of. Less than so much of a
  // single run is left until writers have to wait, of this tree or of others: then it is worth what
  // leftovers it has.
  static constexpr uint64_t kWorthPart = 8;
  static bool MakesRoom(const Version& version, const MergePick& pick);
  bool IsWorthLeftovers(const MergePick& pick, const RoomLeft& room) const;
  static void KeepSmaller(std::optional<MergePick> pick, std::optional<MergePick>* smallest);

 private:
  std::optional<MergePick> PickAllHidden(const Version& version, const TablesInMerge& busy,
                                         size_t level) const;
  std::optional<MergePick> PickPartlyHidden(const Version& version, const TablesInMerge& busy,
                                            size_t level);

  std::vector<SequenceNumber> snapshots_;
};

// The keys of `outputs` (ascending, of a merge into `level`) that are to be guards there, as
// MergePick::guard_bytes says. `below`: the next deeper level, or null: its guards are preferred.
std::vector<std::string> ChooseGuards(const InternalKeyComparator& comparator, const Level& level,
                                      const Level* below, const std::vector<TableRef>& outputs,
                                      uint64_t guard_bytes);

// What a merge that was picked changes, given its outputs (ascending; none for a trivial move).
// `version` is the one of now, at which guards are chosen: none where one of the `others`, the
// merges that are under way, may be about to put a table.
VersionEdit EditOf(const MergePick& pick, const Version& version,
                   const std::vector<TableRef>& outputs,
                   const std::vector<const MergePick*>& others);

// What policies share.
bool AnyBusy(const std::vector<TableRef>& tables, const TablesInMerge& busy);
// Of tables that lie newest first; `max` 0: all. A few more than `max` where several tables are one
// memtable's: their sequence numbers are mixed, so what the merge of one of them with older tables
// makes could not lie behind the others.
std::vector<TableRef> OldestOf(std::vector<TableRef> tables, size_t max);
// The ranges of `tables`, sorted and disjoint, as MergeOptions::older wants them.
std::vector<KeyRange> RangesOf(const InternalKeyComparator& comparator,
                               const std::vector<TableRef>& tables);
// Whether one of such ranges has keys in common with that of the table.
bool TouchesAny(const InternalKeyComparator& comparator, const std::vector<KeyRange>& ranges,
                const Table& table);
// Of user keys; there is a table.
KeyRange HullOf(const InternalKeyComparator& comparator, const std::vector<TableRef>& tables);
// Of all levels from `first` on.
std::vector<TableRef> TablesFrom(const Version& version, size_t first);
// The deepest level with tables in [*begin, *end]; 0 if there is none.
size_t DeepestLevel(const Version& version, const Slice* begin, const Slice* end);

struct LeveledPolicyConfig {
  size_t level0_trigger = 4;
  uint64_t base_bytes = uint64_t{256} << 20;
  double multiplier = 10;
  // Of a deeper level that is full, the table with the least overlap beside its size goes first,
  // instead of one after another.
  bool choose_best = false;
};

// Partitioned leveling: LevelDB's policy. Level 0 is merged as a whole into level 1; of a deeper
// level that exceeds its size, one table after another, round robin, into the next.
std::unique_ptr<MergePolicy> NewLeveledPolicy(const LeveledPolicyConfig& config);

// A level is merged as a whole into the next.
std::unique_ptr<MergePolicy> NewFullLevelingPolicy(const LeveledPolicyConfig& config);

struct TieredPolicyConfig {
  size_t level0_trigger = 4;
  size_t runs_max = 10;                        // Of a level; that many are merged.
  uint64_t run_bytes_max = uint64_t{2} << 30;  // Of one table; a run that is larger has several.
};
std::unique_ptr<MergePolicy> NewTieredPolicy(const TieredPolicyConfig& config);

// The names are HBase's: hbase.hstore.compaction.min, .max and .ratio.
struct SizeTieredPolicyConfig {
  size_t runs_min = 3;
  size_t runs_max = 10;
  double ratio = 1.2;
  uint64_t run_bytes_max = uint64_t{2} << 30;
};
std::unique_ptr<MergePolicy> NewSizeTieredPolicy(const SizeTieredPolicyConfig& config);

struct GuardsPolicyConfig {
  size_t level0_trigger = 4;
  // What one merge out of level 0 brings, about: level 1 has guards for this, and each deeper level
  // runs_max times as many.
  uint64_t base_bytes = uint64_t{256} << 20;
  size_t runs_max = 8;  // In a guard; that many are merged.
  // Of the deepest level: the runs of a guard that are newer than its oldest are merged into that
  // when they exceed so many percent of it.
  uint64_t newer_percent_max = 100;
  // The same of any level, while nobody writes; 0: nothing is merged for that.
  uint64_t idle_newer_percent_max = 0;
  uint64_t table_bytes_max = uint64_t{64} << 20;
  // Trailing zero bits of the hash of a key that may start a guard; 0: what makes for eight such
  // keys in a table.
  uint32_t hash_bits = 0;
};

// FLSM: fragmented log-structured merge trees (PebblesDB).
std::unique_ptr<MergePolicy> NewGuardsPolicy(const GuardsPolicyConfig& config);

}  // namespace dlsm
