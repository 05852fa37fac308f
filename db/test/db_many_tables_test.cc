// Point lookups where more tables overlap than are asked at a time.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "db/test/test_database_testing.h"

namespace dlsm {
namespace {

constexpr int kTables = 80;  // More than a single get asks at once, and many more than MultiGet.
constexpr char kManyTablesName[] = "many tables";

std::string KeyOfTable(int table) { return "key" + std::to_string(table); }

class ManyTablesTest : public testing::TestWithParam<bool> {};

// Fails if a table is passed over, or an older one is believed: each key is in one table, but for
// "a" and "z", which are in all of them.
TEST_P(ManyTablesTest, GetsFindWhatIsBehindThem) {
  Options options = TinyOptions();
  if (!GetParam()) options.filter_policy = Options::kNoFilter;
  options.level0_file_num_compaction_trigger = 1000;  // No merges: flushes alone.
  options.level0_stop_writes_trigger = 2000;
  {
    const std::unique_ptr<DB> db = OpenOrDie(options, kManyTablesName);
    std::vector<std::string> keys;
    for (int table = 0; table < kTables; ++table) {
      keys.push_back(KeyOfTable(table));
      for (const std::string& key : {std::string("a"), keys.back(), std::string("z")}) {
        ASSERT_OK(db->Put(WriteOptions(), key, std::to_string(table)));
      }
      ASSERT_OK(db->Flush(FlushOptions()));
    }
    ASSERT_GE(NumberProperty(db.get(), "dlsm.num-files-at-level0"), uint64_t{kTables});

    std::vector<Slice> asked(keys.begin(), keys.end());
    asked.insert(asked.end(), {"a", "z", "key none"});
    std::vector<std::string> values;
    const std::vector<Status> statuses = db->MultiGet(ReadOptions(), asked, &values);
    std::string value;
    for (int i = 0; i < kTables + 2; ++i) {
      const auto at = static_cast<size_t>(i);
      const std::string expected = std::to_string(i < kTables ? i : kTables - 1);
      EXPECT_OK(statuses[at]) << asked[at].ToString();
      EXPECT_EQ(values[at], expected) << asked[at].ToString();
      EXPECT_OK(db->Get(ReadOptions(), asked[at], &value)) << asked[at].ToString();
      EXPECT_EQ(value, expected) << asked[at].ToString();
    }
    EXPECT_TRUE(statuses.back().IsNotFound()) << statuses.back().ToString();
    EXPECT_TRUE(db->Get(ReadOptions(), "key none", &value).IsNotFound());
  }
  EXPECT_OK(DestroyDB(kManyTablesName, options));
}

std::string ManyTablesCase(const testing::TestParamInfo<bool>& info) {
  return info.param ? "WithFilters" : "WithoutFilters";
}

INSTANTIATE_TEST_SUITE_P(Tables, ManyTablesTest, testing::Bool(), ManyTablesCase);

}  // namespace
}  // namespace dlsm
