#include "db/tree/level.h"

#include <algorithm>
#include <string>

#include "util/status_macros.h"

namespace dlsm {
namespace {

bool Contains(const std::vector<uint64_t>& sorted, uint64_t number) {
  return std::binary_search(sorted.begin(), sorted.end(), number);
}

// *next: where the next one goes if tables lie newest first.
void AddTo(const InternalKeyComparator& comparator, const TableRef& table, Guard* guard,
           size_t* next) {
  auto at = guard->tables.begin() + static_cast<ptrdiff_t>(*next);
  if (guard->order == Guard::Order::kByKey) {
    at = std::lower_bound(guard->tables.begin(), guard->tables.end(), table,
                          [&comparator](const TableRef& a, const TableRef& b) {
                            return comparator.Compare(a->smallest(), b->smallest()) < 0;
                          });
  } else {
    ++*next;
  }
  guard->tables.insert(at, table);
  guard->index = nullptr;
}

// Whether `front` may lie in front of `back` where tables overlap: no key in both has an older
// version in front. Tables of one memtable may share one user key, at the seam.
bool MayPrecede(const InternalKeyComparator& comparator, const Table& front, const Table& back) {
  return front.meta().sequence_min > back.meta().sequence_max ||
         comparator.Compare(front.largest(), back.smallest()) < 0 ||
         comparator.CompareUserKeys(ExtractUserKey(back.largest()),
                                    ExtractUserKey(front.smallest())) < 0;
}

std::string Described(const Table& table) {
  return "table " + std::to_string(table.number()) + " of sequence numbers " +
         std::to_string(table.meta().sequence_min) + " to " +
         std::to_string(table.meta().sequence_max);
}

Status CheckNewestFirst(const InternalKeyComparator& comparator, const Guard& guard) {
  for (auto front = guard.tables.begin(); front != guard.tables.end(); ++front) {
    for (auto back = front + 1; back != guard.tables.end(); ++back) {
      if (!MayPrecede(comparator, **front, **back)) {
        return Status::Corruption("overlapping tables do not lie newest first",
                                  Described(**front) + " in front of " + Described(**back));
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

// Here the sentinel is number 0, and guards()[i] number i + 1, as GuardsUpTo() counts.
Level Level::With(const InternalKeyComparator& comparator, const std::vector<uint64_t>& removed,
                  const std::vector<TableRef>& added, bool in_place) const {
  Level level = *this;
  std::vector<size_t> next(level.guards_.size() + 1, 0);  // Where each guard's next table goes.
  for (size_t i = 0; i < next.size(); ++i) {
    Guard& guard = i == 0 ? level.sentinel_ : level.guards_[i - 1];
    std::vector<TableRef>& tables = guard.tables;
    const auto gone = [&removed](const TableRef& table) {
      return Contains(removed, table->number());
    };
    const auto first_gone = std::find_if(tables.begin(), tables.end(), gone);
    if (in_place && first_gone != tables.end()) {
      next[i] = static_cast<size_t>(first_gone - tables.begin());
    }
    if (first_gone == tables.end()) continue;
    tables.erase(std::remove_if(first_gone, tables.end(), gone), tables.end());
    guard.index = nullptr;
  }
  for (const TableRef& table : added) {
    const size_t i = level.GuardsUpTo(comparator, ExtractUserKey(table->smallest()));
    AddTo(comparator, table, i == 0 ? &level.sentinel_ : &level.guards_[i - 1], &next[i]);
  }
  return level;
}

void Level::ReplaceReaders(const std::unordered_map<uint64_t, TableRef>& tables) {
  const auto replace = [&tables](Guard* guard) {
    for (TableRef& table : guard->tables) {
      const auto found = tables.find(table->number());
      if (found == tables.end()) continue;
      table = found->second;
      guard->index = nullptr;
    }
  };
  replace(&sentinel_);
  for (Guard& guard : guards_) replace(&guard);
}

bool Level::HasGuard(const InternalKeyComparator& comparator, const Slice& key) const {
  const size_t index = GuardsUpTo(comparator, key);
  return index > 0 && comparator.CompareUserKeys(guards_[index - 1].key, key) == 0;
}

bool Level::DividesTable(const InternalKeyComparator& comparator, const Slice& key) const {
  const Guard& guard = GuardFor(comparator, key);
  return std::any_of(guard.tables.begin(), guard.tables.end(), [&](const TableRef& table) {
    return comparator.CompareUserKeys(ExtractUserKey(table->smallest()), key) < 0 &&
           comparator.CompareUserKeys(ExtractUserKey(table->largest()), key) >= 0;
  });
}

Level Level::WithGuard(const InternalKeyComparator& comparator, const Slice& key) const {
  Level level = *this;
  if (HasGuard(comparator, key)) return level;
  const size_t index = GuardsUpTo(comparator, key);
  Guard added;
  added.key = key.ToString();
  Guard& divided = index == 0 ? level.sentinel_ : level.guards_[index - 1];
  added.order = divided.order;
  const auto behind = std::stable_partition(
      divided.tables.begin(), divided.tables.end(), [&](const TableRef& table) {
        return comparator.CompareUserKeys(ExtractUserKey(table->smallest()), key) < 0;
      });
  added.tables.assign(behind, divided.tables.end());
  divided.tables.erase(behind, divided.tables.end());
  divided.index = nullptr;
  level.guards_.insert(level.guards_.begin() + static_cast<ptrdiff_t>(index), std::move(added));
  level.directory_.Clear();
  return level;
}

Level Level::Flattened(Guard::Order order) const {
  Level level(order);
  level.sentinel_.tables = AllTables();
  return level;
}

std::vector<const Guard*> Level::AllGuards() const {
  std::vector<const Guard*> all = {&sentinel_};
  for (const Guard& guard : guards_) all.push_back(&guard);
  return all;
}

size_t Level::GuardsUpTo(const InternalKeyComparator& comparator, const Slice& user_key) const {
  return directory_.CountUpTo(comparator, user_key, guards_.size(),
                              [this](size_t i) { return Slice(guards_[i].key); });
}

void Level::Index(const InternalKeyComparator& comparator) {
  const auto index = [&comparator](Guard* guard) {
    if (guard->index != nullptr) return;
    guard->index = std::make_shared<const GuardIndex>(comparator, guard->tables,
                                                      guard->order == Guard::Order::kByKey);
  };
  index(&sentinel_);
  for (Guard& guard : guards_) index(&guard);
  empty_ = table_count() == 0;
  if (directory_.size() == guards_.size()) return;
  directory_.Build(comparator, guards_.size(), [this](size_t i) { return Slice(guards_[i].key); });
}

const Guard& Level::GuardFor(const InternalKeyComparator& comparator, const Slice& user_key) const {
  const size_t index = GuardsUpTo(comparator, user_key);
  return index == 0 ? sentinel_ : guards_[index - 1];
}

std::vector<std::vector<TableRef>> RunsOf(const Guard& guard) {
  std::vector<std::vector<TableRef>> runs;
  uint32_t begin = 0;
  for (const uint32_t end : guard.index->run_ends()) {
    runs.emplace_back(guard.tables.begin() + begin, guard.tables.begin() + end);
    begin = end;
  }
  return runs;
}

bool Overlaps(const InternalKeyComparator& comparator, const Table& table, const Slice* begin,
              const Slice* end) {
  const bool is_before =
      begin != nullptr && comparator.CompareUserKeys(ExtractUserKey(table.largest()), *begin) < 0;
  const bool is_behind =
      end != nullptr && comparator.CompareUserKeys(ExtractUserKey(table.smallest()), *end) > 0;
  return !is_before && !is_behind;
}

std::vector<TableRef> Level::Overlapping(const InternalKeyComparator& comparator,
                                         const Slice* begin, const Slice* end) const {
  std::vector<TableRef> overlapping;
  const auto collect = [&](const Guard& guard) {
    for (const TableRef& table : guard.tables) {
      if (Overlaps(comparator, *table, begin, end)) overlapping.push_back(table);
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
