// What stops and slows writers when merges cannot keep up, in whole databases.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "db/test_database_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

class DbStallTest : public testing::TestWithParam<CompactionStyle> {
 protected:
  // Merges run in this process, and so slowly that writers overtake them.
  Options SlowMergeOptions() const {
    Options options = node_.With(TinyOptions(), "shm");
    options.compaction_style = GetParam();
    options.compaction_place = CompactionPlace::kComputeNode;
    const bool rewrites_all = GetParam() == CompactionStyle::kFullLeveling;
    const bool rewrites_little = GetParam() == CompactionStyle::kGuards;
    options.compaction_bandwidth = uint64_t{rewrites_all ? 64u : rewrites_little ? 3u : 10u} << 20;
    options.max_tables_per_guard = 3;
    options.component_constraint = ComponentConstraint::kGlobal;
    options.level0_stop_writes_trigger = 1000;
    return options;
  }

  static void Write(DB* db, uint64_t entries) {
    Random random(7);
    const std::string value(200, 'v');
    for (uint64_t i = 0; i < entries; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(random.Uniform(20000)), value));
    }
  }

  // The largest number of components by which the limit was exceeded while `entries` were written.
  static int64_t WriteAndWatch(DB* db, uint64_t entries) {
    std::atomic<bool> done{false};
    int64_t excess = INT64_MIN;
    std::thread watcher([&] {
      while (!done.load()) {
        const auto expected = static_cast<int64_t>(NumberProperty(db, "dlsm.expected-components"));
        const auto components = static_cast<int64_t>(NumberProperty(db, "dlsm.components"));
        excess = std::max(excess, components - 2 * expected);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    Write(db, entries);
    done = true;
    watcher.join();
    return excess;
  }

  TestNode node_;
};

INSTANTIATE_TEST_SUITE_P(Styles, DbStallTest,
                         testing::Values(CompactionStyle::kLeveled, CompactionStyle::kFullLeveling,
                                         CompactionStyle::kTiered, CompactionStyle::kSizeTiered,
                                         CompactionStyle::kGuards),
                         [](const auto& each) {
                           return "Style" + std::to_string(static_cast<int>(each.param));
                         });

// Fails if writers are not stopped by the number of sorted runs, are stopped for ever, or if
// memtables beyond those that were full already are let in.
TEST_P(DbStallTest, GlobalConstraintHolds) {
  const Options options = SlowMergeOptions();
  const auto db = OpenOrDie(options, "db");
  const auto stalled = [&db] { return db->GetStatistics()->Get(Ticker::kStallMicrosComponents); };
  const bool must_stall = GetParam() != CompactionStyle::kSizeTiered;
  // Where others load the machine, merges keep up with its writers for a while.
  constexpr int kRoundsMax = 10;
  int64_t excess = WriteAndWatch(db.get(), 30000);
  for (int round = 1; round < kRoundsMax && must_stall && stalled() == 0; ++round) {
    excess = std::max(excess, WriteAndWatch(db.get(), 30000));
  }
  // The thread that has installed a flush may be kept from closing the gate for a moment; without
  // the limit there would be dozens.
  EXPECT_LE(excess, options.max_write_buffer_number + 4);
  if (must_stall) {
    EXPECT_GT(stalled(), 0u);
  }
  EXPECT_EQ(db->GetStatistics()->Get(Ticker::kStallMicrosLevel0), 0u);
  ASSERT_OK(db->WaitForBackgroundWork());
  EXPECT_LE(NumberProperty(db.get(), "dlsm.components"),
            NumberProperty(db.get(), "dlsm.expected-components"));
}

// Fails if writers are stopped though slowing them was asked for, or nobody is slowed.
TEST_P(DbStallTest, WritersCanBeSlowedInsteadOfStopped) {
  Options options = SlowMergeOptions();
  options.slow_down_writes = true;
  const auto db = OpenOrDie(options, "db");
  // At first, what can be sustained is not known.
  Write(db.get(), 15000);
  const auto statistics = db->GetStatistics();
  const uint64_t slowed = statistics->Get(Ticker::kStallMicrosSlowed);
  const uint64_t stopped = statistics->Get(Ticker::kStallMicrosComponents);
  Write(db.get(), 30000);
  // A pace that does not fit leaves them stopped for tens of times as long as they are slowed.
  EXPECT_GT(4 * (statistics->Get(Ticker::kStallMicrosSlowed) - slowed),
            statistics->Get(Ticker::kStallMicrosComponents) - stopped);
  ASSERT_OK(db->WaitForBackgroundWork());
}

// Fails if writers wait for a merge that is not due: of a tree in which everything is in level 0,
// for example.
TEST_P(DbStallTest, NobodyIsStoppedWhereNoMergeIsDue) {
  Options options = node_.With(TinyOptions(), "shm");
  options.compaction_style = GetParam();
  options.level0_file_num_compaction_trigger = 1;
  options.level0_stop_writes_trigger = 2;
  options.write_stall_timeout_ms = 5000;
  const auto db = OpenOrDie(options, "db");
  Write(db.get(), 60000);
  ASSERT_OK(db->WaitForBackgroundWork());
}

// Fails if writers are slowed where no merge is due: nothing would ever make them fast again.
TEST_P(DbStallTest, NobodyIsSlowedWhereNoMergeIsDue) {
  Options options = node_.With(TinyOptions(), "shm");
  options.compaction_style = GetParam();
  options.component_constraint = ComponentConstraint::kGlobal;
  options.max_components = 1;  // So the limit is one more than the expected number.
  options.slow_down_writes = true;
  const auto db = OpenOrDie(options, "db");
  Write(db.get(), 5000);
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  // What came through of late is next to nothing.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const uint64_t slowed = db->GetStatistics()->Get(Ticker::kStallMicrosSlowed);
  Write(db.get(), 200);  // Less than a memtable.
  EXPECT_EQ(db->GetStatistics()->Get(Ticker::kStallMicrosSlowed), slowed);
}

}  // namespace
}  // namespace dlsm
