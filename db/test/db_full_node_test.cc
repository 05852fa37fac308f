// Memory nodes that are full, of live data or of what snapshots keep: every style of merges gets
// out of that by deletions, by the release of the snapshots, and by CompactRange().
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/comparator.h"
#include "db/test/test_database_testing.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kFullNodeBytes = uint64_t{24} << 20;
constexpr size_t kFullNodeValueBytes = 1000;

struct FullNodeStyle {
  const char* name;
  CompactionStyle style;
};
constexpr FullNodeStyle kFullNodeStyles[] = {
    {"leveled", CompactionStyle::kLeveled},
    {"leveled_choose_best", CompactionStyle::kLeveledChooseBest},
    {"full_leveling", CompactionStyle::kFullLeveling},
    {"tiered", CompactionStyle::kTiered},
    {"size_tiered", CompactionStyle::kSizeTiered},
    {"guards", CompactionStyle::kGuards},
};

struct Sizes {
  size_t memtable_bytes;
  size_t table_bytes;
};

Options OptionsOf(CompactionStyle style, const Sizes& sizes) {
  Options options = TinyOptions();
  options.embedded_memory_bytes = kFullNodeBytes;
  options.compaction_style = style;
  options.write_buffer_size = sizes.memtable_bytes;
  options.max_file_size = sizes.table_bytes;
  options.write_stall_timeout_ms = 300;
  return options;
}

class FullNodeTest : public testing::Test {
 protected:
  void Open(const Options& options) { db_ = OpenOrDie(options, "db"); }

  // Keys in an order that gives each memtable some of all ranges.
  static std::string KeyOf(uint64_t number) { return NumberedKey(number * 7919 % 100'003); }

  Status Put(uint64_t number) {
    return db_->Put(WriteOptions(), KeyOf(number), std::string(kFullNodeValueBytes, 'v'));
  }
  // Merges may make room a little later than writers wait here.
  void PutSoon(uint64_t number) {
    Status put;
    ASSERT_TRUE(Eventually([&] { return (put = Put(number)).ok(); })) << put.ToString() << State();
  }
  void DeleteSoon(uint64_t number) {
    Status deleted;
    ASSERT_TRUE(Eventually([&] {
      return (deleted = db_->Delete(WriteOptions(), KeyOf(number))).ok();
    })) << "deletion "
        << number << ": " << deleted.ToString() << State();
  }
  void CompactSoon() {
    Status compacted;
    ASSERT_TRUE(Eventually([&] { return (compacted = db_->CompactRange(nullptr, nullptr)).ok(); }))
        << compacted.ToString() << State();
  }
  // For a failure's message.
  std::string State() const {
    std::string state;
    for (const char* const name :
         {"dlsm.levels", "dlsm.memory-node", "dlsm.merge-schedule", "dlsm.background-error",
          "dlsm.stalls", "dlsm.memory", "dlsm.guards"}) {
      std::string value;
      db_->GetProperty(name, &value);
      state += std::string("\n") + name + ": " + value;
    }
    return state;
  }
  // Returns how many keys are in.
  uint64_t PutUntilFull() {
    uint64_t number = 0;
    Status put;
    while ((put = Put(number)).ok()) ++number;
    EXPECT_TRUE(put.IsBusy()) << put.ToString();
    EXPECT_GT(number, kFullNodeBytes / 3 / kFullNodeValueBytes);
    return number;
  }

  // Full of live data.
  void FillDeleteAndCompact(const Options& options) {
    Open(options);
    const uint64_t keys = PutUntilFull();
    for (uint64_t i = 0; i < keys; ++i) ASSERT_NO_FATAL_FAILURE(DeleteSoon(i));
    ASSERT_NO_FATAL_FAILURE(CompactSoon());
    EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), 0u) << State();
    ASSERT_NO_FATAL_FAILURE(PutSoon(0));
    CloseAndDestroy(&db_, options, "db");
  }

  // Full of what snapshots keep.
  void FillBySnapshotsAndRelease(const Options& options) {
    constexpr uint64_t kKeys = 2000;
    Open(options);
    std::vector<const Snapshot*> snapshots;
    uint64_t puts = 0;
    Status put;
    for (; put.ok(); ++puts) {
      if (puts % 300 == 0) snapshots.push_back(db_->GetSnapshot());
      put = Put(puts % kKeys);
    }
    EXPECT_TRUE(put.IsBusy()) << put.ToString();
    EXPECT_GT(puts, 2 * kKeys);
    for (const Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
    for (uint64_t i = 0; i < 2 * kKeys; ++i) ASSERT_NO_FATAL_FAILURE(PutSoon(i % kKeys));
    ASSERT_NO_FATAL_FAILURE(CompactSoon());
    EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), kKeys) << State();
    CloseAndDestroy(&db_, options, "db");
  }

  std::unique_ptr<DB> db_;
};

// Fails if deletions wait for merges that find no room, or CompactRange() does.
TEST_F(FullNodeTest, DeletionsAndCompactionsMakeRoomInEveryStyle) {
  constexpr Sizes kSizes[] = {{64 << 10, 64 << 10}, {1 << 20, 64 << 10}, {256 << 10, 8 << 20}};
  size_t next = 0;
  for (const FullNodeStyle& style : kFullNodeStyles) {
    const Sizes& sizes = kSizes[next++ % std::size(kSizes)];
    SCOPED_TRACE(testing::Message() << style.name << ", memtables of " << sizes.memtable_bytes);
    ASSERT_NO_FATAL_FAILURE(FillDeleteAndCompact(OptionsOf(style.style, sizes)));
  }
}

// Fails if puts stay refused after the release, for a merge that fits is not found, or if there is
// none because all that could be merged is one large merge.
TEST_F(FullNodeTest, ReleasedSnapshotsMakeRoomInEveryStyle) {
  for (const FullNodeStyle& style : kFullNodeStyles) {
    SCOPED_TRACE(style.name);
    ASSERT_NO_FATAL_FAILURE(
        FillBySnapshotsAndRelease(OptionsOf(style.style, {256 << 10, 256 << 10})));
  }
}

// Merges on the compute node write into memory that it asks for. Fails if they get nothing of what
// is kept for merges, or keep it from later ones.
TEST_F(FullNodeTest, MergesOnTheComputeNodeMakeRoomAsWell) {
  for (const FullNodeStyle& style : kFullNodeStyles) {
    SCOPED_TRACE(style.name);
    Options options = OptionsOf(style.style, {256 << 10, 256 << 10});
    options.compaction_place = CompactionPlace::kComputeNode;
    ASSERT_NO_FATAL_FAILURE(FillDeleteAndCompact(options));
  }
}

// Where the order of keys is not that of their bytes, tables are divided by size. Fails if that
// comes to no end.
TEST_F(FullNodeTest, OtherOrdersOfKeysMakeRoomAsWell) {
  Options options = OptionsOf(CompactionStyle::kLeveled, {256 << 10, 256 << 10});
  options.comparator = ReverseBytewiseComparator();
  ASSERT_NO_FATAL_FAILURE(FillDeleteAndCompact(options));
}

}  // namespace
}  // namespace dlsm
