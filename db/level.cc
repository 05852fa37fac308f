#include "db/level.h"

#include <algorithm>

#include "util/status_macros.h"

namespace dlsm {
namespace {

bool Contains(const std::vector<uint64_t>& sorted, uint64_t number) {
  return std::binary_search(sorted.begin(), sorted.end(), number);
}

void AddTo(const InternalKeyComparator& comparator, const TableRef& table, Guard* guard,
           size_t* newer) {
  auto at = guard->tables.begin() + static_cast<ptrdiff_t>(*newer);
  if (guard->order == Guard::Order::kByKey) {
    at = std::lower_bound(guard->tables.begin(), guard->tables.end(), table,
                          [&comparator](const TableRef& a, const TableRef& b) {
                            return comparator.Compare(a->smallest(), b->smallest()) < 0;
                          });
  } else {
    ++*newer;
  }
  guard->tables.insert(at, table);
}

// Whether `front` may lie in front of `back` where tables overlap: no key in both has an older
// version in front. Tables of one memtable may share one user key, at the seam.
bool MayPrecede(const InternalKeyComparator& comparator, const Table& front, const Table& back) {
  return front.meta().sequence_min > back.meta().sequence_max ||
         comparator.Compare(front.largest(), back.smallest()) < 0 ||
         comparator.CompareUserKeys(ExtractUserKey(back.largest()),
                                    ExtractUserKey(front.smallest())) < 0;
}

Status CheckNewestFirst(const InternalKeyComparator& comparator, const Guard& guard) {
  for (auto front = guard.tables.begin(); front != guard.tables.end(); ++front) {
    for (auto back = front + 1; back != guard.tables.end(); ++back) {
      if (!MayPrecede(comparator, **front, **back)) {
        return Status::Corruption("overlapping tables do not lie newest first");
      }
    }
  }
  return Status::OK();
}

Status CheckGuard(const InternalKeyComparator& comparator, const Guard& guard, const Slice* lower,
                  const Slice* upper) {
  const Table* before = nullptr;
  for (const TableRef& table : guard.tables) {
    const Slice smallest = table->smallest();
    const Slice largest = table->largest();
    if (comparator.Compare(smallest, largest) > 0) {
      return Status::Corruption("a table's smallest key is behind its largest");
    }
    if (lower != nullptr && comparator.CompareUserKeys(ExtractUserKey(smallest), *lower) < 0) {
      return Status::Corruption("a table starts before its guard");
    }
    if (upper != nullptr && comparator.CompareUserKeys(ExtractUserKey(largest), *upper) >= 0) {
      return Status::Corruption("a table reaches into the next guard");
    }
    if (before != nullptr && guard.order == Guard::Order::kByKey &&
        comparator.Compare(before->largest(), smallest) >= 0) {
      return Status::Corruption("tables of a sorted guard overlap");
    }
    before = table.get();
  }
  return guard.order == Guard::Order::kByKey ? Status::OK() : CheckNewestFirst(comparator, guard);
}

}  // namespace

Level Level::With(const InternalKeyComparator& comparator, const std::vector<uint64_t>& removed,
                  const std::vector<TableRef>& added) const {
  Level level = *this;
  const auto gone = [&removed](const TableRef& table) {
    return Contains(removed, table->number());
  };
  std::erase_if(level.sentinel_.tables, gone);
  for (Guard& guard : level.guards_) std::erase_if(guard.tables, gone);
  std::vector<size_t> newer(level.guards_.size() + 1, 0);  // Added to each guard so far.
  for (const TableRef& table : added) {
    Guard* guard = level.MutableGuardFor(comparator, ExtractUserKey(table->smallest()));
    const size_t index = guard == &level.sentinel_
                             ? level.guards_.size()
                             : static_cast<size_t>(guard - level.guards_.data());
    AddTo(comparator, table, guard, &newer[index]);
  }
  return level;
}

const Guard& Level::GuardFor(const InternalKeyComparator& comparator, const Slice& user_key) const {
  const auto behind = std::upper_bound(guards_.begin(), guards_.end(), user_key,
                                       [&comparator](const Slice& key, const Guard& guard) {
                                         return comparator.CompareUserKeys(key, guard.key) < 0;
                                       });
  return behind == guards_.begin() ? sentinel_ : *(behind - 1);
}

Guard* Level::MutableGuardFor(const InternalKeyComparator& comparator, const Slice& user_key) {
  return const_cast<Guard*>(&GuardFor(comparator, user_key));
}

// The first table whose largest key is at or behind the lookup key: versions of one user key may
// span two tables, and this is the one that has the newest visible version.
const Table* Level::FindByKey(const InternalKeyComparator& comparator, const Guard& guard,
                              const LookupKey& key) {
  const auto at = std::lower_bound(guard.tables.begin(), guard.tables.end(), key.internal_key(),
                                   [&comparator](const TableRef& table, const Slice& target) {
                                     return comparator.Compare(table->largest(), target) < 0;
                                   });
  if (at == guard.tables.end()) return nullptr;
  const bool starts_behind =
      comparator.CompareUserKeys(key.user_key(), ExtractUserKey((*at)->smallest())) < 0;
  return starts_behind ? nullptr : at->get();
}

std::vector<TableRef> Level::Overlapping(const InternalKeyComparator& comparator,
                                         const Slice* begin, const Slice* end) const {
  std::vector<TableRef> overlapping;
  const auto collect = [&](const Guard& guard) {
    for (const TableRef& table : guard.tables) {
      if (begin != nullptr &&
          comparator.CompareUserKeys(ExtractUserKey(table->largest()), *begin) < 0) {
        continue;
      }
      if (end != nullptr &&
          comparator.CompareUserKeys(ExtractUserKey(table->smallest()), *end) > 0) {
        continue;
      }
      overlapping.push_back(table);
    }
  };
  collect(sentinel_);
  for (const Guard& guard : guards_) collect(guard);
  return overlapping;
}

size_t Level::table_count() const {
  size_t count = sentinel_.tables.size();
  for (const Guard& guard : guards_) count += guard.tables.size();
  return count;
}

uint64_t Level::bytes() const {
  uint64_t total = 0;
  for (const TableRef& table : AllTables()) total += table->meta().image.bytes;
  return total;
}

Status Level::CheckInvariants(const InternalKeyComparator& comparator) const {
  const Slice first = guards_.empty() ? Slice() : Slice(guards_.front().key);
  DLSM_RETURN_IF_ERROR(
      CheckGuard(comparator, sentinel_, nullptr, guards_.empty() ? nullptr : &first));
  for (size_t i = 0; i < guards_.size(); ++i) {
    const Slice lower = guards_[i].key;
    const bool last = i + 1 == guards_.size();
    const Slice upper = last ? Slice() : Slice(guards_[i + 1].key);
    if (!last && comparator.CompareUserKeys(lower, upper) >= 0) {
      return Status::Corruption("guards do not ascend");
    }
    DLSM_RETURN_IF_ERROR(CheckGuard(comparator, guards_[i], &lower, last ? nullptr : &upper));
  }
  return Status::OK();
}

}  // namespace dlsm
