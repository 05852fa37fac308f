// What threads get that want a queue pair: from a memory node that gives none, and where one broke
// while nobody was waiting.
#include "table/thread_queue_pairs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "table/memory_queue_pairs_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

// Takes its time, and then refuses.
class RefusingFabric : public FabricConnection {
 public:
  FabricKind kind() const override { return FabricKind::kVerbs; }
  Status NewQueuePair(Deadline, std::unique_ptr<QueuePair>*) override {
    ++tries;
    std::this_thread::sleep_for(takes);
    return Status::TimedOut("try " + std::to_string(tries));
  }
  Status NewBuffer(size_t, RegisteredBuffer*) override { return Status::NotSupported("none"); }
  WireTotals Totals() const override { return {}; }

  milliseconds takes{0};
  int tries = 0;
};

class TestRpc : public RpcClient {
 public:
  Status Call(Method, const Slice&, std::string*, Deadline) override {
    return Status::NotSupported("none");
  }
  Status lost() override { return why_lost; }

  Status why_lost;
};

class ThreadQueuePairsTest : public testing::Test {
 protected:
  Status Want() {
    QueuePair* queue_pair = nullptr;
    return queue_pairs_.ForThisThread(NodeId{1}, &queue_pair);
  }

  RefusingFabric fabric_;
  TestRpc rpc_;
  ThreadQueuePairs queue_pairs_{&fabric_, &rpc_, std::chrono::seconds(1)};
};

// Fails if a call that needs many queue pairs, as a scan of many tables does, waits for each of
// them in vain, or if nobody tries again.
TEST_F(ThreadQueuePairsTest, AFailureStandsForAsLongAsItTook) {
  fabric_.takes = milliseconds(200);
  const Status first = Want();
  EXPECT_TRUE(first.IsTimedOut());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Want().ToString(), first.ToString());
  EXPECT_EQ(fabric_.tries, 1);
  std::this_thread::sleep_for(milliseconds(220));
  EXPECT_FALSE(Want().ok());
  EXPECT_EQ(fabric_.tries, 2);
}

// Fails if a refusal that took no time keeps threads from trying again at once.
TEST_F(ThreadQueuePairsTest, AQuickFailureIsTriedAgain) {
  EXPECT_FALSE(Want().ok());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(Want().ok());
  EXPECT_EQ(fabric_.tries, 2);
}

// Fails if a reader is told that a connection was refused when it is known that the memory node was
// restarted.
TEST_F(ThreadQueuePairsTest, SaysThatTheMemoryIsLost) {
  rpc_.why_lost = Status::IOError("was restarted");
  EXPECT_EQ(Want().ToString(), rpc_.why_lost.ToString());
}

// Fails if a look at where bytes are connects: what is answered from caches needs no memory node.
TEST_F(ThreadQueuePairsTest, ToAskWhereBytesAreMakesNoQueuePair) {
  EXPECT_EQ(queue_pairs_.Direct(RemoteSpan{NodeId{1}, RegionId{1}, 0, 1}), nullptr);
  EXPECT_EQ(fabric_.tries, 0);
}

class GivingFabric : public FabricConnection {
 public:
  FabricKind kind() const override { return FabricKind::kVerbs; }
  Status NewQueuePair(Deadline, std::unique_ptr<QueuePair>* queue_pair) override {
    ++made;
    *queue_pair = std::make_unique<MemoryQueuePair>(&memory, direct, &fail_at);
    return Status::OK();
  }
  Status NewBuffer(size_t, RegisteredBuffer*) override { return Status::NotSupported("none"); }
  WireTotals Totals() const override { return {}; }

  TestMemory memory;
  std::atomic<int64_t> fail_at{-1};  // The transfer that fails, counted from 0.
  bool direct = false;
  int made = 0;
};

struct Window : public Transfer {
  char bytes[16] = {};
};

class AbandonedTransfersTest : public testing::Test {
 protected:
  QueuePair* Mine() {
    QueuePair* queue_pair = nullptr;
    const Status status = queue_pairs_.ForThisThread(kTestNode, &queue_pair);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return queue_pair;
  }
  // Whose user goes away at once, or keeps what is returned.
  std::shared_ptr<Window> ReadAhead(QueuePair* queue_pair, Ticket* ticket) {
    auto window = std::make_shared<Window>();
    const Status status =
        queue_pair->PostRead(span_, LocalSpan{window->bytes, 16, 0}, Purpose::kRead, ticket);
    EXPECT_TRUE(status.ok()) << status.ToString();
    queue_pair->held().Hold(*ticket, window);
    return window;
  }

  GivingFabric fabric_;
  const RemoteSpan span_ = fabric_.memory.Allocate(16);
  TestRpc rpc_;
  ThreadQueuePairs queue_pairs_{&fabric_, &rpc_, std::chrono::seconds(1)};
};

// Fails if an operation is told of the failure of a transfer that was none of its own.
TEST_F(AbandonedTransfersTest, BreakTheirQueuePairButNotTheNextOperation) {
  Ticket ticket{};
  ReadAhead(Mine(), &ticket);
  fabric_.fail_at = 0;
  QueuePair* const queue_pair = Mine();
  EXPECT_EQ(fabric_.made, 2);
  const std::shared_ptr<Window> mine = ReadAhead(queue_pair, &ticket);
  EXPECT_OK(queue_pair->Wait(ticket, Deadline::In(std::chrono::seconds(1))));
}

// Fails if it waits for what was abandoned, or finds nothing where the memory is mapped.
TEST_F(AbandonedTransfersTest, ToAskWhereBytesAreWaitsForNothing) {
  fabric_.direct = true;
  Ticket ticket{};
  auto* const queue_pair = static_cast<MemoryQueuePair*>(Mine());
  ReadAhead(queue_pair, &ticket);
  EXPECT_EQ(queue_pairs_.Direct(span_), queue_pair->Direct(span_));
  EXPECT_NE(queue_pairs_.Direct(span_), nullptr);
  EXPECT_EQ(queue_pair->outstanding(), 1u);
}

// Fails if what is read ahead, and wanted, is waited for before its time, or if one that nobody
// wants is overlooked behind it.
TEST_F(AbandonedTransfersTest, OthersAreLeftAlone) {
  Ticket first{};
  Ticket second{};
  const std::shared_ptr<Window> wanted = ReadAhead(Mine(), &first);
  auto* const queue_pair = static_cast<MemoryQueuePair*>(Mine());
  EXPECT_EQ(queue_pair->outstanding(), 1u);
  ReadAhead(queue_pair, &second);
  EXPECT_EQ(Mine(), queue_pair);
  EXPECT_EQ(queue_pair->outstanding(), 0u);
  EXPECT_TRUE(wanted->complete());
  EXPECT_EQ(queue_pair->held().size(), 0u);
}

}  // namespace
}  // namespace dlsm
