// Indexes one call at a time: opening, building, queries, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/comparator.h"
#include "dLSM/db.h"
#include "dLSM/secondary_index.h"
#include "dLSM/write_batch.h"
#include "db/index/index_testing.h"
#include "db/test/test_database_testing.h"
#include "util/named_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

class IndexedDBTest : public testing::TestWithParam<Named<IndexUpkeep>> {
 protected:
  IndexedDBTest() {
    static int number = 0;
    name_ = "indexed_" + std::to_string(++number);
    db_ = OpenOrDie(TinyOptions(), name_);
  }
  ~IndexedDBTest() override {
    indexed_.reset();
    CloseAndDestroy(&db_, TinyOptions(), name_);
  }

  void Open() { indexed_ = OpenIndexed(db_.get(), {WordIndex(GetParam())}); }
  Results Lookup(const std::string& word, const IndexQueryOptions& options = {}) {
    return Drained(indexed_->Lookup(options, "words", word));
  }

  std::string name_;
  std::unique_ptr<DB> db_;
  std::unique_ptr<IndexedDB> indexed_;
};

INSTANTIATE_TEST_SUITE_P(Upkeep, IndexedDBTest,
                         testing::Values(Named<IndexUpkeep>{"Eager", IndexUpkeep::kEager},
                                         Named<IndexUpkeep>{"Lazy", IndexUpkeep::kLazy}),
                         NameOf<IndexUpkeep>);

TEST_P(IndexedDBTest, FindsRecordsByWords) {
  Open();
  ASSERT_OK(indexed_->Put({}, "apple", "red,round"));
  ASSERT_OK(indexed_->Put({}, "cherry", "red,small"));
  ASSERT_OK(indexed_->Put({}, "pear", "green"));
  EXPECT_EQ(Lookup("red"),
            (Results{{"red", "apple", "red,round"}, {"red", "cherry", "red,small"}}));
  EXPECT_EQ(Lookup("re"), Results());
  const Slice begin("green");
  const Slice end("round");
  EXPECT_EQ(Drained(indexed_->Query({}, "words", {&begin, &end})).size(), 3U);
  EXPECT_EQ(Drained(indexed_->Query({}, "words", {})).size(), 5U);
  ASSERT_OK(indexed_->Put({}, "apple", "green,round"));
  ASSERT_OK(indexed_->Delete({}, "cherry"));
  ASSERT_OK(indexed_->Delete({}, "no such record"));
  EXPECT_EQ(Lookup("red"), Results());
  EXPECT_EQ(Lookup("green").size(), 2U);
  std::string value;
  ASSERT_OK(indexed_->Get({}, "apple", &value));
  EXPECT_EQ(value, "green,round");
  IndexReport report;
  ASSERT_OK(indexed_->Check("words", &report));
  EXPECT_EQ(report.records, 2U);
  EXPECT_EQ(report.missing, 0U);
}

// Of an eager index queries without values read no record, and of a lazy one each.
TEST_P(IndexedDBTest, CountersTellWhatItCosts) {
  Open();
  const bool eager = GetParam() == IndexUpkeep::kEager;
  for (int i = 0; i < 10; ++i) {
    ASSERT_OK(indexed_->Put({}, "r", "word" + std::to_string(i) + ",always"));
  }
  IndexCounters counters = indexed_->counters();
  EXPECT_EQ(counters.records_written, 10U);
  EXPECT_EQ(counters.records_read, eager ? 10U : 0U);
  EXPECT_EQ(counters.entries_written, eager ? 11U : 20U);
  EXPECT_EQ(counters.entries_deleted, eager ? 9U : 0U);
  IndexQueryOptions options;
  options.values = false;
  const Results results = Drained(indexed_->Query(options, "words", {}));
  EXPECT_EQ(results, (Results{{"always", "r", ""}, {"word9", "r", ""}}));
  counters = indexed_->counters();
  EXPECT_EQ(counters.candidates, eager ? 0U : 11U);
  EXPECT_EQ(counters.stale_candidates, eager ? 0U : 9U);
  EXPECT_EQ(counters.entries_cleaned, eager ? 0U : 9U);
  // What one query has cleaned the next one does not meet.
  EXPECT_EQ(Drained(indexed_->Query({}, "words", {})).size(), 2U);
  EXPECT_EQ(indexed_->counters().stale_candidates, counters.stale_candidates);
  IndexReport report;
  ASSERT_OK(indexed_->Check("words", &report));
  EXPECT_EQ(report.entries, 2U);
}

TEST_P(IndexedDBTest, BatchesAreIndexedAsAWhole) {
  Open();
  WriteBatch batch;
  batch.Put("a", "one");
  batch.Put("b", "one");
  batch.Put("a", "two");
  batch.Delete("b");
  ASSERT_OK(indexed_->Write({}, batch));
  EXPECT_EQ(Lookup("one"), Results());
  EXPECT_EQ(Lookup("two"), (Results{{"two", "a", "two"}}));
  ASSERT_OK(indexed_->Check("words", nullptr));
  batch.DeleteRange("a", "c");
  EXPECT_TRUE(indexed_->Write({}, batch).IsNotSupported());
  EXPECT_EQ(Lookup("two").size(), 1U);
}

TEST_P(IndexedDBTest, QueriesAreOfTheirSnapshot) {
  Open();
  ASSERT_OK(indexed_->Put({}, "a", "one"));
  IndexQueryOptions then;
  then.snapshot = db_->GetSnapshot();
  ASSERT_OK(indexed_->Put({}, "a", "two"));
  // A query that cleans up takes nothing away from the snapshot.
  EXPECT_EQ(Lookup("one"), Results());
  EXPECT_EQ(Lookup("one", then), (Results{{"one", "a", "one"}}));
  EXPECT_EQ(Lookup("two", then), Results());
  EXPECT_EQ(Lookup("two"), (Results{{"two", "a", "two"}}));
  db_->ReleaseSnapshot(then.snapshot);
  // A query does not see what comes after it began, either.
  std::unique_ptr<IndexIterator> it = indexed_->Lookup({}, "words", "two");
  ASSERT_OK(indexed_->Delete({}, "a"));
  EXPECT_EQ(Drained(std::move(it)).size(), 1U);
  EXPECT_EQ(Lookup("two"), Results());
}

TEST_P(IndexedDBTest, MoreResultsThanABatch) {
  Open();
  for (uint64_t i = 0; i < 500; ++i) ASSERT_OK(indexed_->Put({}, NumberedKey(i), "w,x"));
  for (uint64_t i = 0; i < 500; i += 3) ASSERT_OK(indexed_->Put({}, NumberedKey(i), "x"));
  EXPECT_EQ(Lookup("w").size(), 500U - 167U);
  EXPECT_EQ(Lookup("x").size(), 500U);
  uint64_t cleaned = 0;
  ASSERT_OK(indexed_->Clean("words", &cleaned));
  IndexReport report;
  ASSERT_OK(indexed_->Check("words", &report));
  EXPECT_EQ(report.stale, 0U);
  EXPECT_EQ(report.entries, 500U + 333U);
}

TEST_P(IndexedDBTest, BuildTakesInWhatIsThere) {
  for (uint64_t i = 0; i < 300; ++i) ASSERT_OK(db_->Put({}, NumberedKey(i), "old"));
  ASSERT_OK(db_->Put({}, "\xff\xff behind the entries", "old"));
  Open();
  const std::unique_ptr<IndexIterator> early = indexed_->Lookup({}, "words", "old");
  EXPECT_FALSE(early->Valid());
  EXPECT_THAT(early->status().ToString(), HasSubstr("IndexedDB::Build"));
  EXPECT_TRUE(indexed_->Check("words", nullptr).IsInvalidArgument());
  // Writes between Open and Build, of records that have no entries yet.
  ASSERT_OK(indexed_->Put({}, NumberedKey(7), "new,old"));
  ASSERT_OK(indexed_->Put({}, NumberedKey(8), "old"));
  ASSERT_OK(indexed_->Delete({}, NumberedKey(9)));
  ASSERT_OK(indexed_->Build("words"));
  EXPECT_EQ(Lookup("old").size(), 300U);
  EXPECT_EQ(Lookup("new").size(), 1U);
  ASSERT_OK(indexed_->Check("words", nullptr));
  // It is known to be ready from now on.
  indexed_.reset();
  Open();
  EXPECT_EQ(Lookup("old").size(), 300U);
}

TEST_P(IndexedDBTest, WritesPastTheIndexAreFoundByCheck) {
  Open();
  ASSERT_OK(indexed_->Put({}, "a", "one"));
  ASSERT_OK(db_->Put({}, "a", "two"));
  IndexReport report;
  const Status status = indexed_->Check("words", &report);
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_THAT(status.ToString(), HasSubstr("of record 'a'"));
  EXPECT_EQ(report.missing, 1U);
  EXPECT_EQ(report.stale, 1U);
  if (GetParam() == IndexUpkeep::kEager) {
    const auto it = indexed_->Lookup({}, "words", "one");
    EXPECT_TRUE(it->status().IsCorruption());
  }
  indexed_.reset();
  ASSERT_OK(IndexedDB::Drop(db_.get(), "words", {}));
  Open();
  ASSERT_OK(indexed_->Build("words"));
  ASSERT_OK(indexed_->Check("words", nullptr));
}

TEST_P(IndexedDBTest, AnIndexIsNotForgotten) {
  Open();
  ASSERT_OK(indexed_->Put({}, "a", "one"));
  indexed_.reset();
  std::unique_ptr<IndexedDB> other;
  const Status refused = IndexedDB::Open(db_.get(), {}, {}, &other);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_THAT(refused.ToString(), HasSubstr("an index words"));
  const bool eager = GetParam() == IndexUpkeep::kEager;
  const Status changed = IndexedDB::Open(
      db_.get(), {WordIndex(eager ? IndexUpkeep::kLazy : IndexUpkeep::kEager)}, {}, &other);
  EXPECT_EQ(changed.ok(), eager) << changed.ToString();
  other.reset();
  ASSERT_OK(IndexedDB::Drop(db_.get(), "words", {}));
  ASSERT_OK(IndexedDB::Open(db_.get(), {}, {}, &other));
  std::string value;
  EXPECT_OK(other->Get({}, "a", &value));
}

TEST_P(IndexedDBTest, AFollowerAnswersQueries) {
  Options options = TinyOptions();
  options.publish_interval_ms = 1;
  const std::unique_ptr<TestNode> node = NodeServing("tcp", &options);
  std::unique_ptr<DB> owner = OpenOrDie(options, "followed");
  {
    const std::unique_ptr<IndexedDB> indexed = OpenIndexed(owner.get(), {WordIndex(GetParam())});
    ASSERT_OK(indexed->Put({}, "a", "one"));
    ASSERT_OK(indexed->Put({}, "a", "two"));
  }
  ASSERT_OK(owner->Close());
  owner.reset();
  owner = OpenOrDie(options, "followed");
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(options, "followed", &follower));
  std::unique_ptr<IndexedDB> indexed = OpenIndexed(follower.get(), {WordIndex(GetParam())});
  EXPECT_EQ(Drained(indexed->Query({}, "words", {})), (Results{{"two", "a", "two"}}));
  EXPECT_TRUE(indexed->Put({}, "b", "one").IsNotSupported());
  indexed.reset();
  ASSERT_OK(follower->Close());
  follower.reset();
  CloseAndDestroy(&owner, options, "followed");
}

TEST_P(IndexedDBTest, WrongArgumentsSaySo) {
  Open();
  std::unique_ptr<IndexedDB> other;
  const auto open = [&](std::vector<IndexDefinition> indexes, const IndexedDBOptions& options) {
    return IndexedDB::Open(db_.get(), std::move(indexes), options, &other);
  };
  const IndexDefinition words = WordIndex(GetParam());
  EXPECT_TRUE(open({words, words}, {}).IsInvalidArgument());
  EXPECT_TRUE(open({{"", WordsOf, IndexUpkeep::kEager}}, {}).IsInvalidArgument());
  EXPECT_TRUE(open({{"no function", nullptr, IndexUpkeep::kEager}}, {}).IsInvalidArgument());
  IndexedDBOptions options;
  options.prefix.clear();
  EXPECT_TRUE(open({words}, options).IsInvalidArgument());
  options = {};
  options.locks = 0;
  EXPECT_TRUE(open({words}, options).IsInvalidArgument());
  EXPECT_TRUE(IndexedDB::Open(nullptr, {}, {}, &other).IsInvalidArgument());
  EXPECT_TRUE(indexed_->Put({}, IndexedDBOptions().prefix + "x", "v").IsInvalidArgument());
  EXPECT_TRUE(indexed_->Lookup({}, "no such index", "w")->status().IsInvalidArgument());
  EXPECT_TRUE(indexed_->Build("no such index").IsInvalidArgument());
  Options reverse = TinyOptions();
  reverse.comparator = ReverseBytewiseComparator();
  std::unique_ptr<DB> db = OpenOrDie(reverse, "reverse");
  EXPECT_THAT(IndexedDB::Open(db.get(), {words}, {}, &other).ToString(),
              HasSubstr("indexes need dlsm.BytewiseComparator"));
  CloseAndDestroy(&db, reverse, "reverse");
}

}  // namespace
}  // namespace dlsm
