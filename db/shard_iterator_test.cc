#include "db/shard_iterator.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "db/level.h"
#include "db/table.h"
#include "db/version.h"
#include "table/reader_of_node_testing.h"
#include "table/table_testing.h"

namespace dlsm {
namespace {

// The first and the last of three shards have a table each, on two memory nodes. An iterator stands
// at the last record of the first one, whose key it compares with what comes next. Fails if that is
// shown although the first node has been lost meanwhile, and the key may be others' bytes: while
// the last shard is entered, after the one between, which has no keys.
TEST(ShardIteratorTest, AKeyThatWasLeftInLostMemoryIsNotStoodBy) {
  const InternalKeyComparator comparator(BytewiseComparator());
  TableReadOptions options;
  options.verify_checksums = false;  // Or nothing is read in place.
  TableLeftAndEntered both;
  ShardMap map;
  map.boundaries = {"g", "m"};
  map.nodes = {"first", "second", "second"};
  const auto view_of = [&comparator](std::unique_ptr<TableReader> reader) {
    std::vector<TableRef> tables;
    if (reader != nullptr) {
      tables.push_back(std::make_shared<const Table>(std::move(reader), nullptr));
    }
    const Level level = Level(Guard::Order::kNewestFirst).With(comparator, {}, tables);
    auto view = std::make_shared<ReadView>();
    view->active = std::make_shared<Memtable>(comparator, /*number=*/1, Slice());
    view->version = std::make_shared<const Version>(comparator, std::vector<Level>{level});
    return view;
  };
  for (const bool is_lost : {false, true}) {
    MemoryQueuePairs first(&both.memory, /*direct=*/true);
    const auto lose = [&first, is_lost] {
      if (is_lost) first.LoseANode(/*this_one=*/true);
    };
    std::vector<ShardView> shards;
    shards.push_back(
        {view_of(std::make_unique<ReaderOfNode>(both.left.meta, both.left.reader.get(), &first)),
         &first});
    shards.push_back({view_of(nullptr), &both.second});
    shards.push_back({view_of(std::make_unique<ReaderOfNode>(
                          both.entered.meta, both.entered.reader.get(), &both.second, lose)),
                      &both.second});
    const auto iterator = NewShardsIterator(comparator, map, 0, std::move(shards), options);
    ExpectStepFromLostNodeFails(iterator.get(), is_lost);
  }
}

}  // namespace
}  // namespace dlsm
