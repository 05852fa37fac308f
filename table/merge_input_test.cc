#include "table/merge_input.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "table/table_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

// User keys of which many have the first eight bytes behind the common prefix in common, and whose
// versions lie in several runs.
std::string SomeDecimalKey(Random* random) {
  const uint64_t group = random->Uniform(4);
  if (group == 0) return fmt::format("common{:03}", random->Uniform(500));
  return fmt::format("common{:08}{:03}", group, random->Uniform(200));
}

class MergeInputTest : public testing::TestWithParam<const Comparator*> {};

INSTANTIATE_TEST_SUITE_P(Orders, MergeInputTest,
                         testing::Values(BytewiseComparator(), ReverseBytewiseComparator()));

// As many runs as there may be leaves and more or fewer, of different lengths, some of them empty:
// the records of all come in order, from wherever the merge begins.
TEST_P(MergeInputTest, WalksAllRunsInOrder) {
  Random random(11);
  for (size_t count = 0; count <= 17; ++count) {
    TestMemory memory;
    MemoryQueuePairs queue_pairs(&memory, /*direct=*/count % 2 == 0);
    MergeOptions options;
    options.table.comparator = GetParam();
    std::vector<TestTable> tables(count);
    std::vector<TableRun> runs;
    TestRecords all;
    SequenceNumber sequence = 0;
    for (TestTable& table : tables) {
      TestRecords records(1 + random.Uniform(300));
      for (auto& [key, value] : records) {
        key = MakeInternalKey(SomeDecimalKey(&random), ++sequence);
        value = std::to_string(sequence);
      }
      SortRecords(GetParam(), &records);
      BuildTestTable(options.table, records, &memory, &queue_pairs, &table);
      all.insert(all.end(), records.begin(), records.end());
      runs.push_back({table.reader.get()});
      if (random.OneIn(4)) runs.emplace_back();
    }
    SortRecords(GetParam(), &all);
    options.has_begin = count % 3 == 0 && !all.empty();
    size_t next = options.has_begin ? all.size() / 3 : 0;
    if (options.has_begin) {
      options.begin = ExtractUserKey(all[next].first).ToString();
      while (next > 0 && ExtractUserKey(all[next - 1].first) == Slice(options.begin)) --next;
    }
    MergeInput input(options, runs, TableReadOptions(), &queue_pairs);
    for (; input.Valid(); input.Next()) {
      ASSERT_LT(next, all.size());
      ASSERT_EQ(input.record().key().ToString(), all[next].first) << count << " runs";
      ASSERT_EQ(input.record().value().ToString(), all[next].second);
      ++next;
    }
    EXPECT_OK(input.status());
    EXPECT_EQ(next, all.size());
  }
}

}  // namespace
}  // namespace dlsm
