// Short bounds for tables of long keys.
//
// Of each table its meta says between which two keys its records lie: `smallest` and `largest`.
// These are in every list of tables, so they must not be as long as keys can be. Up to
// kShortKeyBytes bytes they are the table's first and last key. For longer keys they are shorter
// keys that say the same:
//
//   records of tables    [ k1 ........ k2 ]            [ k3 ........ k4 ]
//   their bounds      [ b1 .............. b2 ]      [ b3 .............. b4 ]
//
//   b1 <= k1, k2 <= b2 < b3 <= k3, k4 <= b4
//
// So tables that are made one after the other stay disjoint. And wherever tables of a merge may
// not reach, their bounds do not reach either: they lie within the bounds of what was merged, in
// the merge's range, and between two cut points. (At cut candidates they end, too, where a table
// does: so tables of several merges have the same bounds there.) What compares tables by their
// bounds, which is all that a database does with them, decides as it would by their keys, but for
// keys that no table has.
//
// Tables that are not made together know nothing of each other. Of a key at a table's edge a bound
// has what tells it from the next one within the table, and kShortKeyBytes more: so two tables
// overlap that would not by their keys only if keys of both are as much alike. A bound is longer
// if that is what it takes to tell the key from another table's that is known, and in a few more
// cases that short_keys.h has. In an order that is not one of the built-in two bounds are whole
// keys.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "table/edge_keys.h"
#include "table/internal_key.h"
#include "table/merge_tables.h"
#include "table/short_keys.h"
#include "table/table_meta.h"

namespace dlsm {

// Used by one thread. What the constructor gets outlives it.
class TableBounds {
 public:
  // Of tables that may reach anywhere.
  explicit TableBounds(const InternalKeyComparator& comparator) : comparator_(comparator) {}
  // Of a merge's outputs.
  TableBounds(const MergeOptions& options, const std::vector<TableRun>& inputs);

  // The next table, in the order of keys, is complete; its meta has its first and last key, in
  // whose places come its bounds. `edges`: of its keys. `next`: the first internal key behind it,
  // with which another table begins; null: there is none.
  void Set(const EdgeKeys& edges, const Slice* next, TableMeta* meta);

 private:
  std::vector<std::string>::const_iterator CutBehind(const std::vector<std::string>& cuts,
                                                     const Slice& user_key) const;
  std::optional<Slice> LimitBehind(const Slice& user_key, const Slice* next) const;
  std::string Smallest(const Slice& first, size_t bytes) const;
  std::string Largest(const Slice& last, size_t bytes, const Slice* next) const;

  const InternalKeyComparator comparator_;
  // Of a merge; else null.
  const MergeOptions* options_ = nullptr;
  Slice inputs_smallest_;  // Internal keys.
  Slice inputs_largest_;
  std::string last_bound_;  // An internal key, of the table before; empty: there was none.
};

}  // namespace dlsm
