// FLSM, the fragmented log-structured merge tree (PebblesDB section 3): a level is divided by
// guards, tables overlap only within a guard, and a merge appends to the next level instead of
// rewriting it.
//
//   level L     | sentinel            | g3: t9 t6           |    a guard with runs_max runs is full
//                        merge t9 t6, cut at g4 and g5  v
//   level L+1   | sentinel: t1 | g2:  | g3: t2 | g4: t3 | g5: |    the pieces go in front of t2, t3
//
//   1. Level 0 is one guard: all of it is merged into level 1.
//   2. A full guard is merged as a whole; the output is cut at the guards of the next level.
//   3. In the deepest level that has tables, a guard is merged in place: all of it when it is full
//      or its newer runs outweigh the oldest; only the newer runs where they are small beside that.
//      A merge from above that would make such a merge due takes the guard along.
//   4. A guard that is read is merged in place when its reads have cost as much as the merge will,
//      or, while nobody writes, a part of that; one that has but one run left, into the deepest
//      level, with what lies there, by the same reckoning. So what is only read comes to be one
//      level, one run, range by range.
//   5. While nobody writes, what writers would not want merged yet is: level 0 goes down with a
//      quarter of the tables, and a guard is merged in place when its newer runs are a lower share
//      of the oldest (idle_newer_percent_max). So reads that come find few runs. The share bounds
//      what a database that is written to now and then writes again.
//   6. While the memory node has little room, guards of the deepest level are merged in place, the
//      one with most to merge first.
//   7. One with a single run is merged in place for what released snapshots have left in it
//      (leftovers.h), if somebody asks for it, or for room: where it is much, or writers wait, be
//      they those of another database at the memory node.
//   8. A level that exceeds its size (runs_max ^ level * base_bytes) gives its largest guard to the
//      next, which is how a deeper level comes into use.
//
// Guards are starts of tables. A merge ends tables at keys whose hash ends in zeros, so at the same
// keys each time; where the level below has guards already, it takes those. What begins a table is
// made a guard where it divides no table of this level or a deeper one: so nothing is rewritten to
// make a guard, a guard of a level is one of every deeper level, and there are more of them the
// deeper the level. Only as many as keep a merge's piece about one table in size are made.
//
// A guard has one merge at a time, of tables as old as any that it has, so what goes down is older
// than what stays. Tables that come from above meanwhile lie in front of both.
#include <algorithm>
#include <set>
#include <utility>

#include "db/merge/guard_merges.h"
#include "db/merge/guard_ranges.h"
#include "db/merge/merge_policy.h"
#include "db/merge/room_watch.h"
#include "db/tree/components.h"
#include "db/tree/leftovers.h"
#include "db/tree/table_runs.h"

namespace dlsm {
namespace {

class GuardsPolicy final : public MergePolicy {
 public:
  explicit GuardsPolicy(const GuardsPolicyConfig& config) : config_(config), merges_(config) {}

  std::optional<MergePick> Pick(const Version& version, const TablesInMerge& busy) override {
    std::vector<Candidate> candidates = CandidatesOf(version);
    // What only reads have asked for comes last: it may have to rest, and nothing waits behind it.
    const auto rank = [](const Candidate& candidate) {
      return std::pair(candidate.cause == MergeCause::kShape, candidate.score);
    };
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const Candidate& a, const Candidate& b) { return rank(a) > rank(b); });
    for (const Candidate& candidate : candidates) {
      std::optional<MergePick> pick =
          candidate.down
              ? PickDown(version, busy, candidate.level, *candidate.guard, candidate.along)
              : merges_.PickInPlace(version, busy, candidate.level, *candidate.guard,
                                    candidate.take_all);
      if (!pick.has_value()) continue;
      pick->cause = candidate.cause;
      return pick;
    }
    return std::nullopt;
  }

  // First what level 0 adds to the guards; then the guard with most runs. One by one, so that none
  // is long under way when writers return.
  std::optional<MergePick> PickWhileIdle(const Version& version,
                                         const TablesInMerge& busy) override {
    if (config_.idle_newer_percent_max == 0) return std::nullopt;
    std::optional<MergePick> pick =
        GoesDownWhileIdle(version)
            ? PickDown(version, busy, 0, version.levels()[0].sentinel(), Along::kNone)
            : PickGuardWhileIdle(version, busy);
    if (pick.has_value()) pick->cause = MergeCause::kIdle;
    return pick;
  }

  std::optional<MergePick> PickManual(const Version& version, const TablesInMerge& busy,
                                      size_t level, const ManualScope& scope, bool* done) override {
    *done = true;
    const size_t bottom = GuardMerges::Bottom(version);
    for (const Guard* guard : version.levels()[level].AllGuards()) {
      if (!HoldsSome(version.comparator(), *guard, scope.begin, scope.end)) continue;
      const bool in_place = level > 0 && level == bottom;
      if (!scope.HasAny(guard->tables, /*further_down=*/!in_place)) continue;
      const bool merged = in_place && CountRuns(*guard) < 2 &&
                          !VersionsSpanTables(version.comparator(), guard->tables);
      if (merged && !scope.HasLeftovers(guard->tables, snapshots())) continue;
      *done = false;
      std::optional<MergePick> pick =
          in_place ? merges_.PickInPlace(version, busy, level, *guard, /*take_all=*/true,
                                         /*may_move=*/!merged)
                   : PickDown(version, busy, level, *guard, Along::kAll);
      if (pick.has_value()) return pick;
    }
    return std::nullopt;
  }

  // Guard by guard: of a merge of all that the tree has, nothing is given back until all of it has
  // been written. Level 0, whose tables lie across all guards, goes down by itself for that, and
  // only as much of it as fits.
  std::optional<MergePick> PickForRoom(const Version& version, const TablesInMerge& busy,
                                       const RoomLeft& room) override {
    std::optional<MergePick> smallest;
    for (const auto pick_from :
         {&GuardsPolicy::PickBottomForRoom, &GuardsPolicy::PickLevel0ForRoom,
          &GuardsPolicy::PickBetweenForRoom, &GuardsPolicy::PickLeftoversForRoom}) {
      std::optional<MergePick> pick = (this->*pick_from)(version, busy, room);
      if (pick.has_value() && room.Fits(pick->input_bytes())) return pick;
      KeepSmaller(std::move(pick), &smallest);
    }
    return smallest;
  }

  size_t ManualLevels(const Version& version, const Slice*, const Slice*) const override {
    return GuardMerges::Bottom(version) + 1;
  }

  uint64_t PendingBytes(const Version& version) const override {
    std::set<const Guard*> due;  // One can be due for two reasons.
    for (const Candidate& candidate : CandidatesOf(version)) {
      if (candidate.cause == MergeCause::kShape) due.insert(candidate.guard);
    }
    uint64_t pending = 0;
    for (const Guard* guard : due) pending += BytesOf(guard->tables);
    return pending;
  }

  void SetQuiet(bool quiet) override { quiet_share_ = quiet ? 8 : 1; }

  void LimitLevel0Merges(size_t tables) override { level0_tables_max_ = tables; }

  size_t ExpectedComponents(const Version& version) const override {
    return config_.level0_trigger + config_.runs_max * std::max<size_t>(1, LevelsInUse(version));
  }

 private:
  using Along = GuardMerges::Along;

  struct Candidate {
    double score;
    size_t level;
    const Guard* guard;
    bool down;
    MergeCause cause = MergeCause::kShape;
    Along along = Along::kDue;
    bool take_all = false;  // In place: the oldest run, too, however large it is.
  };

  std::vector<Candidate> CandidatesOf(const Version& version) const {
    std::vector<Candidate> candidates;
    CollectLevel0(version, &candidates);
    for (size_t level = 1; level < version.levels().size(); ++level) {
      CollectGuards(version, level, &candidates);
    }
    return candidates;
  }

  void CollectLevel0(const Version& version, std::vector<Candidate>* candidates) const {
    const Guard& guard = version.levels()[0].sentinel();
    const double score =
        static_cast<double>(guard.tables.size()) / static_cast<double>(config_.level0_trigger);
    if (score >= 1) {
      candidates->push_back({score, 0, &guard, true});
    } else if (WornDown(version, 0, guard)) {
      // Where there are several guards below, each is merged by itself, when its own reads are
      // worth it: so no such merge is long under way when writers return.
      const bool one_guard = version.levels()[1].AllGuards().size() == 1;
      candidates->push_back(
          {score, 0, &guard, true, MergeCause::kReads, one_guard ? Along::kAll : Along::kDue});
    } else if (Worn(guard, std::max<size_t>(guard.index->runs(), 1) - 1, EntriesOf(guard.tables))) {
      // By itself it saves a run less, for it becomes one below.
      candidates->push_back({score, 0, &guard, true, MergeCause::kReads});
    }
  }

  // Where it outweighs what lies below, guards will be merged with what comes to them.
  bool GoesDownWhileIdle(const Version& version) const {
    const Guard& level0 = version.levels()[0].sentinel();
    if (level0.tables.empty()) return false;
    return level0.tables.size() >= std::max<size_t>(2, config_.level0_trigger / 4) ||
           OutweighedWhileIdle(version.bytes(), version.bytes() - BytesOf(level0.tables));
  }

  void CollectGuards(const Version& version, size_t level,
                     std::vector<Candidate>* candidates) const {
    const size_t bottom = GuardMerges::Bottom(version);
    if (level > bottom) return;
    const double fill =
        static_cast<double>(version.levels()[level].bytes()) / merges_.BytesMax(level);
    const bool can_go_down = level + 1 < version.levels().size();
    const Guard* largest = nullptr;
    uint64_t largest_bytes = 0;
    for (const Guard* guard : version.levels()[level].AllGuards()) {
      if (guard->tables.empty()) continue;
      const std::vector<std::vector<TableRef>> runs = RunsOf(*guard);
      const double score = static_cast<double>(runs.size()) / static_cast<double>(config_.runs_max);
      const uint64_t bytes = BytesOf(guard->tables);
      if (bytes > largest_bytes) {
        largest = guard;
        largest_bytes = bytes;
      }
      const bool outweighed =
          level == bottom && runs.size() > 1 && merges_.Outweighed(bytes, BytesOf(runs.back()));
      if (score < 1 && Worn(*guard, runs.size() - 1, EntriesOf(guard->tables))) {
        // One that is due anyway does not rest because it is read as well.
        const MergeCause cause = outweighed ? MergeCause::kShape : MergeCause::kReads;
        candidates->push_back({score, level, guard, false, cause, Along::kDue, /*take_all=*/true});
      } else if (score < 1 && level < bottom && WornDown(version, level, *guard)) {
        candidates->push_back({score, level, guard, true, MergeCause::kReads, Along::kAll});
      } else if (level < bottom && score >= 1) {
        candidates->push_back({score, level, guard, true});
      } else if (level == bottom && runs.size() > 1 && (score >= 1 || outweighed)) {
        // It is not worth while to merge in place what is going to move down anyway.
        const bool down = score >= 1 && fill >= 0.5 && can_go_down;
        candidates->push_back({score, level, guard, down});
      }
    }
    if (fill > 1 && can_go_down) candidates->push_back({fill, level, largest, true});
  }

  std::optional<MergePick> PickGuardWhileIdle(const Version& version,
                                              const TablesInMerge& busy) const {
    size_t runs_most = 1;
    size_t level_of_most = 0;
    const Guard* most = nullptr;
    for (size_t level = 1; level < version.levels().size(); ++level) {
      for (const Guard* guard : version.levels()[level].AllGuards()) {
        if (AnyBusy(guard->tables, busy)) continue;
        const std::vector<std::vector<TableRef>> runs = RunsOf(*guard);
        if (runs.size() <= runs_most ||
            !OutweighedWhileIdle(BytesOf(guard->tables), BytesOf(runs.back()))) {
          continue;
        }
        runs_most = runs.size();
        level_of_most = level;
        most = guard;
      }
    }
    if (most == nullptr) return std::nullopt;
    return merges_.PickInPlace(version, busy, level_of_most, *most, /*take_all=*/true);
  }

  bool OutweighedWhileIdle(uint64_t bytes, uint64_t oldest_bytes) const {
    return (bytes - oldest_bytes) * 100 >= oldest_bytes * config_.idle_newer_percent_max;
  }

  static uint64_t EntriesOf(const std::vector<TableRef>& tables) {
    uint64_t entries = 0;
    for (const TableRef& table : tables) entries += table->meta().entries;
    return entries;
  }

  // Whether the guard's reads have cost as much as a merge of `entries` would, after which each
  // would look at `runs_saved` fewer. While nobody writes, an eighth of that is enough: what has
  // been read is likely to be read again, and the memory node has nothing else to do.
  bool Worn(const Guard& guard, size_t runs_saved, uint64_t entries) const {
    constexpr uint64_t kLooksPerRecordMerged = 4;
    constexpr uint64_t kLooksMin = 16 * kLooksPerSeek;
    if (runs_saved == 0 || guard.tables.empty()) return false;
    const uint64_t looks = guard.tables.back()->looks();
    return looks >= kLooksMin &&
           looks * runs_saved * quiet_share_ >= entries * kLooksPerRecordMerged;
  }

  // Whether reads make it worth while to merge the guard into what the next level has there, which
  // is the deepest or has nothing there.
  bool WornDown(const Version& version, size_t level, const Guard& guard) const {
    const uint64_t entries = EntriesOf(guard.tables);
    if (!Worn(guard, CountRuns(guard), entries)) return false;
    const KeyRange hull = HullOf(version.comparator(), guard.tables);
    const Slice begin = hull.smallest;
    const Slice end = hull.largest;
    const std::vector<TableRef> below =
        version.levels()[level + 1].Overlapping(version.comparator(), &begin, &end);
    if (level + 1 < GuardMerges::Bottom(version)) return below.empty();
    return Worn(guard, CountRuns(guard), entries + EntriesOf(below));
  }

  // Of level 0 the oldest `tables_max`; 0: as many as LimitLevel0Merges() says.
  std::optional<MergePick> PickDown(const Version& version, const TablesInMerge& busy, size_t level,
                                    const Guard& guard, Along along, size_t tables_max = 0) const {
    return merges_.PickDown(version, busy, level, guard, along,
                            tables_max > 0 ? tables_max : level0_tables_max_);
  }

  // In the deepest level, of the guards whose merge fits, the one that has most to merge beside its
  // oldest run, or most that is deleted in its only one, in place; the smallest if none fits. It is
  // time for it as soon as one more merge out of level 0, or of the largest guard, might not fit. A
  // little beside much is left until writers have to wait.
  std::optional<MergePick> PickBottomForRoom(const Version& version, const TablesInMerge& busy,
                                             const RoomLeft& room) const {
    const size_t bottom = GuardMerges::Bottom(version);
    const std::vector<const Guard*> guards = version.levels()[bottom].AllGuards();
    uint64_t merge_bytes = version.levels()[0].bytes();
    for (const Guard* guard : guards) merge_bytes = std::max(merge_bytes, BytesOf(guard->tables));
    if (!room.IsPressing(merge_bytes)) return std::nullopt;
    uint64_t newer_max = 0;
    const Guard* most = nullptr;
    const Guard* smallest = nullptr;
    for (const Guard* guard : guards) {
      if (AnyBusy(guard->tables, busy)) continue;
      const bool merged = AreDisjoint(version.comparator(), guard->tables);
      if (merged && !HoldLeftovers(guard->tables, snapshots())) continue;
      const uint64_t bytes = BytesOf(guard->tables);
      const uint64_t newer =
          merged ? BytesOfDeletions(guard->tables) : bytes - BytesOf(RunsOf(*guard).back());
      if (newer < bytes / kWorthPart && (merged || !room.full)) continue;
      if (room.Fits(bytes) && newer >= newer_max) {
        newer_max = newer;
        most = guard;
      }
      if (smallest == nullptr || bytes < BytesOf(smallest->tables)) smallest = guard;
    }
    const Guard* const pick = most != nullptr ? most : smallest;
    if (pick == nullptr) return std::nullopt;
    return merges_.PickInPlace(version, busy, bottom, *pick, /*take_all=*/true, /*may_move=*/false);
  }

  // The smallest guard of the deepest level that may hold leftovers, however little, once writers
  // have to wait, this tree's or others: nobody knows beforehand what a merge of it gives back.
  std::optional<MergePick> PickLeftoversForRoom(const Version& version, const TablesInMerge& busy,
                                                const RoomLeft& room) const {
    if (!room.full && !room.wanted) return std::nullopt;
    const size_t bottom = GuardMerges::Bottom(version);
    const Guard* smallest = nullptr;
    for (const Guard* guard : version.levels()[bottom].AllGuards()) {
      if (AnyBusy(guard->tables, busy) || !HoldLeftovers(guard->tables, snapshots())) continue;
      if (smallest == nullptr || BytesOf(guard->tables) < BytesOf(smallest->tables)) {
        smallest = guard;
      }
    }
    if (smallest == nullptr || !room.IsWorthLeftovers(BytesOf(smallest->tables))) {
      return std::nullopt;
    }
    return merges_.PickInPlace(version, busy, bottom, *smallest, /*take_all=*/true,
                               /*may_move=*/false);
  }

  // From the guards of the levels between level 0 and the deepest, the deeper ones first, to where
  // guards are merged in place.
  std::optional<MergePick> PickBetweenForRoom(const Version& version, const TablesInMerge& busy,
                                              const RoomLeft& room) const {
    std::optional<MergePick> smallest;
    for (size_t level = GuardMerges::Bottom(version) - 1; level > 0; --level) {
      for (const Guard* guard : version.levels()[level].AllGuards()) {
        if (!room.IsPressing(BytesOf(guard->tables))) continue;
        std::optional<MergePick> pick = PickDownForRoom(version, busy, room, level, *guard);
        if (!pick.has_value() || !MakesRoomDown(version, *pick, room)) continue;
        if (room.Fits(pick->input_bytes())) return pick;
        KeepSmaller(std::move(pick), &smallest);
      }
    }
    return smallest;
  }

  // As many of the oldest tables as fit, or more where those make no room.
  std::optional<MergePick> PickLevel0ForRoom(const Version& version, const TablesInMerge& busy,
                                             const RoomLeft& room) const {
    const Guard& guard = version.levels()[0].sentinel();
    if (!room.IsPressing(BytesOf(guard.tables))) return std::nullopt;
    size_t count = CountOldest(guard.tables, room.for_merges / 2);
    for (; count <= guard.tables.size(); ++count) {
      std::optional<MergePick> pick = PickDownForRoom(version, busy, room, 0, guard, count);
      if (!pick.has_value()) return std::nullopt;
      if (MakesRoomDown(version, *pick, room)) return pick;
    }
    return std::nullopt;
  }

  // With what is due below if that fits, which saves to write it twice.
  std::optional<MergePick> PickDownForRoom(const Version& version, const TablesInMerge& busy,
                                           const RoomLeft& room, size_t level, const Guard& guard,
                                           size_t tables_max = 0) const {
    std::optional<MergePick> pick = PickDown(version, busy, level, guard, Along::kDue, tables_max);
    if (!pick.has_value() || room.Fits(pick->input_bytes())) return pick;
    return PickDown(version, busy, level, guard, Along::kNone, tables_max);
  }

  // By itself, or once guards below, which may have older versions, are merged in place.
  bool MakesRoomDown(const Version& version, const MergePick& pick, const RoomLeft& room) const {
    return !pick.older.empty() || MakesRoom(version, pick) || IsWorthLeftovers(pick, room);
  }

  // How many of the oldest tables, of some that lie newest first, have `bytes_max` at most; one at
  // least.
  static size_t CountOldest(const std::vector<TableRef>& tables, uint64_t bytes_max) {
    size_t count = 0;
    uint64_t bytes = 0;
    for (auto table = tables.rbegin(); table != tables.rend(); ++table, ++count) {
      bytes += (*table)->meta().image.bytes;
      if (bytes > bytes_max) break;
    }
    return std::max<size_t>(count, 1);
  }

  const GuardsPolicyConfig config_;
  const GuardMerges merges_;
  uint64_t quiet_share_ = 1;  // One part in so many of what a merge costs is enough; see Worn().
  size_t level0_tables_max_ = 0;  // 0: all.
};

}  // namespace

std::unique_ptr<MergePolicy> NewGuardsPolicy(const GuardsPolicyConfig& config) {
  return std::make_unique<GuardsPolicy>(config);
}

}  // namespace dlsm
