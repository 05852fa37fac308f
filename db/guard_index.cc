#include "db/guard_index.h"

#include <algorithm>
#include <cstring>

#include "db/table_runs.h"
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
  for (const TableRef& table : tables) {
    entries_.push_back(Entry{table.get(), BloomLines(table->reader().bloom_filter())});
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

GuardIndex::Search::Search(const GuardIndex& index, const InternalKeyComparator& comparator,
                           const LookupKey& key)
    : index_(index), comparator_(comparator), key_(key) {
  if (index.digests_.empty()) return;
  const Slice user_key = key.user_key();
  const Slice prefix = index.prefix_;
  order_ = std::memcmp(user_key.data(), prefix.data(), std::min(user_key.size(), prefix.size()));
  if (order_ == 0 && user_key.size() < prefix.size()) order_ = -1;
  digest_ = Digest(After(user_key, prefix.size()));
}

// The first table whose largest key is at or behind the lookup key: versions of one user key may
// span two tables, and this is the one that has the newest visible version.
const GuardIndex::Entry* GuardIndex::Search::InLongRun(uint32_t begin, uint32_t end) const {
  uint32_t low = begin;
  uint32_t high = end;  // The table is in [low, high].
  if (!index_.digests_.empty()) {
    if (order_ > 0) return nullptr;
    if (order_ < 0) return &index_.entries_[begin];
    const uint64_t* const digests = index_.digests_.data();
    low = begin + static_cast<uint32_t>(CountBelow(digests + begin, end - begin, digest_));
    high = low;
    while (high < end && digests[high] == digest_) ++high;
  }
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (comparator_.Compare(index_.entries_[middle].table->largest(), key_.internal_key()) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == end ? nullptr : &index_.entries_[low];
}

uint64_t GuardIndex::resident_bytes() const {
  return sizeof(*this) + run_ends_.capacity() * sizeof(uint32_t) +
         entries_.capacity() * sizeof(Entry) + digests_.capacity() * sizeof(uint64_t);
}

}  // namespace dlsm
