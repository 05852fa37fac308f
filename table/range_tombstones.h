// Range tombstones: what DB::DeleteRange() writes. A tombstone (begin, end, number) hides every
// version of the keys in [begin, end) whose number is lower than its own.
//
// They are kept as fragments, disjoint and ascending, each with the numbers of all tombstones that
// cover it:
//
//   tombstones      |-------- 9 --------|
//                           |--------- 5 ---------|
//   fragments       |  9    |   9, 5    |    5    |
//
// Of the numbers of a fragment, only the newest of each stripe stays (version_rule.h says what a
// stripe is): it hides all that the others of its stripe hide, from every reader that there is.
//
// A version of the tree has one list of fragments (db/tree/version.h). A merge is given those that
// its tables need, so it drops what they hide at either node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "table/internal_key.h"
#include "table/table_meta.h"

namespace dlsm {

// Of user keys, `end` exclusive.
struct RangeTombstone {
  std::string begin;
  std::string end;
  SequenceNumber sequence = 0;
};

struct RangeFragment {
  std::string begin;
  std::string end;
  std::vector<SequenceNumber> sequences;  // Newest first; at least one.

  friend bool operator==(const RangeFragment&, const RangeFragment&) = default;
};

// Immutable. Any thread.
class RangeTombstones {
 public:
  // `fragments` are disjoint, ascending and not empty: see CheckFragments().
  RangeTombstones(const InternalKeyComparator& comparator, std::vector<RangeFragment> fragments);

  // The fragments of `tombstones` and of `older` (which may be null) together. `snapshots`: live
  // ones, ascending. A tombstone without keys between its bounds is left out.
  static std::vector<RangeFragment> Fragments(const InternalKeyComparator& comparator,
                                              const RangeTombstones* older,
                                              std::vector<RangeTombstone> tombstones,
                                              std::span<const SequenceNumber> snapshots);
  // Corruption unless the fragments, which came from another machine, are as the constructor wants
  // them.
  static Status CheckFragments(const Comparator& comparator,
                               const std::vector<RangeFragment>& fragments);

  const std::vector<RangeFragment>& fragments() const { return fragments_; }
  bool empty() const { return fragments_.empty(); }
  // The newest number of all.
  SequenceNumber newest() const { return newest_; }
  // Of begins, ends and numbers.
  uint64_t bytes() const { return bytes_; }

  // The newest number at or below `most` that hides older versions of the key; 0: none does.
  SequenceNumber NewestAt(const Slice& user_key, SequenceNumber most) const;
  // The first fragment that ends behind the key.
  size_t FirstBehind(const Slice& user_key) const;

  // The number of the newest tombstone that may hide a version in the table: it overlaps the table,
  // is newer than the table's oldest version, and no merge has applied it there yet. 0: none may.
  SequenceNumber NewestFor(const TableMeta& table) const;
  // Whether every version in the table is hidden from every reader.
  bool HideAll(const TableMeta& table, std::span<const SequenceNumber> snapshots) const;
  // Those fragments that overlap user keys of [smallest, largest]; null: without a bound.
  std::vector<RangeFragment> Overlapping(const Slice* smallest, const Slice* largest) const;

 private:
  const InternalKeyComparator comparator_;
  const std::vector<RangeFragment> fragments_;
  SequenceNumber newest_ = 0;
  uint64_t bytes_ = 0;
};

// Asks for keys that ascend for the most part: it looks at its last fragment first.
class RangeTombstoneCursor {
 public:
  // `tombstones` outlive the cursor.
  RangeTombstoneCursor(const InternalKeyComparator& comparator, const RangeTombstones& tombstones)
      : comparator_(comparator), tombstones_(tombstones) {}

  // The numbers of the fragment that the key is in, newest first; empty if it is in none.
  std::span<const SequenceNumber> At(const Slice& user_key);

 private:
  const InternalKeyComparator comparator_;
  const RangeTombstones& tombstones_;
  size_t at_ = 0;  // The first fragment that ends behind the last key.
};

// The largest number of a fragment at or below `most`; 0: there is none.
SequenceNumber NewestOf(std::span<const SequenceNumber> sequences, SequenceNumber most);

// A merge with live `snapshots` (ascending) applies all tombstones with numbers up to this one, of
// which `newest` is the last: no snapshot needs what they hide.
SequenceNumber AppliedUpTo(SequenceNumber newest, std::span<const SequenceNumber> snapshots);

}  // namespace dlsm
