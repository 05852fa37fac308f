#include "table/run_iterator.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "table/merging_iterator.h"
#include "table/reader_of_node_testing.h"
#include "table/table_testing.h"

namespace dlsm {
namespace {

enum class Lost { kNot, kBefore, kMeanwhile };

// Two tables of two records each, on two memory nodes.
class RunIteratorTest : public testing::Test {
 protected:
  RunIteratorTest() {
    read_options_.verify_checksums = false;  // Or nothing is read in place.
    BuildTestTable(TableOptions(), {RecordOf("a"), RecordOf("b")}, &memory_, &second_, &tables_[0]);
    BuildTestTable(TableOptions(), {RecordOf("c"), RecordOf("d")}, &memory_, &second_, &tables_[1]);
  }
  static TestRecord RecordOf(const char* key) { return {MakeInternalKey(key, 1), "value"}; }

  // Steps from the last record of the first table, whose node is lost then, to the second one.
  // Returns where that leads.
  std::string StepOn(bool direct, Lost lost, Status* status) {
    MemoryQueuePairs first(&memory_, direct);
    const ReaderOfNode ends(tables_[0].meta, tables_[0].reader.get(), &first);
    const ReaderOfNode follows(tables_[1].meta, tables_[1].reader.get(), &second_, [&] {
      if (lost == Lost::kMeanwhile) first.LoseANode(/*this_one=*/true);
    });
    const std::vector<const TableReader*> tables = {&ends, &follows};
    const auto iterator =
        NewRunIterator(InternalKeyComparator(BytewiseComparator()),
                       RunView{tables, nullptr, Slice()}, read_options_, &second_);
    iterator->SeekToFirst();
    iterator->Next();
    EXPECT_EQ(ShownBy(*iterator), "b");
    if (lost == Lost::kBefore) first.LoseANode(/*this_one=*/true);
    iterator->Next();
    *status = iterator->status();
    return ShownBy(*iterator);
  }
  static std::string ShownBy(const Iterator& iterator) {
    return iterator.Valid() ? ExtractUserKey(iterator.key()).ToString() : "(none)";
  }

  TestMemory memory_;
  MemoryQueuePairs second_{&memory_, /*direct=*/true};
  TestTable tables_[2];
  TableReadOptions read_options_;
};

// The key that was shown last lies where it was read in place, and who steps on compares it with
// what comes. Fails if that is shown although the key may be others' bytes by now: an older version
// of it could be taken for another key.
TEST_F(RunIteratorTest, AKeyThatWasLeftInLostMemoryIsNotStoodBy) {
  for (const Lost lost : {Lost::kBefore, Lost::kMeanwhile}) {
    SCOPED_TRACE(static_cast<int>(lost));
    Status status;
    EXPECT_EQ(StepOn(/*direct=*/true, lost, &status), "(none)");
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    // What was fetched stays.
    EXPECT_EQ(StepOn(/*direct=*/false, lost, &status), "c");
    EXPECT_OK(status);
  }
  Status status;
  EXPECT_EQ(StepOn(/*direct=*/true, Lost::kNot, &status), "c");
  EXPECT_OK(status);
}

// Who has stepped to the end of a run may go on elsewhere, which takes long. Fails if the run's
// last table is not asked for its place any more then.
TEST_F(RunIteratorTest, TheEndOfARunIsStillAPlace) {
  MemoryQueuePairs last(&memory_, /*direct=*/true);
  const ReaderOfNode begins(tables_[0].meta, tables_[0].reader.get(), &second_);
  const ReaderOfNode ends(tables_[1].meta, tables_[1].reader.get(), &last);
  const std::vector<const TableReader*> tables = {&begins, &ends};
  const auto iterator = NewRunIterator(InternalKeyComparator(BytewiseComparator()),
                                       RunView{tables, nullptr, Slice()}, read_options_, &second_);
  iterator->SeekToFirst();
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_EQ(ShownBy(*iterator), key);
    iterator->Next();
  }
  EXPECT_EQ(ShownBy(*iterator), "(none)");
  EXPECT_OK(iterator->status());
  EXPECT_OK(iterator->CheckPlace());
  last.LoseANode(/*this_one=*/true);
  EXPECT_TRUE(iterator->CheckPlace().IsIOError());
  EXPECT_OK(iterator->CheckPlace());  // It has been told.
}

// The key where a table ends beside others, one of which has the older version. Fails, too, if a
// table that was left earlier ends what goes on without it.
TEST_F(RunIteratorTest, ATableThatHasEndedIsAPlaceForOneStep) {
  for (const bool left_earlier : {false, true}) {
    MemoryQueuePairs first(&memory_, /*direct=*/true);
    std::vector<MergingSource> sources;
    sources.emplace_back(tables_[0].reader->NewIterator(read_options_, &first));
    sources.emplace_back(tables_[1].reader->NewIterator(read_options_, &second_));
    const auto iterator =
        NewMergingIterator(InternalKeyComparator(BytewiseComparator()), std::move(sources), &first);
    iterator->SeekToFirst();
    iterator->Next();
    if (left_earlier) iterator->Next();
    ASSERT_EQ(ShownBy(*iterator), left_earlier ? "c" : "b");
    first.LoseANode(/*this_one=*/true);
    iterator->Next();
    EXPECT_EQ(ShownBy(*iterator), left_earlier ? "d" : "(none)");
    EXPECT_EQ(iterator->status().IsIOError(), !left_earlier) << iterator->status().ToString();
  }
}

}  // namespace
}  // namespace dlsm
