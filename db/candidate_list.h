// Asks the filters of many tables for one key: the lines of all of them are on their way from
// memory before the first is looked at, so they cost about as much as one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "db/guard_index.h"
#include "port/cpu.h"
#include "table/internal_key.h"
#include "util/bloom_filter.h"
#include "util/hash.h"

namespace dlsm {

// Of one lookup. Calls visit(const Table&, bool filtered) for the tables that may hold the key, in
// the order in which they were added, until it returns false. `filtered`: the table's filter has
// been asked already.
template <typename Visit>
class CandidateList {
 public:
  CandidateList(const InternalKeyComparator& comparator, const LookupKey& key, Visit& visit)
      : comparator_(comparator), key_(key), visit_(visit), bits_(Hash64(key.user_key())) {}

  // All runs of a guard, newest first. False if visit() has returned false.
  bool Add(const GuardIndex& guard) {
    const GuardIndex::Search search(guard, comparator_, key_);
    for (size_t run = 0; run < guard.runs(); ++run) {
      if (size_ == kAtOnce && !Ask()) return false;
      const GuardIndex::Entry* const entry = search.In(run);
      if (entry == nullptr) continue;
      Waiting& added = waiting_[size_++];
      added.entry = entry;
      added.line = nullptr;
      if (entry->filter.empty()) continue;
      added.line = entry->filter.LineOf(bits_.hash());
      port::PrefetchRead(added.line);
    }
    return true;
  }

  // What has been added since; to be called at the end.
  bool Ask() {
    const size_t size = size_;
    size_ = 0;
    for (size_t i = 0; i < size; ++i) {
      const Waiting& next = waiting_[i];
      if (next.line != nullptr ? !bits_.MayMatch(next.line, next.entry->filter.probes)
                               : !InRange(*next.entry->table)) {
        excluded_ += next.line != nullptr ? 1 : 0;
      } else if (!visit_(*next.entry->table, next.line != nullptr)) {
        return false;
      }
    }
    return true;
  }

  uint64_t hash() const { return bits_.hash(); }
  // How many tables were passed over because of their filters.
  uint64_t excluded() const { return excluded_; }

 private:
  struct Waiting {
    const GuardIndex::Entry* entry;
    const char* line;  // Null: no filter.
  };
  static constexpr size_t kAtOnce = 64;  // A processor has fewer misses under way.

  bool InRange(const Table& table) const {
    const Slice user_key = key_.user_key();
    return comparator_.CompareUserKeys(user_key, ExtractUserKey(table.smallest())) >= 0 &&
           comparator_.CompareUserKeys(user_key, ExtractUserKey(table.largest())) <= 0;
  }

  const InternalKeyComparator& comparator_;
  const LookupKey& key_;
  Visit& visit_;
  BloomBits bits_;
  uint64_t excluded_ = 0;
  size_t size_ = 0;
  std::array<Waiting, kAtOnce> waiting_;
};

}  // namespace dlsm
