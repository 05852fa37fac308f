// What threads get that want a queue pair to a memory node that gives none.
#include "table/thread_queue_pairs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

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

}  // namespace
}  // namespace dlsm
