// One level of a version: a sentinel run and sorted guards.
//
//   level 0    | sentinel: t9 t8 t7 |                          t9 is newer than t8, and so on
//   level L    | sentinel: t4 | g1: t6 t5 | g2: | g3: t3 |     the sentinel has the keys before g1
//
// Within a guard, tables either overlap and lie newest first, or (Order::kByKey) are disjoint and
// ascend by key. A level without guards is its sentinel alone: level 0 is one with overlapping
// tables, a level of the leveled policy one with disjoint tables. (Guards: PebblesDB section 3.)
//
// Newest first means: for one key, every version in a newer table is newer than every version in an
// older one.
#pragma once

#include <cassert>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dLSM/status.h"
#include "db/tree/guard_index.h"
#include "db/tree/key_directory.h"
#include "db/tree/table.h"
#include "table/internal_key.h"

namespace dlsm {

struct Guard {
  enum class Order : uint8_t { kNewestFirst = 0, kByKey = 1 };

  std::string key;  // The smallest user key that belongs here; unused in a sentinel.
  Order order = Order::kNewestFirst;
  std::vector<TableRef> tables;

  // Of the tables, for lookups; null until the level has been indexed.
  std::shared_ptr<const GuardIndex> index;
};

// The sorted runs of a guard that has been indexed, as table_runs.h says, newest first. No keys are
// compared: the index knows.
std::vector<std::vector<TableRef>> RunsOf(const Guard& guard);
inline size_t CountRuns(const Guard& guard) { return guard.index->runs(); }

// Whether the table's range has keys of [*begin, *end]; null: unbounded.
bool Overlaps(const InternalKeyComparator& comparator, const Table& table, const Slice* begin,
              const Slice* end);

// Immutable once part of a version.
class Level {
 public:
  Level() = default;
  explicit Level(Guard::Order order) { sentinel_.order = order; }

  const Guard& sentinel() const { return sentinel_; }
  const std::vector<Guard>& guards() const { return guards_; }

  // A copy without the tables numbered in `removed` (sorted) and with `added`, each in the guard
  // that its smallest key belongs to: in front where tables lie newest first, at its place where by
  // key. `added` itself is newest first. With `in_place`, where tables lie newest first, it goes
  // where the newest removed one of that guard was.
  Level With(const InternalKeyComparator& comparator, const std::vector<uint64_t>& removed,
             const std::vector<TableRef>& added, bool in_place = false) const;

  // Puts each of these tables in the place of the one that has its number. Only before the level
  // is part of a version.
  void ReplaceReaders(const std::unordered_map<uint64_t, TableRef>& tables);

  // Whether a guard starts at `key`.
  bool HasGuard(const InternalKeyComparator& comparator, const Slice& key) const;
  // Whether a table has keys on both sides of `key`, so that no guard can start there.
  bool DividesTable(const InternalKeyComparator& comparator, const Slice& key) const;
  // A copy with a guard at `key`, which divides no table; a plain copy if it has one there.
  Level WithGuard(const InternalKeyComparator& comparator, const Slice& key) const;
  // A copy without the guards that have no tables and for which drop(guard) holds.
  template <typename Drop>
  Level WithoutEmptyGuards(Drop drop) const {
    Level level = *this;
    const size_t dropped = std::erase_if(
        level.guards_, [&drop](const Guard& guard) { return guard.tables.empty() && drop(guard); });
    if (dropped > 0) level.directory_.Clear();
    return level;
  }
  // A copy with all tables in the sentinel, in the order of guards. No invariant is checked.
  Level Flattened(Guard::Order order) const;

  // The sentinel and the guards, in order of keys.
  std::vector<const Guard*> AllGuards() const;

  // How many guards start at or before `user_key`: none, and it belongs to the sentinel; else it
  // belongs to the last of them, guards()[GuardsUpTo() - 1].
  size_t GuardsUpTo(const InternalKeyComparator& comparator, const Slice& user_key) const;
  // The guard that `user_key` belongs to.
  const Guard& GuardFor(const InternalKeyComparator& comparator, const Slice& user_key) const;

  // Makes what has changed since it was last indexed fit for lookups.
  void Index(const InternalKeyComparator& comparator);
  // Where a lookup of the key has to look. The level has been indexed.
  const GuardIndex& IndexFor(const InternalKeyComparator& comparator, const Slice& user_key) const {
    const Guard& guard = guards_.empty() ? sentinel_ : GuardFor(comparator, user_key);
    assert(guard.index != nullptr);
    return *guard.index;
  }

  // Those that overlap [*begin, *end]; null: unbounded.
  std::vector<TableRef> Overlapping(const InternalKeyComparator& comparator, const Slice* begin,
                                    const Slice* end) const;
  std::vector<TableRef> AllTables() const { return Overlapping(AnyOrder(), nullptr, nullptr); }

  size_t table_count() const;
  // As of the last Index(); costs nothing.
  bool empty() const { return empty_; }
  uint64_t bytes() const;

  // Guards ascend; each table lies within its guard; disjoint tables ascend and do not overlap;
  // overlapping tables are newest first.
  Status CheckInvariants(const InternalKeyComparator& comparator) const;

 private:
  static InternalKeyComparator AnyOrder() { return InternalKeyComparator(BytewiseComparator()); }

  friend class ManifestCodec;
  Guard sentinel_;
  std::vector<Guard> guards_;  // Ascending by key.
  bool empty_ = true;
  KeyDirectory directory_;  // Of their keys; empty if they have changed since Index().
};

}  // namespace dlsm
