// Leases of followers: what keeps the memory that they read, how they end, and what outlives whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "db/follow/publication.h"
#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "util/eventually_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/rpc/messages/database_header.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/node_connection.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kFollowerLease{800};

// A memory node with short leases, an owner, and a follower whose heartbeats can be lost.
class FollowerLeaseTest : public testing::TestWithParam<std::string> {
 protected:
  static TestNode::Config NodeConfig(uint64_t bytes) {
    TestNode::Config config;
    config.bytes = bytes;
    config.lease = kFollowerLease;
    return config;
  }
  void Start(uint64_t bytes, TableFormat format = TableFormat::kByteAddressable) {
    node_ = std::make_unique<TestNode>(NodeConfig(bytes));
    owner_options_ = node_->With(OwnerOptions(), GetParam());
    owner_options_.table_format = format;
    follower_options_ = node_->With(FollowerOptions(), GetParam());
    follower_options_.fault_injector = faults_;
    faults_->OnlyPurpose(Purpose::kRpc);
    owner_ = OpenOrDie(owner_options_, "followed");
    follower_ = FollowOrDie(follower_options_, "followed");
  }
  void TearDown() override {
    if (follower_ != nullptr) {
      EXPECT_OK(follower_->Close());
    }
    CloseAndDestroy(&owner_, owner_options_, "followed");
  }
  void LoseHeartbeats() { faults_->SetProbability(FaultKind::kFail, 1); }
  // Once the lease has ended, not even what no transfer is needed for.
  void ExpectNothingIsTold() {
    const std::vector<std::string> keys = {Batches::Key(1), "absent", std::string(100, 'x')};
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses = follower_->MultiGet(ReadOptions(), slices, &values);
    const auto pipeline = follower_->NewGetPipeline(ReadOptions(), 2);
    for (size_t i = 0; i < keys.size(); ++i) {
      std::string value;
      const Status status = follower_->Get(ReadOptions(), keys[i], &value);
      EXPECT_TRUE(status.IsTimedOut()) << keys[i] << ": " << status.ToString();
      EXPECT_TRUE(statuses[i].IsTimedOut()) << keys[i] << ": " << statuses[i].ToString();
      EXPECT_EQ(values[i], "");
      ASSERT_OK(pipeline->Submit(keys[i], i));
      GetPipeline::Answer answer;
      ASSERT_TRUE(pipeline->Next(&answer));
      EXPECT_TRUE(answer.status.IsTimedOut()) << keys[i] << ": " << answer.status.ToString();
      EXPECT_EQ(answer.value, "");
    }
    const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
    iterator->SeekToFirst();
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(iterator->status().IsTimedOut()) << iterator->status().ToString();
  }
  void OverwriteAll() {
    for (int i = 0; i < 400; ++i) ASSERT_OK(batches_.Write(owner_.get()));
    CompactAsRoomAllows(owner_.get());
    ASSERT_OK(owner_->WaitForBackgroundWork());
  }

  const std::shared_ptr<FaultInjector> faults_ = std::make_shared<FaultInjector>();
  Options owner_options_;
  Options follower_options_;
  Batches batches_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> owner_;
  std::unique_ptr<DB> follower_;
};

// Fails if bytes are handed out after the lease, if memory is reused before its end or not after
// it, or if the follower does not come back.
TEST_P(FollowerLeaseTest, AnEndedLeaseGivesErrorsNotBytes) {
  Start(uint64_t{256} << 20);
  OverwriteAll();
  CatchUpWith(owner_.get(), follower_.get());
  const int number = batches_.number();
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  const Snapshot* const snapshot = follower_->GetSnapshot();
  // For several leases, the follower's heartbeats keep what it reads.
  uint64_t kept = 0;
  for (int round = 0; round < 6; ++round) {
    OverwriteAll();
    std::this_thread::sleep_for(kFollowerLease / 2);
    ASSERT_EQ(NumberOf(iterator.get()), number);
    ASSERT_GE(node_->used_bytes(), kept);
    kept = node_->used_bytes();
  }
  LoseHeartbeats();
  Status ended;
  int before = 0;
  // Whatever is returned is right, until an error is.
  EXPECT_TRUE(Eventually([&] {
    iterator->SeekToFirst();
    for (; iterator->Valid(); iterator->Next()) {
      if (iterator->key().size() == 4) {
        EXPECT_EQ(iterator->value().ToString(), std::to_string(number));
      }
    }
    ended = iterator->status();
    if (!ended.ok()) return true;
    ++before;
    OverwriteAll();  // May take longer than the lease.
    return false;
  }));
  EXPECT_GT(before, 0);
  EXPECT_TRUE(ended.IsTimedOut()) << ended.ToString();
  EXPECT_THAT(ended.ToString(), HasSubstr("lease"));
  EXPECT_THAT(ended.ToString(), HasSubstr("injected fault"));
  ReadOptions as_before;
  as_before.snapshot = snapshot;
  std::string value;
  EXPECT_TRUE(follower_->Get(as_before, Batches::Key(1), &value).IsTimedOut());
  EXPECT_TRUE(follower_->Get(ReadOptions(), Batches::Key(1), &value).IsTimedOut());
  ExpectNothingIsTold();
  EXPECT_TRUE(Eventually([&] { return node_->used_bytes() < kept; })) << "what it kept is free";
  faults_->Clear();
  CatchUpWith(owner_.get(), follower_.get());
  EXPECT_EQ(NumberOf(follower_.get()), batches_.number());
  EXPECT_EQ(FieldOfProperty(follower_.get(), "dlsm.follower", "reopened"), 1u);
  iterator->SeekToFirst();
  EXPECT_FALSE(iterator->Valid());
  EXPECT_TRUE(iterator->status().IsTimedOut()) << "it is of the lease that has ended";
  EXPECT_TRUE(follower_->Get(as_before, Batches::Key(1), &value).IsTimedOut());
  follower_->ReleaseSnapshot(snapshot);
}

// Fails if blocks that are in the cache are told for ever.
TEST_P(FollowerLeaseTest, AnEndedLeaseEndsWhatIsCached) {
  Start(uint64_t{256} << 20, TableFormat::kBlockBased);
  OverwriteAll();
  CatchUpWith(owner_.get(), follower_.get());
  ASSERT_EQ(GetOr(follower_.get(), Batches::Key(1)), std::to_string(batches_.number()));
  LoseHeartbeats();
  EXPECT_TRUE(Eventually([&] {
    std::string value;
    return follower_->Get(ReadOptions(), Batches::Key(1), &value).IsTimedOut();
  }));
  ExpectNothingIsTold();
  faults_->Clear();
}

// The memory node takes a lease for ended that the follower takes for good: their clocks differ.
// Fails if the follower goes on reading once it has been told.
TEST_P(FollowerLeaseTest, ALeaseThatHasEndedThereHasEnded) {
  const auto ahead = std::make_shared<std::atomic<int64_t>>(0);  // Seconds.
  TestNode::Config config;
  config.clock = [ahead] {
    return DatabaseTableOptions::Clock::now() + std::chrono::seconds(ahead->load());
  };
  node_ = std::make_unique<TestNode>(config);
  owner_options_ = node_->With(OwnerOptions(), GetParam());
  follower_options_ = node_->With(FollowerOptions(), GetParam());
  owner_ = OpenOrDie(owner_options_, "followed");
  ASSERT_OK(owner_->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(owner_->Close());
  owner_.reset();
  follower_ = FollowOrDie(follower_options_, "followed");
  ASSERT_EQ(GetOr(follower_.get(), "key"), "value");
  ahead->store(100);
  const auto start = std::chrono::steady_clock::now();
  std::string value;
  Status ended;
  EXPECT_TRUE(Eventually([&] {
    ended = follower_->Get(ReadOptions(), "key", &value);
    return !ended.ok();
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, config.lease / 2) << "heartbeats are sent";
  EXPECT_TRUE(ended.IsTimedOut()) << ended.ToString();
  EXPECT_THAT(ended.ToString(), HasSubstr("this reader's lease has ended"));
  ASSERT_OK(follower_->TryCatchUp());
  EXPECT_EQ(GetOr(follower_.get(), "key"), "value");
}

// Fails if a follower that reads something old for ever can stop the owner of a full memory node,
// or gets wrong bytes when it no longer can.
TEST_P(FollowerLeaseTest, AFullNodeGetsItsMemoryBack) {
  Start(uint64_t{24} << 20);
  follower_.reset();
  follower_options_.follow_interval_ms = 10;
  follower_ = FollowOrDie(follower_options_, "followed");
  OverwriteAll();
  CatchUpWith(owner_.get(), follower_.get());
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  const int number = NumberOf(iterator.get());
  Status ended;
  EXPECT_TRUE(Eventually([&] {
    OverwriteAll();
    if (HasFatalFailure()) return true;
    iterator->SeekToFirst();
    for (; iterator->Valid(); iterator->Next()) {
      if (iterator->key().size() == 4) {
        EXPECT_EQ(iterator->value().ToString(), std::to_string(number));
      }
    }
    ended = iterator->status();
    return !ended.ok();
  }));
  EXPECT_TRUE(ended.IsTimedOut()) << ended.ToString();
  EXPECT_THAT(ended.ToString(), HasSubstr("the memory node is full"));
  // It follows again by itself.
  OverwriteAll();
  EXPECT_TRUE(Eventually([&] {
    std::string value;
    return follower_->Get(ReadOptions(), Batches::Key(1), &value).ok() &&
           value == std::to_string(batches_.number());
  }));
}

// Fails if a follower hangs, or gets wrong bytes, when the memory node has gone.
TEST_P(FollowerLeaseTest, OutlivesItsMemoryNode) {
  Start(uint64_t{256} << 20);
  follower_options_.operation_timeout_ms = 1000;
  follower_options_.follow_interval_ms = 10;
  auto follower = FollowOrDie(follower_options_, "followed");
  OverwriteAll();
  CatchUpWith(owner_.get(), follower.get());
  node_->Kill();
  EXPECT_TRUE(Eventually([&] {
    std::string value;
    const Status status = follower->Get(ReadOptions(), Batches::Key(1), &value);
    if (status.ok()) {
      EXPECT_EQ(value, std::to_string(batches_.number()));
    }
    return !status.ok();
  }));
  EXPECT_FALSE(follower->TryCatchUp().ok());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_OK(follower->Close());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  follower_.reset();
  owner_.reset();
}

// What another process could write into the header. Fails if any of it is believed, or stops the
// follower from reading what it has.
TEST_P(FollowerLeaseTest, NonsenseInTheHeaderIsNotBelieved) {
  Start(uint64_t{256} << 20);
  OverwriteAll();
  ASSERT_OK(owner_->Close());  // It would notice.
  ASSERT_OK(follower_->TryCatchUp());
  ASSERT_EQ(NumberOf(follower_.get()), batches_.number());
  std::unique_ptr<NodeConnection> connection;
  NodeConnectionOptions connect;
  connect.fabric.kind = FabricKind::kTcp;
  const Deadline deadline = Deadline::In(std::chrono::seconds(30));
  ASSERT_OK(ConnectNode({"127.0.0.1", node_->server().port()}, connect, deadline, &connection));
  OpenReaderRequest request;
  request.databases = {"followed"};
  OpenReaderReply reader;
  std::string reply;
  ASSERT_OK(connection->rpc().Call(Method::kOpenReader, request.Encode(), &reply, deadline));
  ASSERT_OK(reader.Decode(reply));
  std::unique_ptr<QueuePair> queue_pair;
  ASSERT_OK(connection->fabric().NewQueuePair(deadline, &queue_pair));
  PublicationBoard board(queue_pair.get(), reader.header, deadline);
  uint64_t number = 0;
  ASSERT_OK(board.ReadNumber(&number));
  PublicationSlot good;
  ASSERT_OK(board.ReadSlot(number, &good));
  const auto publish = [&](PublicationSlot slot) {
    slot.number = number + 1;
    ASSERT_OK(board.Write(slot, number));
    ++number;
    EXPECT_FALSE(follower_->TryCatchUp().ok());
    EXPECT_EQ(NumberOf(follower_.get()), batches_.number());
  };
  PublicationSlot bad = good;
  bad.image.offset = UINT64_MAX - bad.image.bytes;  // Outside of the region.
  publish(bad);
  bad = good;
  bad.image.node = NodeId{77};
  publish(bad);
  bad = good;
  bad.image.offset += 64;  // Something else.
  publish(bad);
  bad.image_checksum = 0;
  publish(bad);
  publish(good);  // An image of another number.
  // Words that are no slot at all.
  uint64_t prior;
  Ticket ticket;
  const RemoteSpan words = PublicationsIn(reader.header);
  ASSERT_OK(queue_pair->PostFetchAdd(words.Sub(64 + number % 2 * 64, 8), 12345, &prior,
                                     Purpose::kPublication, &ticket));
  ASSERT_OK(queue_pair->PostFetchAdd(words.Sub(64 + (number + 1) % 2 * 64, 8), 12345, &prior,
                                     Purpose::kPublication, &ticket));
  ASSERT_OK(queue_pair->PostFetchAdd(words.Sub(0, 8), 1, &prior, Purpose::kPublication, &ticket));
  ASSERT_OK(queue_pair->Wait(ticket, deadline));
  EXPECT_FALSE(follower_->TryCatchUp().ok());
  EXPECT_EQ(NumberOf(follower_.get()), batches_.number());
  owner_.reset();
}

// -------- Another process

constexpr char kNodeVariable[] = "DLSM_FOLLOWER_TEST_NODE";

// Not a test: the owner that is killed.
TEST(FollowerOwnerProcess, DISABLED_WritesUntilItIsKilled) {
  const char* const node = std::getenv(kNodeVariable);
  if (node == nullptr) GTEST_SKIP() << "only for the test below";
  Options options = OwnerOptions();
  options.memory_nodes = node;
  const auto owner = OpenOrDie(options, "followed");
  Batches batches;
  for (int i = 0; i < 300; ++i) ASSERT_OK(batches.Write(owner.get()));
  std::this_thread::sleep_for(std::chrono::minutes(2));
}

// Fails if followers do not survive an owner that is killed, go back, or do not follow the next.
TEST_P(FollowerLeaseTest, OutlivesAnOwnerThatIsKilled) {
  TestNode::Config config = NodeConfig(uint64_t{256} << 20);
  config.grace = milliseconds(200);
  node_ = std::make_unique<TestNode>(config);
  owner_options_ = node_->With(OwnerOptions(), GetParam());
  follower_options_ = node_->With(FollowerOptions(), GetParam());
  setenv(kNodeVariable, node_->address().c_str(), /*overwrite=*/1);
  char program[] = "/proc/self/exe";
  char filter[] = "--gtest_filter=FollowerOwnerProcess.DISABLED_*";
  char disabled[] = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program, filter, disabled, nullptr};
  pid_t owner = 0;
  ASSERT_EQ(posix_spawn(&owner, program, nullptr, nullptr, arguments, environ), 0);
  ASSERT_TRUE(
      Eventually([&] { return DB::OpenFollower(follower_options_, "followed", &follower_).ok(); }));
  EXPECT_TRUE(Eventually([&] {
    EXPECT_OK(follower_->TryCatchUp());
    return NumberOf(follower_.get()) == 300;
  }));
  const std::unique_ptr<Iterator> iterator(follower_->NewIterator(ReadOptions()));
  ASSERT_EQ(kill(owner, SIGKILL), 0);
  ASSERT_EQ(waitpid(owner, nullptr, 0), owner);
  // What the killed owner held beyond its manifest is given back when its session has ended.
  std::this_thread::sleep_for(config.grace + kFollowerLease);
  EXPECT_EQ(NumberOf(follower_.get()), 300);
  owner_ = OpenOrDie(owner_options_, "followed");
  for (int i = 0; i < 400; ++i) ASSERT_OK(batches_.Write(owner_.get()));
  ASSERT_OK(owner_->CompactRange(nullptr, nullptr));
  EXPECT_EQ(NumberOf(iterator.get()), 300);
  CatchUpWith(owner_.get(), follower_.get());
  EXPECT_EQ(NumberOf(follower_.get()), 400);
  EXPECT_EQ(NumberOf(iterator.get()), 300);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FollowerLeaseTest, testing::Values("shm", "tcp"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace dlsm
