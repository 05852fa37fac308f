// Keys that are longer than all that a database usually says about a table.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>

#include "db/test/test_database_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr char kLongKeysName[] = "long keys";
constexpr size_t kKeyBytes = size_t{256} << 10;
constexpr int kLongKeys = 60;

struct LongKeysShape {
  const char* name;
  size_t common_bytes;  // That all keys begin with.
  CompactionStyle style = CompactionStyle::kGuards;
  TableFormat format = TableFormat::kByteAddressable;
  bool reverse = false;
};

void PrintTo(const LongKeysShape& shape, std::ostream* out) { *out << shape.name; }

class LongKeysTest : public testing::TestWithParam<LongKeysShape> {
 protected:
  void SetUp() override {
    options_ = node_.With(TinyOptions(), "shm");
    options_.write_buffer_size = 4 * kKeyBytes;
    options_.max_file_size = 8 * kKeyBytes;
    options_.compaction_style = GetParam().style;
    options_.table_format = GetParam().format;
    if (GetParam().reverse) options_.comparator = ReverseBytewiseComparator();
    db_ = OpenOrDie(options_, kLongKeysName);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kLongKeysName); }

  std::string SomeKey() {
    const std::string common(GetParam().common_bytes, 'k');
    return common + NumberedKey(random_.Uniform(1000)) +
           std::string(kKeyBytes - common.size(), random_.OneIn(2) ? 'k' : '\xff');
  }
  void Fill() {
    for (int i = 0; i < kLongKeys; ++i) {
      const std::string key = SomeKey();
      ASSERT_OK(db_->Put(WriteOptions(), key, model_[key] = std::to_string(i)));
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
    ASSERT_OK(db_->WaitForBackgroundWork());
  }
  void ExpectFilled() {
    for (const auto& [key, value] : model_) ASSERT_EQ(GetOr(db_.get(), key), value);
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
    size_t seen = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++seen) {
      ASSERT_TRUE(model_.contains(iterator->key().ToString()));
    }
    EXPECT_OK(iterator->status());
    EXPECT_EQ(seen, model_.size());
    const std::string begin = options_.comparator == BytewiseComparator() ? "" : "z";
    const std::string end = options_.comparator == BytewiseComparator() ? "z" : "";
    const Range all(begin, end);
    uint64_t bytes = 0;
    db_->GetApproximateSizes(&all, 1, &bytes);
    EXPECT_GE(bytes, model_.size() * kKeyBytes * 9 / 10);
  }

  // Of all calls of that method, requests and replies.
  struct Traffic {
    uint64_t calls = 0;
    uint64_t bytes = 0;
  };
  Traffic TrafficOf(const std::string& method) {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("dlsm.rpc", &text));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name;
      uint64_t calls = 0;
      uint64_t failures = 0;
      uint64_t request_bytes = 0;
      uint64_t reply_bytes = 0;
      words >> name >> calls >> failures >> request_bytes >> reply_bytes;
      if (name == method) return {calls, request_bytes + reply_bytes};
    }
    ADD_FAILURE() << method << " is not in " << text;
    return {};
  }

  TestNode node_;
  Random random_{11};
  Options options_;
  std::unique_ptr<DB> db_;
  std::map<std::string, std::string> model_;
};

// Fails if a manifest, or a request for a merge, has a key for each table: every flush would send
// as much as the database has of them.
TEST_P(LongKeysTest, ListsOfTablesHaveNoMoreOfThemThanOne) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(ExpectFilled());
  uint64_t calls = 0;
  for (const std::string method : {"put_manifest", "merge"}) {
    const Traffic traffic = TrafficOf(method);
    calls += traffic.calls;
    const uint64_t messages = method == "merge" ? 2 : 1;  // There replies have keys, too.
    const uint64_t each = 20'000 + messages * GetParam().common_bytes;
    EXPECT_LE(traffic.bytes, traffic.calls * each) << method << ": " << traffic.calls << " calls";
  }
  EXPECT_GE(calls, 20u);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_NO_FATAL_FAILURE(ExpectFilled());
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, kLongKeysName);
  ASSERT_NO_FATAL_FAILURE(ExpectFilled());
}

std::string LongKeysShapeName(const testing::TestParamInfo<LongKeysShape>& info) {
  return info.param.name;
}

constexpr size_t kMostBytes = kKeyBytes - 100;

INSTANTIATE_TEST_SUITE_P(
    EveryShape, LongKeysTest,
    testing::Values(LongKeysShape{"DifferEarly", 0}, LongKeysShape{"DifferLate", kMostBytes},
                    LongKeysShape{"DifferEarlyLeveled", 0, CompactionStyle::kLeveled},
                    LongKeysShape{"DifferLateReverseLeveledBlocks", kMostBytes,
                                  CompactionStyle::kLeveled, TableFormat::kBlockBased,
                                  /*reverse=*/true},
                    LongKeysShape{"DifferEarlyReverse", 0, CompactionStyle::kGuards,
                                  TableFormat::kByteAddressable, /*reverse=*/true}),
    LongKeysShapeName);

}  // namespace
}  // namespace dlsm
