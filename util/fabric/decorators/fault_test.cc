// The two decorators: each fault does what its name says and nothing else, and the simulated
// network takes the time that its formula says.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "util/fabric/decorators/fault_injector.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/named_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

class DecoratorTest : public testing::TestWithParam<Named<FabricKind>> {
 protected:
  DecoratorTest() : node_(GetParam(), 1 << 20) { options_.kind = GetParam(); }

  void Connect() {
    const Status status = ConnectFabric(options_, node_.Peer(), Soon(), &connection_);
    ASSERT_TRUE(status.ok()) << status.ToString();
    NewQueuePair();
  }
  void NewQueuePair() {
    const Status status = connection_->NewQueuePair(Soon(), &queue_pair_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  QueuePair& qp() { return *queue_pair_; }
  Ticket PostRead(std::string& to, Purpose purpose = Purpose::kRead) {
    Ticket ticket{};
    const Status status = qp().PostRead(node_.Span(0, to.size()), Local(to), purpose, &ticket);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return ticket;
  }
  Ticket PostWrite(std::string& from) {
    Ticket ticket{};
    const Status status =
        qp().PostWrite(Local(from), node_.Span(0, from.size()), Purpose::kFlush, &ticket);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return ticket;
  }

  TestMemoryNode node_;
  FabricOptions options_;
  std::unique_ptr<FabricConnection> connection_;
  std::unique_ptr<QueuePair> queue_pair_;
};

const auto kFabrics = testing::Values(Named<FabricKind>{"local", FabricKind::kLocal},
                                      Named<FabricKind>{"shm", FabricKind::kShm},
                                      Named<FabricKind>{"tcp", FabricKind::kTcp});

class FaultTest : public DecoratorTest {
 protected:
  FaultTest() {
    options_.faults = std::make_shared<FaultInjector>(42);
    Connect();
  }
  FaultInjector& faults() { return *options_.faults; }
};

INSTANTIATE_TEST_SUITE_P(EveryFabric, FaultTest, kFabrics, NameOf<FabricKind>);

TEST_P(FaultTest, WithoutOrdersNothingHappens) {
  std::memcpy(node_.data(), "hello", 5);
  std::string got(5, '?');
  EXPECT_TRUE(qp().Wait(PostRead(got), Soon()).ok());
  EXPECT_EQ(got, "hello");
  EXPECT_EQ(faults().CountPosts(), 1u);
  EXPECT_EQ(faults().CountFaults(), 0u);
  EXPECT_EQ(qp().Direct(node_.Span(0, 5)), nullptr);
}

// Fails if the wrong post is harmed, if what came before it is harmed too, or if what came after it
// takes place.
TEST_P(FaultTest, FailsTheNthPostAndEverythingAfterIt) {
  faults().FailNth(2);
  std::string first(1, 'a'), second(1, 'b'), third(1, 'c');
  const Ticket ok = PostWrite(first);
  const Ticket failed = PostWrite(second);
  const Ticket after = PostWrite(third);
  EXPECT_LT(ok, failed);
  EXPECT_LT(failed, after);
  EXPECT_TRUE(qp().Wait(ok, Soon()).ok());
  EXPECT_FALSE(qp().closed());
  const Status status = qp().Wait(after, Soon());
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_TRUE(qp().closed());
  EXPECT_EQ(qp().Wait(ok, Soon()).ToString(), status.ToString());
  EXPECT_EQ(*node_.data(), 'a');
  NewQueuePair();
  EXPECT_TRUE(qp().Wait(PostWrite(third), Soon()).ok());
  EXPECT_EQ(*node_.data(), 'c');
}

TEST_P(FaultTest, HalfWriteLandsAPrefixOnly) {
  faults().FailNth(1, FaultKind::kHalfWrite);
  std::string bytes(1000, 'h');
  EXPECT_TRUE(qp().Wait(PostWrite(bytes), Soon()).IsIOError());
  const std::string there(node_.data(), 1000);
  const size_t landed = there.find('\0');
  ASSERT_NE(landed, std::string::npos);
  EXPECT_EQ(there.find_first_not_of('\0', landed), std::string::npos);
  EXPECT_GT(landed, 0u) << "with this seed";
}

TEST_P(FaultTest, CorruptFlipsOneBitOfARead) {
  faults().FailNth(2, FaultKind::kCorrupt);
  std::string before(64, '?'), got(64, '?'), after(64, '?');
  PostRead(before);
  PostRead(got);
  EXPECT_TRUE(qp().Wait(PostRead(after), Soon()).ok());
  int flipped = 0;
  for (const char c : got) flipped += __builtin_popcount(static_cast<unsigned char>(c));
  EXPECT_EQ(flipped, 1);
  EXPECT_EQ(before, std::string(64, '\0'));
  EXPECT_EQ(after, before);
}

TEST_P(FaultTest, DelayKeepsWaitForAWhile) {
  faults().SetDelay(milliseconds(30));
  faults().FailNth(1, FaultKind::kDelay);
  std::string got(1, '?');
  const auto start = Deadline::Clock::now();
  EXPECT_TRUE(qp().Wait(PostRead(got), Soon()).ok());
  EXPECT_GE(Deadline::Clock::now() - start, milliseconds(30));

  faults().FailNth(1, FaultKind::kDelay);
  const Ticket late = PostRead(got);
  EXPECT_TRUE(qp().Wait(late, Deadline::In(milliseconds(5))).IsTimedOut());
  EXPECT_TRUE(qp().closed());
}

TEST_P(FaultTest, DisconnectClosesAtThePost) {
  faults().FailNth(1, FaultKind::kDisconnect);
  std::string got(1, '?');
  Ticket ticket{};
  EXPECT_TRUE(qp().PostRead(node_.Span(0, 1), Local(got), Purpose::kRead, &ticket).IsIOError());
  EXPECT_TRUE(qp().closed());
  EXPECT_TRUE(qp().Ring().IsIOError());
}

TEST_P(FaultTest, DropLastsUntilTheDeadline) {
  faults().FailNth(1, FaultKind::kDrop);
  std::string got(1, '?');
  const Ticket ticket = PostRead(got);
  const auto start = Deadline::Clock::now();
  EXPECT_TRUE(qp().Wait(ticket, Deadline::In(milliseconds(30))).IsTimedOut());
  EXPECT_GE(Deadline::Clock::now() - start, milliseconds(30));
  EXPECT_TRUE(qp().closed());
}

TEST_P(FaultTest, HarmsOnlyThePurposeAskedFor) {
  faults().OnlyPurpose(Purpose::kCompaction);
  faults().SetProbability(FaultKind::kFail, 1);
  std::string got(1, '?');
  EXPECT_TRUE(qp().Wait(PostRead(got), Soon()).ok());
  EXPECT_EQ(faults().CountPosts(), 0u);
  EXPECT_TRUE(qp().Wait(PostRead(got, Purpose::kCompaction), Soon()).IsIOError());
  faults().Clear();
  NewQueuePair();
  EXPECT_TRUE(qp().Wait(PostRead(got, Purpose::kCompaction), Soon()).ok());
}

// Fails if a seed does not repeat its decisions, or probabilities are far off.
TEST(FaultInjectorTest, RepeatsItselfAndKeepsProbabilities) {
  FaultInjector one(7), two(7);
  for (FaultInjector* each : {&one, &two}) {
    each->SetProbability(FaultKind::kFail, 0.1);
    each->SetProbability(FaultKind::kDelay, 0.3);
  }
  int failed = 0, delayed = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Fault fault = one.Decide(Purpose::kRead);
    const Fault again = two.Decide(Purpose::kRead);
    ASSERT_EQ(fault.kind, again.kind);
    ASSERT_EQ(fault.draw, again.draw);
    failed += fault.kind == FaultKind::kFail;
    delayed += fault.kind == FaultKind::kDelay;
  }
  EXPECT_NEAR(failed, 1000, 200);
  EXPECT_NEAR(delayed, 3000, 300);
  EXPECT_EQ(one.CountFaults(), static_cast<uint64_t>(failed + delayed));
}

class SimulationTest : public DecoratorTest {
 protected:
  static auto Elapsed(Deadline::Clock::time_point start) { return Deadline::Clock::now() - start; }
};

INSTANTIATE_TEST_SUITE_P(EveryFabric, SimulationTest, kFabrics, NameOf<FabricKind>);

// Fails if a chain pays more than one round trip, or two waits pay only one.
TEST_P(SimulationTest, AChainCostsOneRoundTrip) {
  options_.simulated_rtt_ns = 400'000'000;
  Connect();
  std::string got(10, '?');
  auto start = Deadline::Clock::now();
  Ticket ticket{};
  for (int i = 0; i < 50; ++i) ticket = PostRead(got);
  ASSERT_TRUE(qp().Wait(ticket, Soon()).ok());
  EXPECT_GE(Elapsed(start), milliseconds(400));
  EXPECT_LT(Elapsed(start), milliseconds(10'000)) << "50 reads must not take 50 round trips";

  start = Deadline::Clock::now();
  ASSERT_TRUE(qp().Wait(ticket, Soon()).ok());  // Was waited for: free.
  EXPECT_LT(Elapsed(start), milliseconds(300));
  ASSERT_TRUE(qp().Wait(PostRead(got), Soon()).ok());
  ASSERT_TRUE(qp().Wait(PostRead(got), Soon()).ok());
  EXPECT_GE(Elapsed(start), milliseconds(800));
}

// Fails if the time counts from the wait and not from the doorbell: work must overlap.
TEST_P(SimulationTest, TimeRunsFromTheDoorbell) {
  options_.simulated_rtt_ns = 400'000'000;
  Connect();
  std::string got(10, '?');
  const Ticket ticket = PostRead(got);
  ASSERT_TRUE(qp().Ring().ok());
  std::this_thread::sleep_for(milliseconds(410));
  const auto start = Deadline::Clock::now();
  ASSERT_TRUE(qp().Wait(ticket, Soon()).ok());
  EXPECT_LT(Elapsed(start), milliseconds(300));
}

// Fails if the queue pairs of a connection do not share its bandwidth: 2 x 250 KB at 100 Mbit/s are
// 40 ms.
TEST_P(SimulationTest, QueuePairsShareTheLink) {
  options_.simulated_gbit_per_second = 0.1;
  Connect();
  std::unique_ptr<QueuePair> other;
  ASSERT_TRUE(connection_->NewQueuePair(Soon(), &other).ok());
  std::string mine(250'000, '?'), others(250'000, '?');
  const auto start = Deadline::Clock::now();
  const Ticket first = PostRead(mine);
  Ticket second{};
  ASSERT_TRUE(qp().Ring().ok());
  ASSERT_TRUE(
      other->PostRead(node_.Span(0, others.size()), Local(others), Purpose::kRead, &second).ok());
  ASSERT_TRUE(other->Wait(second, Soon()).ok());
  EXPECT_GE(Elapsed(start), milliseconds(40));
  ASSERT_TRUE(qp().Wait(first, Soon()).ok());
}

TEST_P(SimulationTest, ADeadlineWithinTheRoundTripTimesOut) {
  options_.simulated_rtt_ns = 2'000'000'000;
  Connect();
  std::string got(10, '?');
  const auto start = Deadline::Clock::now();
  EXPECT_TRUE(qp().Wait(PostRead(got), Deadline::In(milliseconds(50))).IsTimedOut());
  EXPECT_GE(Elapsed(start), milliseconds(50));
  EXPECT_LT(Elapsed(start), milliseconds(1500));
  EXPECT_TRUE(qp().closed());
}

}  // namespace
}  // namespace dlsm
