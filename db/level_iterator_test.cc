#include "db/level_iterator.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/level_testing.h"
#include "db/manifest.h"
#include "table/merging_iterator.h"
#include "table/reader_of_node_testing.h"
#include "table/table_testing.h"

namespace dlsm {
namespace {

// Two guards with a table each, on two memory nodes. An iterator stands at the last record of the
// first one, whose key it compares with what comes next. Fails if that is shown although the first
// node has been lost meanwhile, and the key may be others' bytes.
TEST(LevelIteratorTest, AKeyThatWasLeftInLostMemoryIsNotStoodBy) {
  const InternalKeyComparator comparator(BytewiseComparator());
  TableReadOptions options;
  options.verify_checksums = false;  // Or nothing is read in place.
  TableLeftAndEntered both;
  for (const bool is_lost : {false, true}) {
    MemoryQueuePairs first(&both.memory, /*direct=*/true);
    const auto lose = [&first, is_lost] {
      if (is_lost) first.LoseANode(/*this_one=*/true);
    };
    const auto opener = [&](const TableMeta& meta, TableRef* table) {
      auto reader =
          meta.number == 1
              ? std::make_unique<ReaderOfNode>(meta, both.left.reader.get(), &first)
              : std::make_unique<ReaderOfNode>(meta, both.entered.reader.get(), &both.second, lose);
      *table = std::make_shared<const Table>(std::move(reader), nullptr);
      return Status::OK();
    };
    Manifest manifest;
    std::vector<Level> levels;
    ASSERT_OK(ManifestCodec::Decode(
        ManifestOfOneLevel({{"", Guard::Order::kNewestFirst, {{1, "a", "a"}}},
                            {"m", Guard::Order::kNewestFirst, {{2, "m", "m"}}}}),
        opener, &manifest, &levels));
    levels.front().Index(comparator);
    std::vector<MergingSource> sources;
    AddLevelSources(comparator, levels.front(), options, &both.second, &sources);
    ASSERT_EQ(sources.size(), 1u);
    const auto iterator = NewMergingIterator(comparator, std::move(sources));
    ExpectStepFromLostNodeFails(iterator.get(), is_lost);
  }
}

}  // namespace
}  // namespace dlsm
