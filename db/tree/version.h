// A version: the levels of the tree at one moment. Immutable and counted.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "db/tree/candidate_list.h"
#include "db/tree/level.h"
#include "table/range_tombstones.h"

namespace dlsm {

// What a flush or a merge changes.
struct VersionEdit {
  struct LevelEdit {
    std::vector<uint64_t> removed;  // Table numbers.
    std::vector<TableRef> added;    // Newest first.
    // Where tables lie newest first: `added` takes the place of `removed`, behind what has come
    // since they were picked. Otherwise it goes to the front.
    bool in_place = false;
    // User keys that are to start a guard here and in every deeper level. One that would divide a
    // table is left out.
    std::vector<std::string> guards;
    // How many guards this level may have before empty ones are deleted.
    size_t guards_max = SIZE_MAX;
  };
  std::vector<LevelEdit> levels;  // By level; may be shorter than the version.
  // Not null: takes the place of the version's range tombstones.
  std::shared_ptr<const RangeTombstones> tombstones;

  explicit VersionEdit(size_t level_count) : levels(level_count) {}
};

class Version {
 public:
  // `tombstones`: null: there are none. Those that hide nothing in the levels are left out.
  Version(const InternalKeyComparator& comparator, std::vector<Level> levels,
          std::shared_ptr<const RangeTombstones> tombstones = nullptr)
      : comparator_(comparator),
        levels_(Indexed(comparator, std::move(levels))),
        occupied_(Occupied(levels_)),
        tombstones_(tombstones == nullptr ? nullptr
                                          : OfUse(comparator, levels_, std::move(tombstones))) {}
  Version(const Version&) = delete;
  Version& operator=(const Version&) = delete;

  const std::vector<Level>& levels() const { return levels_; }
  const InternalKeyComparator& comparator() const { return comparator_; }
  // Is null without any. Those of memtables that are not flushed are in the memtables.
  const std::shared_ptr<const RangeTombstones>& tombstones() const { return tombstones_; }
  std::vector<RangeFragment> TombstoneFragments() const {
    return tombstones_ == nullptr ? std::vector<RangeFragment>() : tombstones_->fragments();
  }

  std::shared_ptr<const Version> With(const VersionEdit& edit) const;

  // With these tables in the place of those that have their numbers.
  std::shared_ptr<const Version> WithReaders(
      const std::unordered_map<uint64_t, TableRef>& tables) const;

  // Calls visit(const Table&, bool filtered) for the tables that may hold the key, the ones with
  // newer versions of it first, until it returns false. `filtered`: the table's filter has been
  // asked. Returns how many tables were passed over because of their filters. `approaches`: see
  // CandidateList.
  template <typename Visit>
  uint64_t ForEachCandidate(const LookupKey& key, Visit visit, bool approaches = false) const {
    CandidateList candidates(comparator_, key, visit, approaches);
    if (AddCandidates(key, &candidates)) AskCandidates(key, &candidates);
    return candidates.excluded();
  }

  // The two halves of that. In between the lines of the tables' filters are on their way, and so
  // can be those for other keys. False: visit() has returned false.
  template <typename Candidates>
  bool AddCandidates(const LookupKey& key, Candidates* candidates) const {
    for (const Level* const level : occupied_) {
      if (!candidates->Add(level->IndexFor(comparator_, key.user_key()))) return false;
    }
    return true;
  }
  template <typename Candidates>
  void AskCandidates(const LookupKey& key, Candidates* candidates) const {
    candidates->Ask();
    if (candidates->hash() % kLookupsPerSample == 0) [[unlikely]]
      CountLookups(key, kLookupsPerSample);
  }

  uint64_t bytes() const;
  // Fragments.
  uint64_t tombstone_count() const {
    return tombstones_ == nullptr ? 0 : tombstones_->fragments().size();
  }
  uint64_t entries() const;
  size_t table_count() const;
  // Of index and filter, on the compute node.
  uint64_t metadata_bytes() const;
  SequenceNumber sequence_max() const;

  // Every level's invariants; and that a guard of a level is one of every deeper level.
  Status CheckInvariants() const;

 private:
  static std::vector<Level> Indexed(const InternalKeyComparator& comparator,
                                    std::vector<Level> levels);
  static std::vector<const Level*> Occupied(const std::vector<Level>& levels);
  static std::shared_ptr<const RangeTombstones> OfUse(const InternalKeyComparator& comparator,
                                                      const std::vector<Level>& levels,
                                                      std::shared_ptr<const RangeTombstones> all);
  // One of so many keys stands for the others, so that lookups mostly write nothing.
  static constexpr uint64_t kLookupsPerSample = 64;
  void CountLookups(const LookupKey& key, uint64_t lookups) const;
  // In the levels from `first` on, unless it would divide a table of one of them.
  void AddGuard(const Slice& key, size_t first, std::vector<Level>* levels) const;
  void DeleteEmptyGuards(size_t guards_max, size_t index, std::vector<Level>* levels) const;

  const InternalKeyComparator comparator_;
  const std::vector<Level> levels_;
  const std::vector<const Level*> occupied_;  // Those with tables: lookups touch no others.
  const std::shared_ptr<const RangeTombstones> tombstones_;
};

}  // namespace dlsm
