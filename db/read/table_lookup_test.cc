// What a lookup keeps of the tables that it has asked.
#include "db/read/table_lookup.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "dLSM/statistics.h"
#include "db/read/point_reader.h"
#include "db/test/fake_table_testing.h"
#include "table/table_iterator.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using Block = std::shared_ptr<const std::string>;

// Finds every key in the one block that it has, which is in the cache.
class CachedBlockReader final : public TableReader {
 public:
  CachedBlockReader(const TableMeta& meta, Block block)
      : TableReader(meta), block_(std::move(block)) {}

  bool Find(const LookupKey&, bool, TableProbe* probe) const override {
    probe->span = meta().data_span();
    probe->cached = block_;
    return true;
  }
  Status Decode(const LookupKey&, const TableProbe& probe, const Slice&, const TableReadOptions&,
                LookupResult* result) const override {
    result->state = LookupState::kFound;
    result->value = *block_;
    result->holder = probe.cached;
    return Status::OK();
  }
  std::unique_ptr<TableIterator> NewIterator(const TableReadOptions&, QueuePairs*) const override {
    return nullptr;
  }
  OffsetBounds BoundOffset(const Slice&) const override { return {}; }
  size_t resident_bytes() const override { return 0; }

 private:
  const Block block_;
};

// Fails if a lookup that has its answer, and may stay for as long as many others look for theirs,
// keeps the block that has it from being freed; or if it lets go of one that is pinned.
TEST(TableLookupTest, KeepsNoBlockOnceItIsAnswered) {
  const auto block = std::make_shared<const std::string>("value");
  const Table table(std::make_unique<CachedBlockReader>(FakeMeta({1, "a", "z"}), block), nullptr);
  const auto without = block.use_count();
  Statistics statistics;
  const PointReader reader(/*sequencer=*/nullptr, /*queue_pairs=*/nullptr, &statistics);
  const TableReadOptions options;
  std::string copied;
  PinnableSlice pinned;
  const std::shared_ptr<const void> no_holder;
  for (const bool pins : {false, true}) {
    LookupRequest request("k", 1);
    request.reader = &reader;
    request.value = pins ? nullptr : &copied;
    request.pinned = pins ? &pinned : nullptr;
    request.holder = &no_holder;
    TableLookup lookup(&request);
    lookup.Collector()(table, /*filtered=*/true);
    ASSERT_TRUE(lookup.Advance(options));
    EXPECT_EQ(lookup.to_fetch().bytes, 0u);
    EXPECT_GT(block.use_count(), without);
    ASSERT_TRUE(lookup.Decode(Slice(), request.holder, options));
    ASSERT_OK(request.status);
    EXPECT_EQ(pins ? pinned.ToString() : copied, "value");
    EXPECT_EQ(block.use_count(), without + (pins ? 1 : 0));
  }
}

}  // namespace
}  // namespace dlsm
