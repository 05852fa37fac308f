// What stops and slows writers when merges cannot keep up, in whole databases.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "db/test/held_flushes_testing.h"
#include "db/test/test_database_testing.h"
#include "util/named_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

using StallStyle = Named<CompactionStyle>;

class DbStallTest : public testing::TestWithParam<StallStyle> {
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
                         testing::Values(StallStyle{"Leveled", CompactionStyle::kLeveled},
                                         StallStyle{"FullLeveling", CompactionStyle::kFullLeveling},
                                         StallStyle{"Tiered", CompactionStyle::kTiered},
                                         StallStyle{"SizeTiered", CompactionStyle::kSizeTiered},
                                         StallStyle{"Guards", CompactionStyle::kGuards}),
                         NameOf<CompactionStyle>);

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
  // What comes through of late is next to nothing, without a pause.
  for (int round = 0; round < 20; ++round) {
    Write(db.get(), 10);
    ASSERT_OK(db->Flush(FlushOptions()));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_OK(db->WaitForBackgroundWork());
  const uint64_t slowed = db->GetStatistics()->Get(Ticker::kStallMicrosSlowed);
  Write(db.get(), 200);  // Less than a memtable.
  EXPECT_EQ(db->GetStatistics()->Get(Ticker::kStallMicrosSlowed), slowed);
}

// Memtables of one shard that wait for their flush slow its writers down.
class DbStallByMemtablesTest : public testing::Test {
 protected:
  void SetUp() override {
    options_ = TinyOptions();
    options_.slow_down_writes = true;
    options_.level0_stop_writes_trigger = 1000;
    options_.max_write_buffer_number = 8;
    options_.max_background_flushes = 4;  // So four may be asked for before one has ended.
    db_ = OpenOrDie(options_, "slowed");
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, "slowed"); }

  void WriteMemtables(double count) {
    constexpr double kEntryBytes = 250;  // With what is around a value of 200.
    const auto entries = static_cast<uint64_t>(
        count * static_cast<double>(options_.write_buffer_size) / kEntryBytes);
    const std::string value(200, 'v');
    for (uint64_t i = 0; i < entries; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), value));
    }
  }
  uint64_t SlowedMicros() { return db_->GetStatistics()->Get(Ticker::kStallMicrosSlowed); }

  Options options_;
  std::unique_ptr<DB> db_;
};

// Memtables are written as fast as may be, then nothing for a long time, then memtables wait, so
// that writers are slowed down: to about what came through before. Fails if the pause counts, for
// then the last ones take a second.
TEST_F(DbStallByMemtablesTest, WritersAreNotSlowedByAPauseBefore) {
  WriteMemtables(12);
  ASSERT_OK(db_->Flush(FlushOptions()));
  ASSERT_OK(db_->WaitForBackgroundWork());
  std::this_thread::sleep_for(std::chrono::seconds(5));
  const HeldFlushes held;
  const uint64_t before = SlowedMicros();
  WriteMemtables(5.7);  // Seven may wait; slower and slower from the fourth on.
  EXPECT_LT(SlowedMicros() - before, 300'000u);
}

// Fails if what is flushed because somebody asks for it does not tell what can be sustained: who
// has only such memtables would never be slowed down.
TEST_F(DbStallByMemtablesTest, WhatIsFlushedOnRequestCounts) {
  for (int round = 0; round < 10; ++round) {
    WriteMemtables(0.1);
    ASSERT_OK(db_->Flush(FlushOptions()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Less than writers would bear.
  }
  const HeldFlushes held;
  FlushOptions at_once;
  at_once.wait = false;
  for (int round = 0; round < 4; ++round) {
    WriteMemtables(0.1);
    ASSERT_OK(db_->Flush(at_once));
  }
  const uint64_t before = SlowedMicros();
  WriteMemtables(1.7);  // The only one to be full is the fifth of seven that may wait.
  EXPECT_GT(SlowedMicros(), before);
}

}  // namespace
}  // namespace dlsm
