// Polling and sleeping in turns over tcp: nothing is lost between them, and who is not needed uses
// no processor. When a thread polls: adaptive_poll_test.cc. Deadlines: tcp_client_test.cc.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "util/fabric/fabric.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

class TcpPollTest : public testing::Test {
 protected:
  TcpPollTest() : node_(FabricKind::kTcp, 1 << 20) {
    FabricOptions options;
    options.kind = FabricKind::kTcp;
    options.tcp_poll = kTestPoll;
    EXPECT_OK(ConnectFabric(options, node_.Peer(), Soon(), &connection_));
  }

  std::unique_ptr<QueuePair> NewQueuePair() {
    std::unique_ptr<QueuePair> made;
    EXPECT_OK(connection_->NewQueuePair(Soon(), &made));
    return made;
  }
  // Adds one to a word, and returns what it was.
  uint64_t Count(QueuePair& queue_pair, uint64_t offset) {
    uint64_t prior = 0;
    Ticket ticket{};
    EXPECT_OK(queue_pair.PostFetchAdd(node_.Span(offset, 8), 1, &prior, Purpose::kRead, &ticket));
    EXPECT_OK(queue_pair.Wait(ticket, Soon()));
    return prior;
  }
  // Of this process, which is client and server.
  static nanoseconds ProcessorTime() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& time) {
      return std::chrono::seconds(time.tv_sec) + microseconds(time.tv_usec);
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
  }

  TestMemoryNode node_;
  std::unique_ptr<FabricConnection> connection_;
};

// Fails if a server goes on polling when nothing comes, or does not wake up after that.
TEST_F(TcpPollTest, AServerSleepsAfterABurst) {
  const auto queue_pair = NewQueuePair();
  uint64_t count = 0;
  for (int burst = 0; burst < 3; ++burst) {
    for (int i = 0; i < 200; ++i) ASSERT_EQ(Count(*queue_pair, 0), count++);
    std::this_thread::sleep_for(milliseconds(5));
    const nanoseconds before = ProcessorTime();
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_LT(ProcessorTime() - before, milliseconds(50));
  }
}

// Fails if a server polls for each of the requests that come too seldom for that, or if the
// counters do not tell.
TEST_F(TcpPollTest, AServerThatIsSeldomAskedSleeps) {
  const auto queue_pair = NewQueuePair();
  const WaitCounts before = node_.tcp().Waits();
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(Count(*queue_pair, 0), i);
    std::this_thread::sleep_for(milliseconds(2));
  }
  const WaitCounts after = node_.tcp().Waits();
  EXPECT_GE(after.slept - before.slept, 90u);
  const WaitCounts client = connection_->Waits();
  EXPECT_EQ(client.polled + client.slept, 100u);
}

// Fails, or hangs, if a request or an answer that comes just when its reader goes to sleep is not
// noticed. Under ThreadSanitizer also if threads share what they poll by.
TEST_F(TcpPollTest, NoWakeUpIsLostBetweenPollingAndSleeping) {
  constexpr int kThreads = 6;
  constexpr uint64_t kRounds = 600;
  std::vector<std::thread> threads;
  for (uint64_t id = 0; id < kThreads; ++id) {
    threads.emplace_back([this, id] {
      const auto queue_pair = NewQueuePair();
      Random random(301 + id);
      for (uint64_t i = 0; i < kRounds; ++i) {
        ASSERT_EQ(Count(*queue_pair, 8 * id), i);
        // Around the time for which both sides poll.
        if (random.Uniform(4) == 0) {
          std::this_thread::sleep_for(microseconds(random.Uniform(2 * kTestPoll.count())));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace dlsm
