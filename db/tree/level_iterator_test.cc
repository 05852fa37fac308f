#include "db/tree/level_iterator.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "db/tree/level_testing.h"
#include "db/tree/manifest.h"
#include "table/merging_iterator.h"
#include "table/reader_of_node_testing.h"
#include "table/table_testing.h"

namespace dlsm {
namespace {

// Levels of guards with a table each, on two memory nodes.
class LevelIteratorTest : public testing::Test {
 protected:
  LevelIteratorTest() { options_.verify_checksums = false; }  // Or nothing is read in place.

  // Over a level of these guards, which goes with the next one. Table 1 has "a", and is read by
  // `first`; table 2 has "m". `opening` is called before that is opened.
  std::unique_ptr<InternalIterator> NewIterator(const std::vector<GuardSketch>& guards,
                                                QueuePairs* first,
                                                const std::function<void()>& opening = {}) {
    const auto opener = [&](const TableMeta& meta, TableRef* table) {
      auto reader = meta.number == 1
                        ? std::make_unique<ReaderOfNode>(meta, both_.left.reader.get(), first)
                        : std::make_unique<ReaderOfNode>(meta, both_.entered.reader.get(),
                                                         &both_.second, opening);
      *table = std::make_shared<const Table>(std::move(reader), nullptr);
      return Status::OK();
    };
    Manifest manifest;
    EXPECT_OK(ManifestCodec::Decode(ManifestOfOneLevel(guards), opener, &manifest, &levels_));
    levels_.front().Index(comparator_);
    std::vector<MergingSource> sources;
    AddLevelSources(comparator_, levels_.front(), options_, &both_.second, &sources);
    EXPECT_EQ(sources.size(), 1u);
    return NewMergingIterator(comparator_, std::move(sources));
  }

  const std::vector<GuardSketch> both_guards_ = {
      {"", Guard::Order::kNewestFirst, {{1, "a", "a"}}},
      {"m", Guard::Order::kNewestFirst, {{2, "m", "m"}}}};
  const InternalKeyComparator comparator_{BytewiseComparator()};
  TableReadOptions options_;
  TableLeftAndEntered both_;
  std::vector<Level> levels_;
};

// An iterator stands at the last record of the first guard, whose key it compares with what comes
// next. Fails if that is shown although the first node has been lost meanwhile, and the key may be
// others' bytes.
TEST_F(LevelIteratorTest, AKeyThatWasLeftInLostMemoryIsNotStoodBy) {
  for (const bool is_lost : {false, true}) {
    MemoryQueuePairs first(&both_.memory, /*direct=*/true);
    const auto iterator = NewIterator(both_guards_, &first, [&first, is_lost] {
      if (is_lost) first.LoseANode(/*this_one=*/true);
    });
    ExpectStepFromLostNodeFails(iterator.get(), is_lost);
  }
}

// An iterator has stood in the first guard, whose node is lost then. Fails if a seek behind all
// keys there, which needs nothing of that node, asks it all the same.
TEST_F(LevelIteratorTest, ASeekAsksNoLostNodeForWhatItHasPassed) {
  MemoryQueuePairs first(&both_.memory, /*direct=*/true);
  const auto iterator = NewIterator(both_guards_, &first);
  ExpectSeekAsksNoLostNode(iterator.get(), &first);
}

// Who has stepped to the end of a level may go on elsewhere, which takes long. Fails if the last
// table is not asked for its place any more then, because guards without tables follow.
TEST_F(LevelIteratorTest, TheEndOfALevelIsStillAPlace) {
  MemoryQueuePairs first(&both_.memory, /*direct=*/true);
  const auto iterator =
      NewIterator({both_guards_.front(), {"m", Guard::Order::kNewestFirst, {}}}, &first);
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
  iterator->Next();
  EXPECT_FALSE(iterator->Valid());
  EXPECT_OK(iterator->status());
  EXPECT_OK(iterator->CheckPlace());
  first.LoseANode(/*this_one=*/true);
  EXPECT_TRUE(iterator->CheckPlace().IsIOError());
}

}  // namespace
}  // namespace dlsm
