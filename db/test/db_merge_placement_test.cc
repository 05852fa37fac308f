// Merges of whole databases, placed by the load of both sides; and schedules that change while
// databases are open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {
namespace {

using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

Options SmallOptions(CompactionPlace place) {
  Options options = TinyOptions();
  options.compaction_place = place;
  options.compaction_style = CompactionStyle::kLeveled;  // Merges often, at a known time.
  options.max_subcompactions = 1;
  return options;
}

uint64_t Count(DB& db, Ticker ticker) { return db.GetStatistics()->Get(ticker); }

std::string Property(DB& db, const std::string& name) {
  std::string text;
  EXPECT_TRUE(db.GetProperty(name, &text)) << name;
  return text;
}

// Writes about `bytes` in keys that are all over the place, and waits for its merges.
void WriteAndMerge(DB& db, uint64_t bytes, uint64_t seed) {
  const std::string value(1000, static_cast<char>('a' + seed % 26));
  for (uint64_t i = 0; i < bytes / value.size(); ++i) {
    ASSERT_OK(db.Put(WriteOptions(), NumberedKey((i * 7919 + seed) % 100'003), value));
  }
  ASSERT_OK(db.Flush(FlushOptions()));
  ASSERT_OK(db.WaitForBackgroundWork());
}

// Calls of one method and their failures.
std::pair<uint64_t, uint64_t> Calls(DB& db, const std::string& method) {
  std::istringstream lines(Property(db, "dlsm.rpc"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    uint64_t calls = 0, failures = 0;
    if (fields >> name >> calls >> failures && name == method) return {calls, failures};
  }
  ADD_FAILURE() << "no calls of " << method;
  return {0, 0};
}

// One database with a merge that takes the memory node more than a second; the other's merges take
// it some milliseconds. Fails if those wait behind the large one, or stay away when it is done.
TEST(DbMergePlacementTest, MergesLeaveABusyMemoryNodeAndComeBack) {
  TestNode::Config config;
  config.merge_threads = 1;
  config.merge_bytes_per_second = uint64_t{40} << 20;
  const TestNode node(config);
  Options flood_options = SmallOptions(CompactionPlace::kMemoryNode);
  flood_options.write_buffer_size = size_t{1} << 20;
  flood_options.max_file_size = size_t{4} << 20;
  flood_options.level0_file_num_compaction_trigger = 500;
  flood_options.level0_stop_writes_trigger = 1000;
  const auto flood = OpenOrDie(node.With(flood_options, "shm"), "flood");
  const auto db =
      OpenOrDie(node.With(SmallOptions(CompactionPlace::kAutomatic), "shm"), "automatic");
  WriteAndMerge(*flood, uint64_t{64} << 20, 1);
  ASSERT_EQ(Count(*flood, Ticker::kMergesRemote), 0u);

  uint64_t seed = 0;
  for (int round = 0; round < 10; ++round) WriteAndMerge(*db, 100 << 10, ++seed);
  const uint64_t alone = Count(*db, Ticker::kPlacedMemoryNodeBusy);
  // With its small budget it is busy for moments all the same.
  EXPECT_GT(Count(*db, Ticker::kPlacedNearData) + Count(*db, Ticker::kPlacedUnknown), 0u)
      << Property(*db, "dlsm.merge-load");

  std::atomic<bool> flooding{true};
  std::thread flooder([&] {
    EXPECT_OK(flood->CompactRange(nullptr, nullptr));
    flooding = false;
  });
  while (flooding && Count(*db, Ticker::kPlacedMemoryNodeBusy) == alone) {
    WriteAndMerge(*db, 100 << 10, ++seed);
  }
  EXPECT_GT(Count(*db, Ticker::kPlacedMemoryNodeBusy), alone) << Property(*db, "dlsm.merge-load");
  EXPECT_GT(Count(*db, Ticker::kMergesLocal), 0u);
  flooder.join();
  EXPECT_OK(flood->WaitForBackgroundWork());

  const uint64_t near_data = Count(*db, Ticker::kPlacedNearData);
  for (int round = 0; round < 100 && Count(*db, Ticker::kPlacedNearData) == near_data; ++round) {
    WriteAndMerge(*db, 100 << 10, ++seed);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_GT(Count(*db, Ticker::kPlacedNearData), near_data) << Property(*db, "dlsm.merge-load");
  EXPECT_EQ(Calls(*db, "merge").second, 0u);
}

// Fails if a memory node without merge threads stops a database that could merge for itself.
TEST(DbMergePlacementTest, WhatAMemoryNodeDoesNotMergeIsMergedHere) {
  TestNode::Config config;
  config.merge_threads = 0;
  const TestNode node(config);
  const auto db =
      OpenOrDie(node.With(SmallOptions(CompactionPlace::kAutomatic), "shm"), "automatic");
  for (uint64_t seed = 0; seed < 5; ++seed) WriteAndMerge(*db, 300 << 10, seed);
  EXPECT_GT(Count(*db, Ticker::kPlacedRefused), 0u);
  EXPECT_GT(Count(*db, Ticker::kMergesLocal), 0u);
  EXPECT_EQ(Count(*db, Ticker::kMergesRemote), 0u);
  EXPECT_EQ(Count(*db, Ticker::kRetries), 0u);
  // Most know without asking.
  EXPECT_LT(Calls(*db, "merge").first, Count(*db, Ticker::kPlacedRefused));
}

// A merge takes 6 s, twice as long as a merge without any progress is waited for. Fails if a merge
// has a fixed deadline.
TEST(DbMergePlacementTest, ASlowMergeIsWaitedForWhileItGetsOn) {
  TestNode::Config config;
  config.merge_bytes_per_second = 100'000;
  const TestNode node(config);
  Options options = SmallOptions(CompactionPlace::kMemoryNode);
  options.operation_timeout_ms = 500;
  options.level0_file_num_compaction_trigger = 100;
  options.level0_stop_writes_trigger = 200;
  const auto db = OpenOrDie(node.With(options, "shm"), "slow");
  WriteAndMerge(*db, 600'000, 1);
  const auto start = Clock::now();
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
  EXPECT_GE(Clock::now() - start, std::chrono::seconds(4)) << "the budget was not kept";
  const auto [calls, failures] = Calls(*db, "merge");
  EXPECT_GT(calls, 0u);
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), 0u);
}

TEST(DbMergePlacementTest, TellsTheLoadOfBothSides) {
  const TestNode node;
  const auto db =
      OpenOrDie(node.With(SmallOptions(CompactionPlace::kAutomatic), "shm"), "automatic");
  for (int i = 0; i < 500 && FieldOfProperty(db.get(), "dlsm.merge-load", "memory-node-known") == 0;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.merge-load", "memory-node-known"), 1u)
      << "the first heartbeat goes out at once";
  // A rate is told once a millisecond of it has been seen, which takes several flushes over shm.
  for (uint64_t seed = 0; seed < 20; ++seed) WriteAndMerge(*db, 300 << 10, seed);
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.merge-load", "memory-node-workers"), 2u);
  EXPECT_GT(FieldOfProperty(db.get(), "dlsm.merge-load", "memory-node-bytes-per-second"), 0u);
  EXPECT_GT(FieldOfProperty(db.get(), "dlsm.merge-load", "compute-node-transfer-bytes-per-second"),
            0u);
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.memory-node", "merges-queued"), 0u);
}

constexpr const char* kAsOpened =
    "merge_scheduler spring_and_gear\ncompaction_bandwidth 0\n"
    "memory_node_merge_scheduler greedy\nmemory_node_compaction_bandwidth 0\n";

class SetOptionsTest : public testing::Test {
 protected:
  SetOptionsTest() {
    Options options = SmallOptions(CompactionPlace::kAutomatic);
    options.merge_scheduler = MergeSchedule::kSpringAndGear;
    db_ = OpenOrDie(node_.With(options, "shm"), "options");
  }

  TestNode node_;
  std::unique_ptr<DB> db_;
};

TEST_F(SetOptionsTest, SchedulesChangeWhileTheDatabaseIsOpen) {
  EXPECT_EQ(Property(*db_, "dlsm.merge-schedule"), kAsOpened);
  ASSERT_OK(db_->SetOptions({{"merge_scheduler", "fair"}, {"compaction_bandwidth", "70000000"}}));
  ASSERT_OK(db_->SetOptions({{"memory_node_merge_scheduler", "single"},
                             {"memory_node_compaction_bandwidth", "80000000"}}));
  EXPECT_EQ(Property(*db_, "dlsm.merge-schedule"),
            "merge_scheduler fair\ncompaction_bandwidth 70000000\n"
            "memory_node_merge_scheduler single\nmemory_node_compaction_bandwidth 80000000\n");
  WriteAndMerge(*db_, 300 << 10, 1);
  // It is the memory node's, whoever asks.
  const auto other =
      OpenOrDie(node_.With(SmallOptions(CompactionPlace::kMemoryNode), "tcp"), "other");
  EXPECT_THAT(Property(*other, "dlsm.merge-schedule"),
              HasSubstr("memory_node_merge_scheduler single"));
  ASSERT_OK(db_->SetOptions({}));
}

// Fails if a mistake is passed over, or if a call that fails changes something.
TEST_F(SetOptionsTest, WhatCannotBeIsRefusedAsAWhole) {
  const std::pair<std::string, std::string> wrong[] = {{"merge_scheduler", "lazy"},
                                                       {"memory_node_merge_scheduler", ""},
                                                       {"compaction_bandwidth", "-1"},
                                                       {"compaction_bandwidth", "12x"},
                                                       {"memory_node_compaction_bandwidth", ""},
                                                       {"max_level0_tables_per_merge", "many"},
                                                       {"write_buffer_size", "1000000"}};
  for (const auto& [name, value] : wrong) {
    const Status status = db_->SetOptions(
        {{name, value}, {"merge_scheduler", name == "merge_scheduler" ? value : "fair"}});
    EXPECT_TRUE(status.IsInvalidArgument()) << name << " " << value;
    EXPECT_EQ(Property(*db_, "dlsm.merge-schedule"), kAsOpened) << name << " " << value;
  }
  EXPECT_THAT(db_->SetOptions({{"merge_scheduler", "lazy"}}).ToString(),
              HasSubstr("spring_and_gear"));
  EXPECT_THAT(db_->SetOptions({{"write_buffer_size", "1"}}).ToString(),
              HasSubstr("compaction_bandwidth"));
  ASSERT_OK(db_->Close());
  EXPECT_TRUE(db_->SetOptions({}).IsInvalidArgument());
}

// Fails if CompactRange ends once it has merged as many tables of level 0 as go at a time: what it
// promises is for all of them.
TEST(SetOptionsOfMergesTest, CompactRangeMergesAllOfLevel0HoweverFewAtATime) {
  for (const CompactionStyle style :
       {CompactionStyle::kLeveled, CompactionStyle::kFullLeveling, CompactionStyle::kGuards}) {
    SCOPED_TRACE(static_cast<int>(style));
    Options options = TinyOptions();
    options.compaction_style = style;
    // Nothing is merged but by request.
    options.level0_file_num_compaction_trigger = 500;
    options.level0_stop_writes_trigger = 1000;
    options.idle_size_amplification_percent = 0;
    auto db = OpenOrDie(options, "limited");
    ASSERT_OK(db->SetOptions({{"max_level0_tables_per_merge", "2"}}));
    for (int round = 0; round < 7; ++round) {
      ASSERT_OK(db->Put(WriteOptions(), "key", std::to_string(round)));
      ASSERT_OK(db->Flush(FlushOptions()));
    }
    ASSERT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), 7u);
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    EXPECT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), 0u);
    EXPECT_EQ(NumberProperty(db.get(), "dlsm.entries"), 1u);
    EXPECT_EQ(GetOr(db.get(), "key"), "6");
    CloseAndDestroy(&db, options, "limited");
  }
}

// Fails if only one of the two keeps its own half when the memory node cannot be asked.
TEST_F(SetOptionsTest, AMemoryNodeThatIsGoneIsAnError) {
  node_.Kill();
  EXPECT_FALSE(
      db_->SetOptions({{"merge_scheduler", "fair"}, {"memory_node_merge_scheduler", "fair"}}).ok());
  EXPECT_THAT(Property(*db_, "dlsm.merge-schedule"), HasSubstr("merge_scheduler spring_and_gear"));
  EXPECT_FALSE(db_->Close().ok());
}

// The second memory node takes a schedule, and its answer is lost. Fails if one of the two keeps
// what the call has failed to set; or, where the first cannot be told to go back, if nobody hears
// of it, or the next call does not make up for it.
TEST(SetOptionsOfNodesTest, WhatOneDoesNotAnswerNoneKeepsUnsaid) {
  TestNodes nodes(2, "tcp");
  const uint16_t first = nodes[0].server().port();
  const uint16_t second = nodes[1].server().port();
  std::atomic<bool> loses_answer{true};
  std::atomic<bool> answer_is_lost{false};
  std::atomic<bool> goes_back{true};
  Options options = nodes.With(TinyOptions());
  options.shard_boundaries = {"m"};
  options.node_connector = std::make_shared<WatchedConnector>(
      [&](uint16_t port, Method method, const Slice& request) -> Status {
        if (method != Method::kSetMergeSchedule) return Status::OK();
        SetMergeScheduleRequest set;
        EXPECT_OK(set.Decode(request));
        if (set.schedule == "fair" && port == second) answer_is_lost = loses_answer.load();
        const bool is_back = set.schedule == "greedy" && port == first;
        return is_back && !goes_back ? Status::IOError("the test sends nothing") : Status::OK();
      },
      /*may_still_land=*/std::function<bool()>(),
      [&](Method method, const WatchedConnector::Send& send, std::string* reply,
          Deadline deadline) -> Status {
        Status sent = send(reply, deadline);
        if (method != Method::kSetMergeSchedule || !answer_is_lost.exchange(false)) return sent;
        sent.PermitUncheckedError();
        return Status::TimedOut("the test loses the answer");
      });
  const auto db = OpenOrDie(options, "options");
  const auto schedule_of = [&](TestNode& node, const char* schedule) {
    return HasSubstr("memory-node " + node.address() + "\nmemory_node_merge_scheduler " + schedule);
  };
  const std::string before = Property(*db, "dlsm.merge-schedule");
  const std::unordered_map<std::string, std::string> changes = {
      {"merge_scheduler", "single"}, {"memory_node_merge_scheduler", "fair"}};
  Status status = db->SetOptions(changes);
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr(nodes[1].address() + ": the test loses the answer"));
  EXPECT_THAT(status.ToString(), HasSubstr("nothing has changed"));
  EXPECT_EQ(Property(*db, "dlsm.merge-schedule"), before);

  goes_back = false;
  status = db->SetOptions(changes);
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("schedule of " + nodes[0].address() + " may have"));
  std::string now = Property(*db, "dlsm.merge-schedule");
  EXPECT_THAT(now, schedule_of(nodes[0], "fair"));
  EXPECT_THAT(now, schedule_of(nodes[1], "greedy"));
  EXPECT_THAT(now, Not(HasSubstr("merge_scheduler single")));

  loses_answer = false;
  ASSERT_OK(db->SetOptions(changes));
  now = Property(*db, "dlsm.merge-schedule");
  EXPECT_THAT(now, schedule_of(nodes[0], "fair"));
  EXPECT_THAT(now, schedule_of(nodes[1], "fair"));
  EXPECT_THAT(now, HasSubstr("merge_scheduler single"));
}

}  // namespace
}  // namespace dlsm
