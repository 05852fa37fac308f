#include "db/tree/table_runs.h"

#include <algorithm>

namespace dlsm {
namespace {

bool Continues(const InternalKeyComparator& comparator, const TableRef& before,
               const TableRef& table) {
  return comparator.Compare(before->largest(), table->smallest()) < 0;
}

}  // namespace

const TableRef* EndOfRun(const InternalKeyComparator& comparator, const TableRef* first,
                         const TableRef* end) {
  const TableRef* last = first + 1;
  while (last != end && Continues(comparator, *(last - 1), *last)) ++last;
  return last;
}

std::vector<std::vector<TableRef>> RunsOf(const InternalKeyComparator& comparator,
                                          const std::vector<TableRef>& tables) {
  std::vector<std::vector<TableRef>> runs;
  const TableRef* const end = tables.data() + tables.size();
  for (const TableRef* first = tables.data(); first != end;) {
    const TableRef* const last = EndOfRun(comparator, first, end);
    runs.emplace_back(first, last);
    first = last;
  }
  return runs;
}

size_t CountRuns(const InternalKeyComparator& comparator, const std::vector<TableRef>& tables) {
  size_t count = 0;
  const TableRef* const end = tables.data() + tables.size();
  for (const TableRef* first = tables.data(); first != end; ++count) {
    first = EndOfRun(comparator, first, end);
  }
  return count;
}

bool VersionsSpanTables(const InternalKeyComparator& comparator,
                        const std::vector<TableRef>& tables) {
  const auto shares = [&comparator](const TableRef& newer, const TableRef& older) {
    return comparator.user_comparator()->Compare(ExtractUserKey(newer->largest()),
                                                 ExtractUserKey(older->smallest())) == 0;
  };
  return std::adjacent_find(tables.begin(), tables.end(), shares) != tables.end();
}

bool AreDisjoint(const InternalKeyComparator& comparator, std::vector<TableRef> tables) {
  std::sort(tables.begin(), tables.end(), [&](const TableRef& a, const TableRef& b) {
    return comparator.Compare(a->smallest(), b->smallest()) < 0;
  });
  return CountRuns(comparator, tables) <= 1;
}

uint64_t BytesOf(const std::vector<TableRef>& tables) {
  uint64_t total = 0;
  for (const TableRef& table : tables) total += table->meta().image.bytes;
  return total;
}

}  // namespace dlsm
