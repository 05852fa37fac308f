#include "db/merge/merge_outputs.h"

#include <algorithm>
#include <cstdint>

namespace dlsm {
namespace {

Status Wrong(const char* what) {
  return Status::Corruption(
      "a merge has gone wrong, as it does where a memory node's memory or answer is damaged", what);
}

struct Bounds {
  SequenceNumber least = kSequenceNumberMax;
  SequenceNumber most = 0;
  uint64_t entries = 0;
  Slice smallest;  // User keys, of the inputs.
  Slice largest;
};

Bounds BoundsOf(const InternalKeyComparator& comparator,
                const std::vector<std::vector<TableRef>>& inputs) {
  Bounds bounds;
  for (const std::vector<TableRef>& run : inputs) {
    for (const TableRef& table : run) {
      const Slice smallest = ExtractUserKey(table->smallest());
      const Slice largest = ExtractUserKey(table->largest());
      const bool first = bounds.entries == 0;
      if (first || comparator.CompareUserKeys(smallest, bounds.smallest) < 0) {
        bounds.smallest = smallest;
      }
      if (first || comparator.CompareUserKeys(largest, bounds.largest) > 0) {
        bounds.largest = largest;
      }
      bounds.least = std::min(bounds.least, table->meta().sequence_min);
      bounds.most = std::max(bounds.most, table->meta().sequence_max);
      bounds.entries += table->meta().entries;
    }
  }
  return bounds;
}

}  // namespace

Status CheckMergeOutputs(const InternalKeyComparator& comparator, const MergeOptions& options,
                         const std::vector<std::vector<TableRef>>& inputs,
                         std::optional<NodeId> node, const std::vector<TableMeta>& outputs) {
  const Bounds bounds = BoundsOf(comparator, inputs);
  uint64_t entries = 0;
  const TableMeta* before = nullptr;
  auto cut = options.cut_points.begin();  // The first one behind the start of the table.
  for (const TableMeta& table : outputs) {
    if (node.has_value() && table.image.node != *node)
      return Wrong("its tables are on another node");
    if (table.format != options.table.format) return Wrong("its tables have another format");
    if (comparator.Compare(table.smallest, table.largest) > 0) return Wrong("a table ends early");
    if (before != nullptr && comparator.Compare(before->largest, table.smallest) >= 0) {
      return Wrong("its tables overlap");
    }
    const Slice smallest = ExtractUserKey(table.smallest);
    const Slice largest = ExtractUserKey(table.largest);
    if ((options.has_begin && comparator.CompareUserKeys(smallest, options.begin) < 0) ||
        (options.has_end && comparator.CompareUserKeys(largest, options.end) >= 0)) {
      return Wrong("its tables leave the merge's range");
    }
    if (comparator.CompareUserKeys(smallest, bounds.smallest) < 0 ||
        comparator.CompareUserKeys(largest, bounds.largest) > 0) {
      return Wrong("its tables leave the range of what was merged");
    }
    while (cut != options.cut_points.end() && comparator.CompareUserKeys(*cut, smallest) <= 0)
      ++cut;
    if (cut != options.cut_points.end() && comparator.CompareUserKeys(*cut, largest) <= 0) {
      return Wrong("a table reaches into the next guard");
    }
    if (table.sequence_min < bounds.least || table.sequence_max > bounds.most) {
      return Wrong("its versions are not those that were merged");
    }
    if (table.tombstones_applied != options.tombstones_applied) {
      return Wrong("it has applied other range tombstones");
    }
    if (table.entries == 0 || table.entries > bounds.entries - entries) {
      return Wrong("it has more entries than were merged, or a table without any");
    }
    entries += table.entries;
    before = &table;
  }
  return Status::OK();
}

}  // namespace dlsm
