// Asks the filters of many tables for one key: the lines of all of them are on their way from
// memory before the first is looked at, so they cost about as much as one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "db/tree/guard_index.h"
#include "port/cpu.h"
#include "table/internal_key.h"
#include "util/bloom_filter.h"

namespace dlsm {

// Of one lookup. Calls visit(const Table&, bool filtered) for the tables that may hold the key, in
// the order in which they were added, until it returns false. `filtered`: the table's filter has
// been asked already. A visit(const Table&, bool filtered, TableProbe*) gets the probe to go on
// with: if `approaches`, while the filters' lines were on their way, few tables' indexes have been
// searched already (TableReader::Approach()). That pays if the key is found in the end.
//
// kAtOnce: how many tables' lines are under way before the first is looked at. A processor has no
// more misses under way than the default; who takes many keys side by side needs fewer of each.
template <typename Visit, size_t kAtOnce = 64>
class CandidateList {
 public:
  CandidateList(const InternalKeyComparator& comparator, const LookupKey& key, Visit& visit,
                bool approaches = false)
      : comparator_(comparator),
        key_(key),
        visit_(visit),
        approaches_(approaches),
        bits_(key.hash()) {}

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
    std::array<TableProbe, kTakesProbe ? kApproachedAtOnce : 0> probes;
    if (approaches_ && size <= probes.size()) {
      for (size_t i = 0; i < size; ++i) {
        waiting_[i].entry->table->reader().Approach(key_, &probes[i]);
      }
    }
    for (size_t i = 0; i < size; ++i) {
      const Waiting& next = waiting_[i];
      if (next.line != nullptr ? !bits_.MayMatch(next.line, next.entry->filter.probes)
                               : !InRange(*next.entry->table)) {
        excluded_ += next.line != nullptr ? 1 : 0;
      } else if (!Call(*next.entry->table, next.line != nullptr,
                       size <= probes.size() ? &probes[i] : nullptr)) {
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
  static constexpr size_t kApproachedAtOnce = 2;  // Of many, all but one are searched in vain.
  static constexpr bool kTakesProbe = std::is_invocable_v<Visit, const Table&, bool, TableProbe*>;

  // `approached` may be null.
  bool Call(const Table& table, bool filtered, TableProbe* approached) const {
    if constexpr (kTakesProbe) {
      TableProbe fresh;
      return visit_(table, filtered, approached != nullptr ? approached : &fresh);
    } else {
      static_cast<void>(approached);
      return visit_(table, filtered);
    }
  }

  bool InRange(const Table& table) const {
    const Slice user_key = key_.user_key();
    return comparator_.CompareUserKeys(user_key, ExtractUserKey(table.smallest())) >= 0 &&
           comparator_.CompareUserKeys(user_key, ExtractUserKey(table.largest())) <= 0;
  }

  const InternalKeyComparator& comparator_;
  const LookupKey& key_;
  Visit& visit_;
  const bool approaches_;
  BloomBits bits_;
  uint64_t excluded_ = 0;
  size_t size_ = 0;
  std::array<Waiting, kAtOnce> waiting_;
};

}  // namespace dlsm
