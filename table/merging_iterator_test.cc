#include "table/merging_iterator.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "table/table_testing.h"

namespace dlsm {
namespace {

// Five overlapping tables: key i is in table i modulo 5.
class MergingIteratorTest : public testing::Test {
 protected:
  static constexpr int kTables = 5;
  static constexpr int kRecords = 1000;

  void Build(bool direct) {
    queue_pairs_ = std::make_unique<MemoryQueuePairs>(&memory_, direct);
    for (int t = 0; t < kTables; ++t) {
      TestRecords records;
      for (int i = t; i < kRecords; i += kTables) {
        records.emplace_back(KeyOf(i), std::string(400, 'v'));
      }
      BuildTestTable(TableOptions(), records, &memory_, queue_pairs_.get(), &tables_[t]);
    }
  }
  static std::string KeyOf(int i) { return MakeInternalKey(fmt::format("{:06}", i), 1); }

  std::unique_ptr<InternalIterator> NewIterator() {
    std::vector<MergingSource> sources;
    for (const TestTable& table : tables_) {
      sources.push_back(table.reader->NewIterator(TableReadOptions(), queue_pairs_.get()));
    }
    return NewMergingIterator(InternalKeyComparator(BytewiseComparator()), std::move(sources));
  }
  // Some keys from `first` on.
  void ExpectFrom(Iterator* iterator, int first) {
    for (int i = first; i < std::min(first + 8, kRecords); ++i) {
      ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
      EXPECT_EQ(iterator->key(), Slice(KeyOf(i)));
      iterator->Next();
    }
  }

  TestMemory memory_;
  std::unique_ptr<MemoryQueuePairs> queue_pairs_;
  TestTable tables_[kTables];
};

// Fails if the tables' reads are waited for one after the other.
TEST_F(MergingIteratorTest, SeeksInAllTablesInOneRoundTrip) {
  Build(/*direct=*/false);
  const auto iterator = NewIterator();
  for (const int at : {500, 7, 999, 0, 501}) {
    const WireCounts before = queue_pairs_->Counts();
    iterator->Seek(KeyOf(at));
    const WireCounts cost = queue_pairs_->Counts() - before;
    // A table whose first candidate is before the target may have to read on.
    EXPECT_LE(cost.round_trips, 2u) << at;
    EXPECT_LE(cost.work_requests, kTables + 1u) << at;
    ExpectFrom(iterator.get(), at);
  }
}

// Fails if preparing reads anything where tables are read in place.
TEST_F(MergingIteratorTest, PreparesNothingWhereTablesAreMapped) {
  Build(/*direct=*/true);
  const auto iterator = NewIterator();
  const WireCounts before = queue_pairs_->Counts();
  iterator->Seek(KeyOf(500));
  EXPECT_EQ((queue_pairs_->Counts() - before).work_requests, uint64_t{kTables});
  EXPECT_EQ(queue_pairs_->Mine()->outstanding(), 0u);
  ExpectFrom(iterator.get(), 500);
}

// Fails if an error of a prepared read is lost, or a table that could not be read is passed over.
TEST_F(MergingIteratorTest, FailedPreparationIsAnErrorOrReadAgain) {
  Build(/*direct=*/false);
  for (int n = 0; n < kTables + 2; ++n) {
    const auto iterator = NewIterator();
    queue_pairs_->FailAfter(n);
    iterator->Seek(KeyOf(500));
    if (iterator->Valid()) {
      ExpectFrom(iterator.get(), 500);
    } else {
      EXPECT_TRUE(iterator->status().IsIOError()) << n;
    }
    queue_pairs_->FailNone();
    iterator->Seek(KeyOf(300));
    ExpectFrom(iterator.get(), 300);
  }
}

// Keys of a memtable, one of which another thread inserts right after the next Seek().
class GrowingSource final : public InternalIterator {
 public:
  GrowingSource(std::vector<std::string> keys, std::string comes)
      : keys_(std::move(keys)), comes_(std::move(comes)) {}

  void SeekToFirst() override { Stand(std::find_if(keys_.begin(), keys_.end(), NoneBefore(""))); }
  void SeekToLast() override {
    at_ = keys_.back();
    ShowKey();
  }
  void Seek(const Slice& target) override {
    Stand(std::find_if(keys_.begin(), keys_.end(), NoneBefore(target.ToString())));
    if (comes_.empty()) return;
    const std::string comes = std::exchange(comes_, "");
    keys_.insert(std::find_if(keys_.begin(), keys_.end(), NoneBefore(comes)), comes);
  }
  void Next() override { Stand(std::find_if(keys_.begin(), keys_.end(), NoneBefore(*at_)) + 1); }
  void Prev() override {
    const auto here = std::find_if(keys_.begin(), keys_.end(), NoneBefore(*at_));
    Stand(here == keys_.begin() ? keys_.end() : here - 1);
  }

 private:
  static std::function<bool(const std::string&)> NoneBefore(const std::string& target) {
    return [target](const std::string& key) { return key >= target; };
  }
  void Stand(std::vector<std::string>::iterator at) {
    at_.reset();
    if (at != keys_.end()) at_ = *at;
    ShowKey();
  }

  void ShowKey() {
    if (!at_.has_value()) return Invalidate();
    entry_.key = *at_;
    Show(&entry_);
  }

  Entry entry_;

  std::vector<std::string> keys_;  // User keys of one letter, each with the same trailer.
  std::string comes_;
  std::optional<std::string> at_;
};

// Fails if a key that is inserted while the direction changes is taken for one before the current
// key: then the current key is shown twice, or one before it is passed over.
TEST(MergingIteratorGrowthTest, TurnsBackwardWhileKeysCome) {
  const auto key = [](const char* user_key) { return MakeInternalKey(user_key, 1); };
  for (const bool last : {false, true}) {
    std::vector<std::string> growing = {key("a"), key("c")};
    if (!last) growing.push_back(key("z"));
    std::vector<MergingSource> sources;
    sources.emplace_back(std::unique_ptr<InternalIterator>(
        std::make_unique<GrowingSource>(std::vector<std::string>{key("b"), key("d")}, "")));
    sources.emplace_back(
        std::unique_ptr<InternalIterator>(std::make_unique<GrowingSource>(growing, key("x"))));
    const auto iterator =
        NewMergingIterator(InternalKeyComparator(BytewiseComparator()), std::move(sources));
    iterator->SeekToFirst();
    for (const char* expected : {"a", "b", "c"}) {
      ASSERT_TRUE(iterator->Valid());
      EXPECT_EQ(iterator->key(), Slice(key(expected)));
      iterator->Next();
    }
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(iterator->key(), Slice(key("d")));
    for (const char* expected : {"c", "b", "a"}) {
      iterator->Prev();
      ASSERT_TRUE(iterator->Valid());
      EXPECT_EQ(iterator->key(), Slice(key(expected)));
    }
    iterator->Prev();
    EXPECT_FALSE(iterator->Valid());
  }
}

}  // namespace
}  // namespace dlsm
