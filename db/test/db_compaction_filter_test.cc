// Options::compaction_filter, on either side.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "dLSM/compaction_filter.h"
#include "dLSM/db.h"
#include "db/test/test_database_testing.h"
#include "util/coding.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

uint64_t NowMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

std::string Expiring(uint64_t at, const std::string& rest) {
  std::string value = "h";
  PutFixed64(&value, at);
  return value + rest;
}

// Removes values that begin with "drop", and makes "new" of those that begin with "old".
class WordFilter : public CompactionFilter {
 public:
  const char* Name() const override { return "test.Words"; }
  bool Filter(int level, const Slice& /*key*/, const Slice& value, std::string* new_value,
              bool* value_changed) const override {
    EXPECT_GT(level, 0);
    ++asked_;
    if (value.starts_with("drop")) return true;
    if (value.starts_with("old")) {
      *new_value = "new";
      *value_changed = true;
    }
    return false;
  }
  uint64_t asked() const { return asked_; }

 private:
  mutable std::atomic<uint64_t> asked_{0};
};

class UnknownFilter final : public WordFilter {
 public:
  const char* Name() const override { return "test.NobodyKnows"; }
};

class CompactionFilterTest : public testing::TestWithParam<bool> {  // Whether memory nodes merge.
 protected:
  void Open(std::shared_ptr<const CompactionFilter> filter, TableFormat format) {
    options_ = node_.With(TinyOptions(), "shm");
    options_.compaction_place =
        GetParam() ? CompactionPlace::kMemoryNode : CompactionPlace::kComputeNode;
    options_.table_format = format;
    options_.statistics = std::make_shared<Statistics>();
    options_.compaction_filter = std::move(filter);
    db_ = OpenOrDie(options_, "filtered");
  }
  void TearDown() override {
    if (db_ != nullptr) CloseAndDestroy(&db_, options_, "filtered");
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_OK(db_->Put(WriteOptions(), key, value));
  }
  void Compact() { ASSERT_OK(db_->CompactRange(nullptr, nullptr)); }
  std::string Get(const std::string& key, const Snapshot* snapshot = nullptr) {
    ReadOptions options;
    options.snapshot = snapshot;
    std::string value;
    const Status status = db_->Get(options, key, &value);
    return status.ok() ? value : (status.IsNotFound() ? "-" : status.ToString());
  }
  uint64_t Count(Ticker ticker) { return options_.statistics->Get(ticker); }
  std::string Entries() {
    std::string entries;
    EXPECT_TRUE(db_->GetProperty("dlsm.entries", &entries));
    return entries;
  }

  const TestNode node_;
  Options options_;
  std::unique_ptr<DB> db_;
};

TEST_P(CompactionFilterTest, DropsWhatHasExpired) {
  Open(NewExpiryFilter("k", "h"), TableFormat::kByteAddressable);
  const std::string past = Expiring(NowMs() - 1, "gone");
  const std::string future = Expiring(NowMs() + 1'000'000'000, "stays");
  Put("k1", past);
  Put("k2", future);
  Put("k3", Expiring(0, "stays"));
  Put("k4", "short");
  Put("other", past);
  ASSERT_OK(db_->Flush(FlushOptions()));
  EXPECT_EQ(Get("k1"), past) << "flushes do not ask";
  Compact();
  EXPECT_EQ(Get("k1"), "-");
  EXPECT_EQ(Get("k2"), future);
  EXPECT_EQ(Get("k4"), "short");
  EXPECT_EQ(Get("other"), past);
  EXPECT_EQ(Entries(), "4");
  EXPECT_EQ(Count(Ticker::kMergeFiltered), 1U);
  EXPECT_EQ(Count(Ticker::kMergesRemote) > 0, GetParam());
}

TEST_P(CompactionFilterTest, RemovesAndChanges) {
  // A factory for the memory node, which is in this process.
  static const bool registered =
      RegisterCompactionFilter("test.Words", [](const Slice&,
                                                std::shared_ptr<const CompactionFilter>* filter) {
        *filter = std::make_shared<WordFilter>();
        return Status::OK();
      }).ok();
  ASSERT_TRUE(registered);
  for (const TableFormat format : {TableFormat::kByteAddressable, TableFormat::kBlockBased}) {
    Open(std::make_shared<WordFilter>(), format);
    Put("a", "old value, which is longer than the new one");
    Put("b", "first");
    Compact();
    Put("b", "drop this");
    Put("c", "stays");
    Compact();
    EXPECT_EQ(Get("a"), "new");
    EXPECT_EQ(Get("b"), "-") << "nor does what it hid come back";
    EXPECT_EQ(Get("c"), "stays");
    Put("d", "drop this, too");
    const Snapshot* const snapshot = db_->GetSnapshot();
    Compact();
    EXPECT_EQ(Get("d", snapshot), "drop this, too");
    db_->ReleaseSnapshot(snapshot);
    CloseAndDestroy(&db_, options_, "filtered");
    db_.reset();
  }
}

TEST_P(CompactionFilterTest, MemoryNodesNeedNotKnowIt) {
  const auto filter = std::make_shared<UnknownFilter>();
  Open(filter, TableFormat::kByteAddressable);
  Put("a", "drop");
  Compact();
  EXPECT_EQ(Get("a"), "-");
  EXPECT_GT(filter->asked(), 0U);
  EXPECT_EQ(Count(Ticker::kMergesRemote), 0U);
}

INSTANTIATE_TEST_SUITE_P(BothSides, CompactionFilterTest, testing::Bool());

class NamelessFilter final : public WordFilter {
 public:
  const char* Name() const override { return ""; }
};
class TalkativeFilter final : public WordFilter {
 public:
  std::string Parameters() const override { return std::string((size_t{64} << 10) + 1, 'p'); }
};

TEST(CompactionFilterOptionsTest, FiltersThatCannotBeShippedAreRefused) {
  Options options = TinyOptions();
  std::unique_ptr<DB> db;
  options.compaction_filter = std::make_shared<NamelessFilter>();
  EXPECT_TRUE(DB::Open(options, "refused", &db).IsInvalidArgument());
  options.compaction_filter = std::make_shared<TalkativeFilter>();
  EXPECT_TRUE(DB::Open(options, "refused", &db).IsInvalidArgument());
}

TEST(RegisterCompactionFilterTest, RefusesNamesThatAreTaken) {
  const CompactionFilterFactory factory =
      [](const Slice&, std::shared_ptr<const CompactionFilter>*) { return Status::OK(); };
  EXPECT_TRUE(RegisterCompactionFilter("dlsm.Mine", factory).IsInvalidArgument());
  EXPECT_TRUE(RegisterCompactionFilter("", factory).IsInvalidArgument());
  EXPECT_TRUE(RegisterCompactionFilter("test.Null", nullptr).IsInvalidArgument());
  EXPECT_OK(RegisterCompactionFilter("test.Once", factory));
  EXPECT_TRUE(RegisterCompactionFilter("test.Once", factory).IsInvalidArgument());
}

}  // namespace
}  // namespace dlsm
