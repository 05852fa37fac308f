// Databases with guards: that they last, what they cost the memory node, and the change of styles.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "db/test/test_database_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

class GuardsTest : public testing::Test {
 protected:
  Options GuardsOptions(const std::string& fabric = "tcp") const {
    Options options = node_.With(TinyOptions(), fabric);
    options.compaction_style = CompactionStyle::kGuards;
    options.max_tables_per_guard = 4;
    return options;
  }

  static std::string ValueOf(uint64_t number, uint64_t round) {
    return std::to_string(number) + "-" + std::to_string(round) + std::string(200, 'v');
  }

  static void Load(DB* db, uint64_t keys, uint64_t writes, uint64_t seed) {
    Random random(seed);
    for (uint64_t i = 0; i < writes; ++i) {
      const uint64_t number = random.Uniform(keys);
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(number), ValueOf(number, seed)));
    }
  }

  // Reads all over a database until that has something merged.
  void ExpectMergesFor(const std::function<void(DB*, uint64_t)>& read) {
    Options options = GuardsOptions("shm");
    options.max_tables_per_guard = 8;
    options.idle_size_amplification_percent = 0;
    const auto db = OpenOrDie(options, "db");
    Load(db.get(), 20000, 30000, 1);
    ASSERT_OK(db->WaitForBackgroundWork());
    const auto statistics = db->GetStatistics();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    for (uint64_t i = 0; statistics->Get(Ticker::kMergesForReads) == 0 && !HasFailure() &&
                         std::chrono::steady_clock::now() < deadline;
         i = (i + 7) % 20000) {
      read(db.get(), i);
    }
    EXPECT_GT(statistics->Get(Ticker::kMergesForReads), 0u);
  }

  static int LevelsWithTables(DB* db) {
    int levels = 0;
    for (int level = 0; level < 7; ++level) {
      const std::string name = "dlsm.num-files-at-level" + std::to_string(level);
      std::string tables;
      levels += db->GetProperty(name, &tables) && tables != "0" ? 1 : 0;
    }
    return levels;
  }

  static std::string Guards(DB* db) {
    std::string text;
    EXPECT_TRUE(db->GetProperty("dlsm.guards", &text));
    return text;
  }

  TestNode node_;
};

// Fails if guards do not come into being, or are lost on the way through the manifest.
TEST_F(GuardsTest, GuardsLast) {
  std::string before;
  {
    const auto db = OpenOrDie(GuardsOptions(), "db");
    Load(db.get(), 20000, 20000, 1);
    ASSERT_OK(db->Flush(FlushOptions()));
    ASSERT_OK(db->WaitForBackgroundWork());
    before = Guards(db.get());
    EXPECT_NE(before.find("\n  key"), std::string::npos) << before;
    ASSERT_OK(db->Close());
  }
  const auto db = OpenOrDie(GuardsOptions(), "db");
  EXPECT_EQ(Guards(db.get()), before);
  for (uint64_t i = 0; i < 20000; i += 37) {
    const std::string value = GetOr(db.get(), NumberedKey(i));
    EXPECT_TRUE(value == "(none)" || value == ValueOf(i, 1)) << value;
  }
}

// Fails if each table of a merge needs a call, or an allocation, of its own.
TEST_F(GuardsTest, AMergeIsOneCallAndOneAllocation) {
  Options options = GuardsOptions();
  options.max_subcompactions = 1;
  const auto db = OpenOrDie(options, "db");
  for (uint64_t seed = 1; seed <= 4; ++seed) Load(db.get(), 20000, 20000, seed);
  ASSERT_OK(db->WaitForBackgroundWork());
  const auto statistics = db->GetStatistics();
  const uint64_t merges = statistics->Get(Ticker::kMergesRemote);
  EXPECT_GT(merges, 20u);
  EXPECT_EQ(statistics->Get(Ticker::kMergeCalls), merges);
  EXPECT_LE(statistics->Get(Ticker::kMergeAllocations), merges + merges / 20);
  EXPECT_GT(statistics->Get(Ticker::kMergeTables), 3 * merges);
}

// Fails if a deletion goes while an older version of its key lies in a run outside the merge or in
// a deeper level.
TEST_F(GuardsTest, DeletedKeysStayDeleted) {
  const auto db = OpenOrDie(GuardsOptions("shm"), "db");
  constexpr uint64_t kKeys = 6000;
  Load(db.get(), kKeys, 3 * kKeys, 1);
  for (uint64_t i = 0; i < kKeys; i += 2) ASSERT_OK(db->Delete(WriteOptions(), NumberedKey(i)));
  // Only odd keys from here on: they carry the deletions down.
  Random random(7);
  for (uint64_t i = 0; i < 4 * kKeys; ++i) {
    const uint64_t number = random.Uniform(kKeys) | 1;
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(number), ValueOf(number, 2)));
    if (i % kKeys != 0) continue;
    for (uint64_t deleted = 0; deleted < kKeys; deleted += 2) {
      ASSERT_EQ(GetOr(db.get(), NumberedKey(deleted)), "(none)");
    }
  }
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
  for (uint64_t deleted = 0; deleted < kKeys; deleted += 2) {
    ASSERT_EQ(GetOr(db.get(), NumberedKey(deleted)), "(none)");
  }
  EXPECT_LE(NumberProperty(db.get(), "dlsm.entries"), kKeys / 2);
}

// Fails if the whole range is not one run in one level after a manual compaction.
TEST_F(GuardsTest, CompactRangeLeavesOneRun) {
  const auto db = OpenOrDie(GuardsOptions("shm"), "db");
  Load(db.get(), 20000, 40000, 1);
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
  const std::string text = Guards(db.get());
  size_t levels_with_tables = 0;
  for (size_t at = text.find("level "); at != std::string::npos; at = text.find("level ", at + 1)) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    if (line.find("runs-most 0") != std::string::npos) continue;
    ++levels_with_tables;
    EXPECT_NE(line.find("runs-most 1 "), std::string::npos) << line;
  }
  EXPECT_EQ(levels_with_tables, 1u) << text;
}

// Fails if CompactRange ends before merges that were under way have put tables deeper, or in a
// level that is too small, from which they do so later: a tree of several levels then refuses
// another style.
TEST_F(GuardsTest, CompactRangeLeavesOneLevelWhateverElseMerges) {
  for (const CompactionStyle style : {CompactionStyle::kLeveled, CompactionStyle::kGuards}) {
    Options options = GuardsOptions("shm");
    options.compaction_style = style;
    options.max_bytes_for_level_base = uint64_t{64} << 10;
    const auto db = OpenOrDie(options, "compacted" + std::to_string(static_cast<int>(style)));
    for (uint64_t round = 1; round <= 12; ++round) {
      Load(db.get(), 20000, 1000 + 600 * round, round);
      ASSERT_OK(db->CompactRange(nullptr, nullptr));
      ASSERT_OK(db->WaitForBackgroundWork());
      ASSERT_EQ(LevelsWithTables(db.get()), 1) << "round " << round << "\n" << Guards(db.get());
    }
  }
}

// Fails if CompactRange is content with the oldest tables of level 0 where merges that are due take
// no more.
TEST_F(GuardsTest, CompactRangeTakesAllOfLevel0WhateverMergesMayTake) {
  constexpr uint64_t kKeys = 100;
  constexpr uint64_t kRounds = 4;
  for (const CompactionStyle style :
       {CompactionStyle::kLeveled, CompactionStyle::kFullLeveling, CompactionStyle::kGuards}) {
    SCOPED_TRACE(static_cast<int>(style));
    Options options = GuardsOptions("shm");
    options.compaction_style = style;
    options.level0_file_num_compaction_trigger = 100;  // None of the merges is due.
    options.level0_stop_writes_trigger = 200;
    options.idle_size_amplification_percent = 0;
    const auto db = OpenOrDie(options, "limited" + std::to_string(static_cast<int>(style)));
    ASSERT_OK(db->SetOptions({{"max_level0_tables_per_merge", "1"}}));
    for (uint64_t round = 1; round <= kRounds; ++round) {
      for (uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), ValueOf(i, round)));
      }
      ASSERT_OK(db->Flush(FlushOptions()));
    }
    ASSERT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), kRounds);
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    EXPECT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), 0u);
    EXPECT_EQ(NumberProperty(db.get(), "dlsm.entries"), kKeys);
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), ValueOf(i, kRounds));
    }
  }
}

// Fails if seeks do not get the guards merged that they visit.
TEST_F(GuardsTest, SeeksMergeWhatTheyVisit) {
  ExpectMergesFor([](DB* db, uint64_t number) {
    const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
    iterator->Seek(NumberedKey(number));
    EXPECT_OK(iterator->status());
  });
}

// Fails if lookups are not counted, so that a database that is only read keeps all its runs.
TEST_F(GuardsTest, LookupsMergeWhatTheyVisit) {
  ExpectMergesFor([](DB* db, uint64_t number) {
    const std::string value = GetOr(db, NumberedKey(number));
    EXPECT_TRUE(value == "(none)" || value == ValueOf(number, 1)) << value;
  });
}

// Fails if merges that make room wait until a memory node is full, or start where there is plenty.
TEST_F(GuardsTest, OldVersionsAreMergedWhereRoomIsShort) {
  TestNode::Config config;
  config.bytes = uint64_t{96} << 20;
  const TestNode small(config);
  for (const TestNode* node : {&small, static_cast<const TestNode*>(&node_)}) {
    Options options = node->With(GuardsOptions("shm"), "shm");
    options.write_buffer_size = options.max_file_size = size_t{2} << 20;
    options.max_tables_per_guard = 50;  // None of the merges is due.
    options.idle_size_amplification_percent = 0;
    const auto db = OpenOrDie(options, "db");
    Load(db.get(), 20000, 150000, 1);  // 30 MB.
    ASSERT_OK(db->Flush(FlushOptions()));
    // By the next report of how much is free, which comes every second; nobody writes meanwhile.
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::seconds(node == &small ? 60 : 3);
    while (db->GetStatistics()->Get(Ticker::kMergesRemote) == 0 &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_OK(db->WaitForBackgroundWork());
    EXPECT_EQ(db->GetStatistics()->Get(Ticker::kMergesRemote) > 0, node == &small);
    EXPECT_EQ(db->GetStatistics()->Get(Ticker::kRetries), 0u);
  }
}

// Fails if reads that begin after a load, or after a wait for background work, find more runs than
// they must; or if the option does not keep merges from that.
TEST_F(GuardsTest, WhileNobodyWritesRunsAreMerged) {
  for (const bool waits : {true, false}) {
    for (const int percent : {0, 4}) {
      Options options = GuardsOptions("shm");
      options.max_tables_per_guard = 1000;  // None of the merges is due.
      options.idle_size_amplification_percent = percent;
      const auto db = OpenOrDie(options, std::to_string(percent) + (waits ? "waits" : ""));
      Load(db.get(), 20000, 40000, 1);
      ASSERT_OK(db->Flush(FlushOptions()));
      // One run, and what is small beside it.
      const auto few_runs = [&db] { return NumberProperty(db.get(), "dlsm.components") <= 4; };
      // Counted once it can be seen.
      const auto merged = [&db] { return db->GetStatistics()->Get(Ticker::kMergesWhileIdle) > 0; };
      const auto until =
          std::chrono::steady_clock::now() + std::chrono::seconds(percent > 0 ? 60 : 1);
      while (!waits && !(few_runs() && merged()) && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      if (waits) {
        ASSERT_OK(db->WaitForBackgroundWork());
      }
      EXPECT_EQ(merged(), percent > 0);
      EXPECT_EQ(few_runs(), percent > 0) << NumberProperty(db.get(), "dlsm.components");
      for (uint64_t i = 0; i < 20000; i += 37) {
        const std::string value = GetOr(db.get(), NumberedKey(i));
        EXPECT_TRUE(value == "(none)" || value == ValueOf(i, 1)) << value;
      }
    }
  }
}

// Fails if writers are refused although more than a quarter of the memory node has nothing but
// versions that nobody can see: if merges that make room take so much at once that they do not fit.
TEST_F(GuardsTest, LiveDataMayFillMostOfAMemoryNode) {
  TestNode::Config config;
  config.bytes = uint64_t{48} << 20;
  const TestNode node(config);
  Options options = node.With(GuardsOptions("shm"), "shm");
  options.write_buffer_size = options.max_file_size = size_t{512} << 10;
  options.max_tables_per_guard = 16;
  const auto db = OpenOrDie(options, "db");
  constexpr uint64_t kKeys = 110'000;
  Load(db.get(), kKeys, 3 * kKeys, 1);  // 95% of the keys: 25 MB; three times as much is written.
  ASSERT_OK(db->WaitForBackgroundWork());
  uint64_t found = 0;
  for (uint64_t i = 0; i < kKeys; i += 11) {
    const std::string value = GetOr(db.get(), NumberedKey(i));
    ASSERT_TRUE(value == "(none)" || value == ValueOf(i, 1)) << value;
    found += value == "(none)" ? 0 : 1;
  }
  EXPECT_GT(found, kKeys / 11 * 9 / 10);
}

// Fails if whole levels are not merged where seeks go on, or what they leave reads wrong.
TEST_F(GuardsTest, SeeksMergeLevels) {
  const auto db = OpenOrDie(GuardsOptions("shm"), "db");
  Load(db.get(), 20000, 30000, 1);
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  const auto statistics = db->GetStatistics();
  ASSERT_GT(LevelsWithTables(db.get()), 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (LevelsWithTables(db.get()) > 1 && std::chrono::steady_clock::now() < deadline) {
    for (uint64_t i = 0; i < 20000; i += 7) {
      const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
      iterator->Seek(NumberedKey(i));
      ASSERT_TRUE(iterator->status().ok());
    }
  }
  EXPECT_EQ(LevelsWithTables(db.get()), 1);
  EXPECT_GT(statistics->Get(Ticker::kMergesDownForReads), 0u);
  for (uint64_t i = 0; i < 20000; i += 37) {
    const std::string value = GetOr(db.get(), NumberedKey(i));
    EXPECT_TRUE(value == "(none)" || value == ValueOf(i, 1)) << value;
  }
}

// Fails if a change of style loses data, or is refused where the tree allows it.
TEST_F(GuardsTest, StylesCanBeChanged) {
  Options guards = GuardsOptions("shm");
  Options leveled = guards;
  leveled.compaction_style = CompactionStyle::kLeveled;
  uint64_t round = 0;
  for (const Options* options : {&leveled, &guards, &leveled, &guards}) {
    const auto db = OpenOrDie(*options, "db");
    if (round > 0) {
      for (uint64_t i = 0; i < 5000; ++i) {
        ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), ValueOf(i, round));
      }
    }
    ++round;
    for (uint64_t i = 0; i < 5000; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), ValueOf(i, round)));
    }
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    ASSERT_OK(db->Close());
  }
}

// Fails if a tree is taken over that the other style cannot read right, or a refusal changes it or
// does not say what to do.
TEST_F(GuardsTest, AnUnfitTreeIsRefused) {
  Options guards = GuardsOptions("shm");
  guards.idle_size_amplification_percent = 0;
  Options leveled = guards;
  leveled.compaction_style = CompactionStyle::kLeveled;
  for (const auto& [first, second] : {std::pair{leveled, guards}, std::pair{guards, leveled}}) {
    const std::string name = first.compaction_style == CompactionStyle::kGuards ? "g" : "l";
    {
      const auto db = OpenOrDie(first, name);
      Load(db.get(), 20000, 40000, 1);
      ASSERT_OK(db->WaitForBackgroundWork());
      ASSERT_OK(db->Close());
    }
    std::unique_ptr<DB> db;
    const Status status = DB::Open(second, name, &db);
    ASSERT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_NE(status.ToString().find("CompactRange"), std::string::npos) << status.ToString();
    db = OpenOrDie(first, name);
    EXPECT_GT(NumberProperty(db.get(), "dlsm.entries"), 10000u);
  }
}

// Fails if the parts of one merge overlap: tables that overlap in the target begin in no order. The
// manifest is refused then, when the database is opened the next time.
TEST_F(GuardsTest, PartsOfAMergeAreDisjoint) {
  Options options = GuardsOptions("shm");
  options.max_subcompactions = 4;
  options.max_bytes_for_level_base = uint64_t{64} << 20;  // All stays in level 1,
  options.max_file_size = uint64_t{8} << 20;              // without guards.
  for (uint64_t flush = 1; flush <= 60; ++flush) {
    const auto db = OpenOrDie(options, "db");
    Load(db.get(), 3000, 100, flush);
    ASSERT_OK(db->Flush(FlushOptions()));
    ASSERT_OK(db->WaitForBackgroundWork());
    ASSERT_OK(db->Close());
  }
}

// Fails if a compaction that somebody asks for takes up what others write meanwhile, again and
// again, and so ends only when they do.
TEST_F(GuardsTest, CompactRangeEndsThoughSomebodyWrites) {
  for (const CompactionStyle style : {CompactionStyle::kGuards, CompactionStyle::kLeveled}) {
    Options options = GuardsOptions("shm");
    options.compaction_style = style;
    const auto db = OpenOrDie(options, style == CompactionStyle::kGuards ? "guards" : "leveled");
    Load(db.get(), 20000, 60000, 1);
    ASSERT_OK(db->WaitForBackgroundWork());
    std::atomic<bool> done{false};
    std::thread writer([&] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      for (uint64_t seed = 2; !done && std::chrono::steady_clock::now() < until; ++seed) {
        Load(db.get(), 20000, 500, seed);
      }
    });
    const auto start = std::chrono::steady_clock::now();
    EXPECT_OK(db->CompactRange(nullptr, nullptr));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
    done = true;
    writer.join();
  }
}

}  // namespace
}  // namespace dlsm
