#include "memory_node/merges/merge_sizes.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace dlsm {
namespace {

constexpr NodeId kHere{1};
constexpr NodeId kElsewhere{2};
constexpr uint64_t kMergeCapacity = uint64_t{64} << 20;
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

TableMeta TableAt(NodeId node, uint64_t bytes) {
  TableMeta table;
  table.image = RemoteSpan{node, RegionId{}, 0, bytes};
  table.data_bytes = bytes;
  return table;
}

uint64_t BytesOf(std::vector<TableMeta> tables) {
  MergeRequest request;
  request.runs.push_back(std::move(tables));
  return TableBytes(request, kHere, kMergeCapacity);
}

// Fails if what a client says of tables that nobody here knows makes this memory node look busy,
// or, where the sum wraps, idle.
TEST(MergeSizesTest, TablesElsewhereCountForNoMoreThanTheMemoryHere) {
  EXPECT_EQ(BytesOf({TableAt(kHere, 1000), TableAt(kElsewhere, 500)}), 1500u);
  EXPECT_EQ(BytesOf({TableAt(kElsewhere, kMost), TableAt(kHere, 1000)}), 1000 + kMergeCapacity);
  const TableMeta half = TableAt(kElsewhere, uint64_t{1} << 63);
  EXPECT_EQ(BytesOf({half, half}), kMergeCapacity);
  EXPECT_EQ(BytesOf({half, TableAt(kHere, 1000), half, half}), 1000 + kMergeCapacity);
}

// Fails if a client can make as little of a merge as it likes, or more than the tables have; or is
// not believed where a part of them is merged.
TEST(MergeSizesTest, AClientIsBelievedWithinWhatItsTablesHave) {
  constexpr uint64_t kTables = 100 * kMergePartsMax;
  MergeRequest request;
  request.input_bytes = 1;
  EXPECT_EQ(InputBytes(request, kTables), kTables) << "nothing bounds what is merged";
  request.options.has_begin = true;
  EXPECT_EQ(InputBytes(request, kTables), 100u);
  request.input_bytes = kTables / 2;
  EXPECT_EQ(InputBytes(request, kTables), kTables / 2);
  std::swap(request.options.has_begin, request.options.has_end);
  EXPECT_EQ(InputBytes(request, kTables), kTables / 2);
  request.input_bytes = kMost;
  EXPECT_EQ(InputBytes(request, kTables), kTables);
  request.input_bytes = 0;
  EXPECT_EQ(InputBytes(request, kTables), kTables) << "it says nothing";
}

}  // namespace
}  // namespace dlsm
