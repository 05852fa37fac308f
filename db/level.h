// One level of a version: a sentinel run and sorted guards.
//
//   level 0     | sentinel: t9 t8 t7 |                         t9 is newer than t8, which is newer
//   ... level L     | sentinel: t4 | g1: t6 t5 | g2: | g3: t3 |    keys before g1 belong to the
//   sentinel
//
// Within a guard, tables either overlap and lie newest first, or (Order::kByKey) are disjoint and
// ascend by key. A level without guards is its sentinel alone: level 0 is one with overlapping
// tables, a level of the leveled policy one with disjoint tables. (Guards: PebblesDB section 3.)
//
// Newest first means: for one key, every version in a newer table is newer than every version in an
// older one.
#pragma once

#include <cassert>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "db/key_directory.h"
#include "db/table.h"
#include "table/internal_key.h"
#include "util/bloom_filter.h"
#include "util/hash.h"

namespace dlsm {

struct Guard {
  enum class Order : uint8_t { kNewestFirst = 0, kByKey = 1 };

  std::string key;  // The smallest user key that belongs here; unused in a sentinel.
  Order order = Order::kNewestFirst;
  std::vector<TableRef> tables;

  // The filter of each table, side by side, so that a lookup can have all their cache lines on the
  // way before it looks at the first. Empty bytes: no built-in filter.
  std::vector<Slice> filters;
  // To be called when the tables are complete.
  void IndexFilters();
};

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

  // Whether a guard starts at `key`.
  bool HasGuard(const InternalKeyComparator& comparator, const Slice& key) const;
  // Whether a table has keys on both sides of `key`, so that no guard can start there.
  bool DividesTable(const InternalKeyComparator& comparator, const Slice& key) const;
  // A copy with a guard at `key`, which divides no table; a plain copy if it has one there.
  Level WithGuard(const InternalKeyComparator& comparator, const Slice& key) const;
  // A copy without the guards that have no tables and for which drop(guard) holds.
  template <typename Drop>
  Level WithoutEmptyGuards(const InternalKeyComparator& comparator, Drop drop) const {
    Level level = *this;
    std::erase_if(level.guards_,
                  [&drop](const Guard& guard) { return guard.tables.empty() && drop(guard); });
    level.IndexGuards(comparator);
    return level;
  }
  // A copy with all tables in the sentinel, in the order of guards. No invariant is checked.
  Level Flattened(Guard::Order order) const;

  // The sentinel and the guards, in order of keys.
  std::vector<const Guard*> AllGuards() const;

  // How many guards start at or before `user_key`: with none it belongs to the sentinel.
  size_t GuardIndexFor(const InternalKeyComparator& comparator, const Slice& user_key) const;
  // The guard that `user_key` belongs to.
  const Guard& GuardFor(const InternalKeyComparator& comparator, const Slice& user_key) const;

  // Calls visit(const Table&) for the tables that may hold the key, the one with the newest
  // versions first, until it returns false; returns false if it did. Adds to *excluded (if not
  // null) how many tables were passed over because of their filters.
  template <typename Visit>
  bool ForEachCandidate(const InternalKeyComparator& comparator, const LookupKey& key, Visit visit,
                        uint64_t* excluded = nullptr) const {
    const Guard& guard = guards_.empty() ? sentinel_ : GuardFor(comparator, key.user_key());
    if (guard.order == Guard::Order::kByKey) {
      const Table* table = FindByKey(comparator, guard, key);
      return table == nullptr || visit(*table);
    }
    return VisitByFilter(comparator, guard, key, visit, excluded);
  }

  // Tables that hold keys in [*begin, *end]; null: unbounded.
  std::vector<TableRef> Overlapping(const InternalKeyComparator& comparator, const Slice* begin,
                                    const Slice* end) const;
  std::vector<TableRef> AllTables() const { return Overlapping(AnyOrder(), nullptr, nullptr); }

  size_t table_count() const;
  uint64_t bytes() const;

  // Guards ascend; each table lies within its guard; disjoint tables ascend and do not overlap;
  // overlapping tables are newest first.
  Status CheckInvariants(const InternalKeyComparator& comparator) const;

 private:
  // The tables whose filters do not exclude the key, of those that overlap. (visit() would find the
  // same, one cache miss after the other.)
  template <typename Visit>
  static bool VisitByFilter(const InternalKeyComparator& comparator, const Guard& guard,
                            const LookupKey& key, Visit visit, uint64_t* excluded) {
    assert(guard.filters.size() == guard.tables.size());
    const uint64_t hash = Hash64(key.user_key());
    for (const Slice& filter : guard.filters) {
      if (!filter.empty()) PrefetchBloom(hash, filter);
    }
    for (size_t i = 0; i < guard.tables.size(); ++i) {
      const Slice& filter = guard.filters[i];
      if (!filter.empty() && !BloomMayMatch(hash, filter)) {
        if (excluded != nullptr) ++*excluded;
        continue;
      }
      const Table& table = *guard.tables[i];
      if (MayHold(comparator, table, key.user_key()) && !visit(table)) return false;
    }
    return true;
  }
  static InternalKeyComparator AnyOrder() { return InternalKeyComparator(BytewiseComparator()); }
  static bool MayHold(const InternalKeyComparator& comparator, const Table& table,
                      const Slice& user_key) {
    return comparator.CompareUserKeys(user_key, ExtractUserKey(table.smallest())) >= 0 &&
           comparator.CompareUserKeys(user_key, ExtractUserKey(table.largest())) <= 0;
  }
  static const Table* FindByKey(const InternalKeyComparator& comparator, const Guard& guard,
                                const LookupKey& key);

  void IndexGuards(const InternalKeyComparator& comparator);

  friend class ManifestCodec;
  Guard sentinel_;
  std::vector<Guard> guards_;  // Ascending by key.
  KeyDirectory directory_;     // Of their keys; not yet there in a level from a manifest.
};

}  // namespace dlsm
