#include "db/tree/guard_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/test/fake_table_testing.h"
#include "db/tree/table_runs.h"
#include "util/random.h"

namespace dlsm {
namespace {

// The first table of the run whose largest key is not before the lookup key; 0: none.
uint64_t Expected(const InternalKeyComparator& comparator, const std::vector<TableRef>& run,
                  const LookupKey& key) {
  for (const TableRef& table : run) {
    if (comparator.Compare(table->largest(), key.internal_key()) >= 0) return table->number();
  }
  return 0;
}

// Fails if a search names another table of a run than the one that has the newest version that is
// visible; keys have equal digests, share prefixes or are shorter than these, and versions of one
// key span tables. A table that is alone in its run need not be compared with the key.
TEST(GuardIndexTest, NamesTheTableOfEachRun) {
  Random random(3);
  for (const Comparator* order : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    const InternalKeyComparator comparator(order);
    for (int round = 0; round < 400; ++round) {
      const std::string common = random.OneIn(2) ? "common-prefix" : "";
      const auto some_key = [&] {
        std::string key = random.OneIn(6) ? "" : common;
        if (random.OneIn(3)) key += "12345678";
        for (uint64_t i = random.Uniform(4); i > 0; --i) {
          key.push_back(static_cast<char>('a' + random.Uniform(3)));
        }
        return key;
      };
      std::vector<TableRef> tables;
      uint64_t number = 1;
      for (uint64_t runs = random.Uniform(4); runs > 0; --runs) {
        std::vector<std::string> bounds(2 * (1 + random.Uniform(6)));
        for (std::string& bound : bounds) bound = some_key();
        std::sort(bounds.begin(), bounds.end(), [&](const std::string& a, const std::string& b) {
          return order->Compare(a, b) < 0;
        });
        SequenceNumber sequence = runs * 100 + 99;
        for (size_t i = 0; i < bounds.size(); i += 2, sequence -= 4) {
          tables.push_back(
              MakeFakeTables({{number++, bounds[i], bounds[i + 1], sequence, sequence - 2}})
                  .front());
        }
      }
      const GuardIndex index(comparator, tables, /*sorted=*/false);
      const std::vector<std::vector<TableRef>> runs = RunsOf(comparator, tables);
      ASSERT_EQ(index.runs(), runs.size());
      for (int lookup = 0; lookup < 40; ++lookup) {
        const LookupKey key(some_key(), random.OneIn(2) ? kSequenceNumberMax : random.Uniform(500));
        const GuardIndex::Search search(index, comparator, key);
        for (size_t run = 0; run < runs.size(); ++run) {
          const GuardIndex::Entry* const entry = search.In(run);
          if (runs[run].size() == 1) {
            ASSERT_EQ(entry->table, runs[run].front().get());
            continue;
          }
          ASSERT_EQ(entry == nullptr ? 0 : entry->table->number(),
                    Expected(comparator, runs[run], key));
        }
      }
    }
  }
}

}  // namespace
}  // namespace dlsm
