#include "db/tree/guard_index.h"

#include "db/tree/table_runs.h"
#include "table/key_prefix.h"

namespace dlsm {

GuardIndex::GuardIndex(const InternalKeyComparator& comparator, const std::vector<TableRef>& tables,
                       bool sorted) {
  const TableRef* const begin = tables.data();
  const TableRef* const end = begin + tables.size();
  for (const TableRef* first = begin; first != end;) {
    first = sorted ? end : EndOfRun(comparator, first, end);
    run_ends_.push_back(static_cast<uint32_t>(first - begin));
  }
  entries_.reserve(tables.size());
  readers_.reserve(tables.size());
  for (const TableRef& table : tables) {
    entries_.push_back(Entry{table.get(), BloomLines(table->reader().bloom_filter())});
    readers_.push_back(&table->reader());
  }
  if (!comparator.bytewise() || run_ends_.size() == tables.size()) return;
  Slice common = ExtractUserKey(tables.front()->largest());
  for (const TableRef& table : tables) {
    common = Slice(common.data(), CommonPrefix(common, ExtractUserKey(table->largest())));
  }
  prefix_ = common.ToString();
  digests_.reserve(tables.size());
  for (const TableRef& table : tables) {
    digests_.push_back(Digest(After(ExtractUserKey(table->largest()), prefix_.size())));
  }
}

// Versions of one user key may span two tables; the first that does not end before the lookup key
// has the newest visible one.
const GuardIndex::Entry* GuardIndex::Search::InLongRun(size_t run) const {
  const RunView view = index_.Run(run);
  const size_t at = view.FirstNotBefore(comparator_, key_.internal_key(), target_);
  return at == view.tables.size() ? nullptr : &index_.entries_[index_.BeginOf(run) + at];
}

uint64_t GuardIndex::resident_bytes() const {
  constexpr size_t kReaderBytes = sizeof(void*);  // An entry's, in readers_.
  return sizeof(*this) + run_ends_.capacity() * sizeof(uint32_t) +
         entries_.capacity() * (sizeof(Entry) + kReaderBytes) +
         digests_.capacity() * sizeof(uint64_t);
}

}  // namespace dlsm
