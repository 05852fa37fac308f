#include "db/read/shard_iterator.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "db/tree/level.h"
#include "db/tree/table.h"
#include "db/tree/version.h"
#include "table/internal_key.h"
#include "table/reader_of_node_testing.h"
#include "table/table_testing.h"

namespace dlsm {
namespace {

// The first and the last of three shards have a table each, on two memory nodes; the one between
// has no keys.
class ShardIteratorTest : public testing::Test {
 protected:
  ShardIteratorTest() {
    options_.verify_checksums = false;  // Or nothing is read in place.
    map_.boundaries = {"g", "m"};
    map_.nodes = {"first", "second", "second"};
  }

  // The table of the first shard is read by `first`; `opening` is called before that of the last
  // one is opened.
  std::unique_ptr<InternalIterator> NewIterator(MemoryQueuePairs* first,
                                                std::function<void()> opening = {}) {
    std::vector<ShardView> shards;
    shards.push_back(
        {ViewOf(std::make_unique<ReaderOfNode>(both_.left.meta, both_.left.reader.get(), first)),
         first});
    shards.push_back({ViewOf(nullptr), &both_.second});
    shards.push_back(
        {ViewOf(std::make_unique<ReaderOfNode>(both_.entered.meta, both_.entered.reader.get(),
                                               &both_.second, std::move(opening))),
         &both_.second});
    return NewShardsIterator(comparator_, map_, 0, std::move(shards), kSequenceNumberMax, options_);
  }

  std::shared_ptr<const ReadView> ViewOf(std::unique_ptr<TableReader> reader) const {
    std::vector<TableRef> tables;
    if (reader != nullptr) {
      tables.push_back(std::make_shared<const Table>(std::move(reader), nullptr));
    }
    const Level level = Level(Guard::Order::kNewestFirst).With(comparator_, {}, tables);
    auto view = std::make_shared<ReadView>();
    view->active = std::make_shared<Memtable>(comparator_, /*number=*/1, Slice());
    view->version = std::make_shared<const Version>(comparator_, std::vector<Level>{level});
    return view;
  }

  const InternalKeyComparator comparator_{BytewiseComparator()};
  TableReadOptions options_;
  ShardMap map_;
  TableLeftAndEntered both_;
};

// An iterator stands at the last record of the first shard, whose key it compares with what comes
// next. Fails if that is shown although the first node has been lost meanwhile, and the key may be
// others' bytes: while the last shard is entered, after the one between.
TEST_F(ShardIteratorTest, AKeyThatWasLeftInLostMemoryIsNotStoodBy) {
  for (const bool is_lost : {false, true}) {
    MemoryQueuePairs first(&both_.memory, /*direct=*/true);
    const auto iterator = NewIterator(&first, [&first, is_lost] {
      if (is_lost) first.LoseANode(/*this_one=*/true);
    });
    ExpectStepFromLostNodeFails(iterator.get(), is_lost);
  }
}

// An iterator has stood in the first shard, whose node is lost then. Fails if a seek behind all
// keys there, which needs nothing of that node, asks it all the same.
TEST_F(ShardIteratorTest, ASeekAsksNoLostNodeForWhatItHasPassed) {
  MemoryQueuePairs first(&both_.memory, /*direct=*/true);
  const auto iterator = NewIterator(&first);
  ExpectSeekAsksNoLostNode(iterator.get(), &first);
}

}  // namespace
}  // namespace dlsm
