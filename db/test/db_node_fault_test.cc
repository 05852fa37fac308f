// Faults of the memory node itself: it is killed, or full. No call hangs, nothing acknowledged is
// lost without an error, and the database works again once there is room.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "db/test/test_database_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

class NodeFaultTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string why_not = TestNode::WhyNot(GetParam());
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    node_ = std::make_unique<TestNode>(GetParam());
  }

  Options NodeOptions() {
    Options options = node_->With(TinyOptions(), GetParam());
    options.operation_timeout_ms = 500;
    options.open_timeout_ms = 500;
    options.write_stall_timeout_ms = 500;
    return options;
  }

  std::unique_ptr<TestNode> node_;
};

// Fails if a memory node that is gone makes any call hang, crash, or claim success for what can no
// longer be.
TEST_P(NodeFaultTest, EveryCallEndsWhenTheMemoryNodeIsKilled) {
  const Options options = NodeOptions();
  auto db = OpenOrDie(options, "db");
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 100)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->Put(WriteOptions(), "in the memtable", "v"));
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      for (uint64_t i = 0; i < 2000; i += 50) {
        std::string value;
        const Status status = db->Get(ReadOptions(), NumberedKey(i), &value);
        EXPECT_FALSE(status.IsNotFound());
        if (status.ok()) {
          EXPECT_EQ(value, NumberedValue(i, 100));
        }
      }
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto start = Clock::now();
  node_->Kill();
  EXPECT_EQ(GetOr(db.get(), "in the memtable"), "v");
  while (iterator->Valid()) iterator->Next();  // To the end or an error.
  Status flushed = db->Flush(FlushOptions());
  EXPECT_FALSE(flushed.ok());
  EXPECT_FALSE(flushed.message().empty());
  EXPECT_FALSE(db->CompactRange(nullptr, nullptr).ok());
  EXPECT_FALSE(db->WaitForBackgroundWork().ok());
  // Writers fill the memtables that are left, and are then told.
  Status written;
  for (uint64_t i = 0; i < 20000 && written.ok(); ++i) {
    written = db->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 100));
  }
  EXPECT_TRUE(written.IsIOError() || written.IsBusy()) << written.ToString();
  EXPECT_FALSE(written.message().empty());
  std::string value;
  EXPECT_TRUE(db->GetProperty("dlsm.background-error", &value));
  EXPECT_NE(value, "OK");
  EXPECT_TRUE(db->GetProperty("dlsm.memory-node", &value));
  stop = true;
  reader.join();
  EXPECT_FALSE(db->Close().ok()) << "what was not flushed is lost";
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(40));
  std::unique_ptr<DB> again;
  EXPECT_FALSE(DB::Open(options, "db", &again).ok());
}

// Nothing is to be flushed or merged when the memory node is killed. Fails if the heartbeats that
// it does not answer are told as flushes and merges that had to be tried again.
TEST_P(NodeFaultTest, HeartbeatsAreNoRetries) {
  const auto db = OpenOrDie(NodeOptions(), "db");
  ASSERT_OK(db->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  ASSERT_EQ(db->GetStatistics()->Get(Ticker::kRetries), 0u);
  node_->Kill();
  std::string error = "OK";
  const auto until = Clock::now() + std::chrono::seconds(60);
  while (error == "OK" && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(db->GetProperty("dlsm.background-error", &error));
  }
  EXPECT_NE(error, "OK");
  EXPECT_EQ(db->GetStatistics()->Get(Ticker::kRetries), 0u);
  db->Close().PermitUncheckedError();  // Its memory node is gone.
}

// Fails if a memory node killed in the midst of flushes and merges makes them hang.
TEST_P(NodeFaultTest, KilledUnderLoad) {
  const Options options = NodeOptions();
  auto db = OpenOrDie(options, "db");
  std::thread killer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    node_->Kill();
  });
  Status status;
  const auto start = Clock::now();
  for (uint64_t i = 0; status.ok(); ++i) {
    status = db->Put(WriteOptions(), NumberedKey(i * 7919 % 5000), NumberedValue(i, 100));
  }
  EXPECT_TRUE(status.IsIOError() || status.IsBusy()) << status.ToString();
  killer.join();
  db->Close().PermitUncheckedError();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(40));
}

// Fails if a full memory node is anything but a clear refusal: writers must be told the cause,
// reads must go on, and deletions followed by a compaction must make room for the next write.
// Fails if old versions fill a memory node that has room for six times the live data: merges that
// make room must start while what they write still fits, and make do with small pieces.
TEST_P(NodeFaultTest, OldVersionsDoNotFillAMemoryNode) {
  TestNode::Config config = TestNode::Serving(GetParam());
  config.bytes = uint64_t{64} << 20;
  node_ = std::make_unique<TestNode>(config);
  Options options = NodeOptions();
  options.operation_timeout_ms = options.write_stall_timeout_ms = 60000;
  options.write_buffer_size = options.max_file_size = size_t{4} << 20;
  options.max_bytes_for_level_base = uint64_t{16} << 20;
  options.max_tables_per_guard = 16;
  const auto db = OpenOrDie(options, "db");
  constexpr uint64_t kLiveKeys = 10000;  // 10 MB.
  Random random(301);
  for (int round = 0; round < 20; ++round) {
    for (uint64_t i = 0; i < kLiveKeys; ++i) {
      const Status status = db->Put(WriteOptions(), NumberedKey(random.Uniform(kLiveKeys)),
                                    std::string(1000, static_cast<char>('a' + round)));
      ASSERT_TRUE(status.ok()) << round << ": " << status.ToString();
    }
    ASSERT_OK(db->WaitForBackgroundWork());
  }
}

TEST_P(NodeFaultTest, FullMemoryNodeRefusesAndRecovers) {
  TestNode::Config config = TestNode::Serving(GetParam());
  config.bytes = uint64_t{16} << 20;
  node_ = std::make_unique<TestNode>(config);
  Options options = NodeOptions();
  options.operation_timeout_ms = 5000;
  options.write_stall_timeout_ms = 3000;
  auto db = OpenOrDie(options, "db");
  Status status;
  uint64_t count = 0;
  for (; count < 40000; ++count) {
    status = db->Put(WriteOptions(), NumberedKey(count), std::string(1000, 'v'));
    if (!status.ok()) break;
  }
  ASSERT_LT(count, 40000u) << "40 MB do not fit into 16 MiB";
  EXPECT_GT(count, 5000u) << "most of the memory can be used";
  EXPECT_GT(node_->server().node().refused_grants().full, 0u) << status.ToString();
  EXPECT_TRUE(status.IsIOError() || status.IsBusy()) << status.ToString();
  EXPECT_NE(status.ToString().find("memory node"), std::string::npos) << status.ToString();
  EXPECT_GT(db->GetStatistics()->Get(Ticker::kStallMicrosMemory) +
                db->GetStatistics()->Get(Ticker::kStallMicrosMemtables),
            0u);
  for (uint64_t i = 0; i < count; i += 100) {
    ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), std::string(1000, 'v')) << i;
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (i % 10 != 0) {
      const Status deleted = db->Delete(WriteOptions(), NumberedKey(i));
      ASSERT_TRUE(deleted.ok()) << i << ": " << deleted.ToString();
    }
  }
  CompactAsRoomAllows(db.get());
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  do {
    status = db->Put(WriteOptions(), "afterwards", "v");
  } while (!status.ok() && Clock::now() < deadline);
  EXPECT_OK(status);
  for (uint64_t i = 0; i < count; i += 10) {
    ASSERT_EQ(GetOr(db.get(), NumberedKey(i)), std::string(1000, 'v')) << i;
    ASSERT_EQ(GetOr(db.get(), NumberedKey(i + 1)), "(none)") << i;
  }
  EXPECT_OK(db->Close());
  db = OpenOrDie(options, "db");
  EXPECT_EQ(GetOr(db.get(), "afterwards"), "v");
  EXPECT_OK(db->Close());
  EXPECT_OK(node_->server().node().databases().CheckInvariants());
}

std::string FabricOf(const testing::TestParamInfo<const char*>& fabric) { return fabric.param; }

INSTANTIATE_TEST_SUITE_P(EveryFabric, NodeFaultTest, testing::Values("shm", "tcp", "verbs"),
                         FabricOf);

}  // namespace
}  // namespace dlsm
