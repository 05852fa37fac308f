// One suite over all fabrics, plain and behind the network simulation: whatever the fabric, the
// contract of fabric.h holds.
#include "util/fabric/fabric.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "util/fabric/decorators/simulated_fabric.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/named_testing.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kRegionBytes = uint64_t{160} << 20;

class FabricTest : public testing::TestWithParam<std::tuple<Named<FabricKind>, bool>> {
 protected:
  void SetUp() override {
    const std::string why_not = TestMemoryNode::WhyNot(kind());
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    node_ = std::make_unique<TestMemoryNode>(kind(), kRegionBytes);
    FabricOptions options;
    options.kind = kind();
    options.verbs = TestVerbsOptions();
    options.tcp_poll = kTestPoll;
    ASSERT_OK(ConnectFabric(options, node_->Peer(), Soon(), &connection_));
    // With no cost: what remains is the decorator itself.
    if (std::get<1>(GetParam())) {
      connection_ = SimulateNetwork({.card_wakes_for_bytes = 256 << 10}, std::move(connection_));
    }
    queue_pair_ = NewQueuePair();
  }

  FabricKind kind() const { return std::get<0>(GetParam()); }
  bool IsDirect() const {
    return (kind() == FabricKind::kLocal || kind() == FabricKind::kShm) && !std::get<1>(GetParam());
  }

  std::unique_ptr<QueuePair> NewQueuePair() {
    std::unique_ptr<QueuePair> made;
    const Status status = connection_->NewQueuePair(Soon(), &made);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return made;
  }
  QueuePair& qp() { return *queue_pair_; }
  RemoteSpan Span(uint64_t offset, uint64_t bytes) { return node_->Span(offset, bytes); }

  void Write(uint64_t offset, std::string bytes) {
    Ticket ticket{};
    ASSERT_OK(qp().PostWrite(Local(bytes), Span(offset, bytes.size()), Purpose::kFlush, &ticket));
    ASSERT_OK(qp().Wait(ticket, Soon()));
  }
  std::string Read(uint64_t offset, size_t bytes) {
    std::string to(bytes, '?');
    Ticket ticket{};
    Status status = qp().PostRead(Span(offset, bytes), Local(to), Purpose::kRead, &ticket);
    if (status.ok()) status = qp().Wait(ticket, Soon());
    EXPECT_TRUE(status.ok()) << status.ToString();
    return to;
  }
  uint64_t CompareAndSwap(uint64_t offset, uint64_t expected, uint64_t desired) {
    uint64_t prior = 0;
    Ticket ticket{};
    Status status = qp().PostCompareAndSwap(Span(offset, 8), expected, desired, &prior,
                                            Purpose::kPublication, &ticket);
    if (status.ok()) status = qp().Wait(ticket, Soon());
    EXPECT_TRUE(status.ok()) << status.ToString();
    return prior;
  }

  std::unique_ptr<TestMemoryNode> node_;
  std::unique_ptr<FabricConnection> connection_;
  std::unique_ptr<QueuePair> queue_pair_;
};

// Fails if bytes land at the wrong place, in the wrong order or not at all.
TEST_P(FabricTest, ReadsWhatWasWritten) {
  Random random(1);
  const std::string bytes = random.Bytes(100'000);
  Write(12'345, bytes);
  EXPECT_EQ(Read(12'345, bytes.size()), bytes);
  EXPECT_EQ(Read(12'345 + 500, 1), bytes.substr(500, 1));
  EXPECT_EQ(Read(12'344, 1), std::string(1, '\0'));
  EXPECT_EQ(Read(12'345 + bytes.size(), 1), std::string(1, '\0'));
  EXPECT_EQ(std::memcmp(node_->data() + 12'345, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(connection_->kind(), kind());
}

// Fails if the last bytes of a region or an empty span at its end count as outside.
TEST_P(FabricTest, ReachesTheEdgesOfTheRegion) {
  Write(kRegionBytes - 3, "end");
  EXPECT_EQ(Read(kRegionBytes - 3, 3), "end");
  Write(0, "start");
  EXPECT_EQ(Read(0, 5), "start");
  EXPECT_EQ(Read(kRegionBytes, 0), "");
}

// Fails if a transfer of nothing hangs, is refused or touches its (null) buffer.
TEST_P(FabricTest, MovesZeroBytes) {
  Ticket read{}, write{};
  ASSERT_OK(qp().PostRead(Span(8, 0), LocalSpan{}, Purpose::kRead, &read));
  ASSERT_OK(qp().PostWrite(LocalSpan{}, Span(8, 0), Purpose::kRead, &write));
  ASSERT_OK(qp().Wait(write, Soon()));
  EXPECT_LT(read, write);
}

// There is no memory for one more request. Fails if the post throws, or if the queue pair goes on:
// answers would be taken for those of other requests.
TEST_P(FabricTest, APostWithoutMemoryClosesTheQueuePair) {
  const bool queues = kind() == FabricKind::kTcp || kind() == FabricKind::kVerbs;
  if (!queues || std::get<1>(GetParam())) GTEST_SKIP() << "a post queues nothing there";
  Write(0, "bytes");  // So that there is room for some requests.
  std::vector<std::string> to(100, std::string(5, '?'));
  Ticket ticket{};
  Status posted;
  {
    const port::FailingAllocations failing(1);
    for (size_t i = 0; posted.ok() && i < to.size(); ++i) {
      posted = qp().PostRead(Span(0, 5), Local(to[i]), Purpose::kRead, &ticket);
    }
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_TRUE(posted.IsIOError()) << posted.ToString();
  EXPECT_NE(posted.ToString().find("no more memory"), std::string::npos) << posted.ToString();
  EXPECT_TRUE(qp().closed());
  EXPECT_FALSE(qp().Wait(ticket, Soon()).ok());
  queue_pair_ = NewQueuePair();
  EXPECT_EQ(Read(0, 5), "bytes");
}

TEST_P(FabricTest, CompareAndSwapReturnsTheWordBefore) {
  if (!TestMemoryNode::HasAtomics(kind())) GTEST_SKIP() << "this device has no atomics";
  EXPECT_EQ(CompareAndSwap(64, 0, 5), 0u);
  EXPECT_EQ(CompareAndSwap(64, 4, 9), 5u);  // Does not take place.
  EXPECT_EQ(CompareAndSwap(64, 5, ~uint64_t{0}), 5u);
  EXPECT_EQ(CompareAndSwap(64, 0, 0), ~uint64_t{0});
}

TEST_P(FabricTest, FetchAddReturnsTheWordBefore) {
  if (!TestMemoryNode::HasAtomics(kind())) GTEST_SKIP() << "this device has no atomics";
  uint64_t prior[3] = {9, 9, 9};
  Ticket ticket{};
  for (uint64_t& each : prior) {
    ASSERT_OK(qp().PostFetchAdd(Span(8, 8), ~uint64_t{0}, &each, Purpose::kPublication, &ticket));
  }
  ASSERT_OK(qp().Wait(ticket, Soon()));
  EXPECT_EQ(prior[0], 0u);
  EXPECT_EQ(prior[1], ~uint64_t{0});
  EXPECT_EQ(prior[2], ~uint64_t{0} - 1);
}

// Fails if a request outside its region is let through, or leaves the queue pair open. The sums of
// some of these overflow.
TEST_P(FabricTest, RefusesWhatIsOutOfBounds) {
  constexpr uint64_t kHuge = ~uint64_t{0};
  std::string byte(1, 'x');
  std::string nothing;
  const RemoteSpan spans[] = {
      Span(kRegionBytes, 1),
      Span(kHuge, 1),
      Span(kRegionBytes + 1, 0),
      RemoteSpan{kTestNode, RegionId{4}, 0, 1},
      RemoteSpan{NodeId{8}, kTestRegion, 0, 1},
      Span(0, 2),  // Not the size of the local span.
  };
  for (const RemoteSpan& span : spans) {
    for (const bool write : {false, true}) {
      SCOPED_TRACE(testing::Message() << span.offset << " + " << span.bytes << " write " << write);
      queue_pair_ = NewQueuePair();
      const LocalSpan local = span.bytes == 0 ? Local(nothing) : Local(byte);
      Ticket ticket{};
      Status status = write ? qp().PostWrite(local, span, Purpose::kRead, &ticket)
                            : qp().PostRead(span, local, Purpose::kRead, &ticket);
      if (status.ok()) status = qp().Wait(ticket, Soon());
      EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
      EXPECT_TRUE(qp().closed());
      EXPECT_EQ(qp().Wait(Ticket{}, Soon()).ToString(), status.ToString());
      EXPECT_EQ(qp().Ring().ToString(), status.ToString());
      EXPECT_EQ(qp().PostRead(Span(0, 1), Local(byte), Purpose::kRead, &ticket).ToString(),
                status.ToString());
    }
  }
}

TEST_P(FabricTest, RefusesAtomicsThatAreNoAlignedWord) {
  for (const RemoteSpan& span : {Span(4, 8), Span(8, 4), Span(kRegionBytes, 8), Span(~7ull, 8)}) {
    queue_pair_ = NewQueuePair();
    uint64_t prior = 0;
    Ticket ticket{};
    Status status = qp().PostFetchAdd(span, 1, &prior, Purpose::kPublication, &ticket);
    if (status.ok()) status = qp().Wait(ticket, Soon());
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_TRUE(qp().closed());
  }
}

// Fails if large transfers are cut, mixed up, or block each other for good: 64 MB go out while 64
// MB come back, more than any socket buffer holds.
TEST_P(FabricTest, MovesLargeTransfersBothWaysAtOnce) {
  constexpr size_t kBytes = size_t{64} << 20;
  Random random(2);
  const std::string pattern = random.Bytes(1 << 16);
  std::string there, here(kBytes, '\0'), back(kBytes, '\0');
  while (there.size() < kBytes) there += pattern;
  for (size_t i = 0; i < kBytes; i += 4096) here[i] = static_cast<char>(i >> 12);
  std::memcpy(node_->data(), there.data(), kBytes);
  Ticket ticket{};
  ASSERT_OK(qp().PostRead(Span(0, kBytes), Local(back), Purpose::kRead, &ticket));
  ASSERT_OK(qp().PostWrite(Local(here), Span(kBytes, kBytes), Purpose::kFlush, &ticket));
  ASSERT_OK(qp().Wait(ticket, Soon()));
  EXPECT_TRUE(back == there);
  EXPECT_EQ(std::memcmp(node_->data() + kBytes, here.data(), kBytes), 0);
}

// Fails if pipelining loses, reorders or deadlocks: nobody reads a reply before all requests are
// posted.
TEST_P(FabricTest, PipelinesManySmallReads) {
  constexpr size_t kReads = 100'000;
  auto* words = reinterpret_cast<uint64_t*>(node_->data());
  for (size_t i = 0; i < kReads; ++i) words[i] = i * 3;
  std::vector<uint64_t> got(kReads);
  Ticket ticket{};
  for (size_t i = 0; i < kReads; ++i) {
    const size_t from = (i * 7919) % kReads;
    const LocalSpan to{reinterpret_cast<char*>(&got[i]), sizeof(uint64_t), 0};
    ASSERT_OK(qp().PostRead(Span(from * 8, 8), to, Purpose::kRead, &ticket));
  }
  ASSERT_OK(qp().Wait(ticket, Soon()));
  for (size_t i = 0; i < kReads; ++i) ASSERT_EQ(got[i], (i * 7919) % kReads * 3);
}

// Fails if replies that exceed the server's bound on queued output stop it for good: big reads and
// writes alternate, rung early and waited for late.
TEST_P(FabricTest, PipelinesMixedRequests) {
  if (!TestMemoryNode::HasAtomics(kind())) GTEST_SKIP() << "this device has no atomics";
  constexpr size_t kRounds = 3000;
  constexpr size_t kBytes = 20'000;
  Random random(3);
  const std::string source = random.Bytes(kBytes);
  std::memcpy(node_->data(), source.data(), kBytes);
  std::vector<std::string> got(kRounds);
  uint64_t prior = 0;
  Ticket ticket{};
  for (size_t i = 0; i < kRounds; ++i) {
    got[i].resize(i % 3 == 0 ? kBytes : i % 100);
    LocalSpan from{const_cast<char*>(source.data()), kBytes - i, 0};
    ASSERT_OK(qp().PostRead(Span(0, got[i].size()), Local(got[i]), Purpose::kRead, &ticket));
    ASSERT_OK(qp().PostWrite(from, Span((i + 1) * kBytes, from.bytes), Purpose::kFlush, &ticket));
    ASSERT_OK(
        qp().PostFetchAdd(Span(kRegionBytes - 8, 8), 1, &prior, Purpose::kPublication, &ticket));
    if (i % 10 == 0) {
      ASSERT_OK(qp().Ring());
    }
  }
  ASSERT_OK(qp().Wait(ticket, Soon()));
  EXPECT_EQ(prior, kRounds - 1);
  for (size_t i = 0; i < kRounds; ++i) {
    ASSERT_EQ(got[i], source.substr(0, got[i].size()));
    ASSERT_EQ(std::memcmp(node_->data() + (i + 1) * kBytes, source.data(), kBytes - i), 0);
  }
}

// Fails if a Wait() for an early ticket misses its data, or disturbs what is posted after it.
TEST_P(FabricTest, WaitsForSomeOfManyTickets) {
  for (uint64_t i = 0; i < 256; ++i) node_->data()[i] = static_cast<char>(i);
  std::string got(256, '?');
  std::vector<Ticket> tickets(256);
  for (size_t i = 0; i < 256; ++i) {
    const LocalSpan to{got.data() + i, 1, 0};
    ASSERT_OK(qp().PostRead(Span(i, 1), to, Purpose::kRead, &tickets[i]));
    if (i < 8 || i % 8 != 0) continue;
    ASSERT_OK(qp().Wait(tickets[i - 8], Soon()));
    for (size_t j = 0; j <= i - 8; ++j) ASSERT_EQ(got[j], static_cast<char>(j));
  }
  ASSERT_OK(qp().Wait(tickets[3], Soon()));
  ASSERT_OK(qp().Wait(tickets[255], Soon()));
  for (size_t j = 0; j < 256; ++j) ASSERT_EQ(got[j], static_cast<char>(j));
}

// Fails if a small transfer, or an atomic, overtakes a large one that was posted before it.
TEST_P(FabricTest, TransfersOfEverySizeKeepTheirOrder) {
  constexpr size_t kLarge = 1 << 20;
  constexpr int kLargeOnes = 6;
  const uint64_t ends_at = kLarge - 8;
  const auto post_large = [&](std::string& large) {
    Ticket ticket{};
    for (int i = 0; i < kLargeOnes; ++i) {
      ASSERT_OK(qp().PostWrite(Local(large), Span(0, kLarge), Purpose::kFlush, &ticket));
      ASSERT_OK(qp().Ring());
    }
  };
  const char last = kind() == FabricKind::kVerbs ? 'b' : 'z';  // An emulated device takes its time.
  for (char round = 'a'; round <= last; ++round) {
    std::string large(kLarge, round);
    std::string end(7, '?');
    Ticket ticket{};
    ASSERT_NO_FATAL_FAILURE(post_large(large));
    ASSERT_OK(qp().PostRead(Span(ends_at, end.size()), Local(end), Purpose::kRead, &ticket));
    ASSERT_OK(qp().Wait(ticket, Soon()));
    ASSERT_EQ(end, std::string(end.size(), round));
    if (!TestMemoryNode::HasAtomics(kind())) continue;
    const auto other = static_cast<char>(round - 'a' + 'A');
    std::string others(kLarge, other);
    uint64_t prior = 0;
    ASSERT_NO_FATAL_FAILURE(post_large(others));
    ASSERT_OK(qp().PostFetchAdd(Span(ends_at, 8), 0, &prior, Purpose::kPublication, &ticket));
    ASSERT_OK(qp().Wait(ticket, Soon()));
    ASSERT_EQ(prior & 0xff, static_cast<uint64_t>(other));
  }
}

// Fails if something still arrives for a queue pair that is gone, whose buffers are somebody else's
// then.
TEST_P(FabricTest, NothingArrivesForAQueuePairThatIsGone) {
  constexpr size_t kBytes = 1 << 20;
  constexpr size_t kReads = 8;
  const int rounds = kind() == FabricKind::kVerbs ? 2 : 8;
  for (int round = 0; round < rounds; ++round) {
    std::string to(kReads * kBytes, '?');
    Ticket ticket{};
    std::unique_ptr<QueuePair> queue_pair = NewQueuePair();
    for (size_t i = 0; i < kReads; ++i) {
      const LocalSpan part{to.data() + i * kBytes, kBytes, 0};
      ASSERT_OK(queue_pair->PostRead(Span(0, kBytes), part, Purpose::kRead, &ticket));
      ASSERT_OK(queue_pair->Ring());
    }
    queue_pair.reset();
    to.assign(kReads * kBytes, 'x');
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_EQ(to.find_first_not_of('x'), std::string::npos);
  }
}

// Fails if queue pairs share state that they must not, or if an atomic is not atomic.
TEST_P(FabricTest, ThreadsEachHaveTheirQueuePair) {
  if (!TestMemoryNode::HasAtomics(kind())) GTEST_SKIP() << "this device has no atomics";
  constexpr int kThreads = 4;
  constexpr int kAdds = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      const std::unique_ptr<QueuePair> mine = NewQueuePair();
      Random random(static_cast<uint64_t>(t));
      const auto base = static_cast<uint64_t>(t + 1) << 20;
      for (int i = 0; i < kAdds; ++i) {
        uint64_t prior = 0;
        std::string out = random.Bytes(1 + random.Uniform(5000));
        std::string in(out.size(), '?');
        Ticket ticket{};
        ASSERT_OK(mine->PostFetchAdd(Span(0, 8), 1, &prior, Purpose::kPublication, &ticket));
        ASSERT_OK(mine->PostWrite(Local(out), Span(base, out.size()), Purpose::kFlush, &ticket));
        ASSERT_OK(mine->PostRead(Span(base, in.size()), Local(in), Purpose::kRead, &ticket));
        ASSERT_OK(mine->Wait(ticket, Soon()));
        ASSERT_EQ(in, out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(CompareAndSwap(0, 0, 0), uint64_t{kThreads} * kAdds);
}

// Fails if any fabric counts in its own way: the rule is written in queue_pair_ledger.h.
TEST_P(FabricTest, CountsByTheRule) {
  if (!TestMemoryNode::HasAtomics(kind())) GTEST_SKIP() << "this device has no atomics";
  std::string bytes(100, 'b');
  uint64_t prior = 0;
  Ticket first{}, second{}, third{};
  ASSERT_OK(qp().PostRead(Span(0, 100), Local(bytes), Purpose::kRead, &first));
  ASSERT_OK(qp().PostWrite(Local(bytes), Span(0, 100), Purpose::kFlush, &second));
  ASSERT_OK(qp().Ring());  // A doorbell, for the flush.
  ASSERT_OK(qp().Ring());  // Nothing to ring for.
  ASSERT_OK(qp().PostFetchAdd(Span(8, 8), 1, &prior, Purpose::kPublication, &third));
  ASSERT_OK(qp().Wait(first, Soon()));  // A doorbell and a round trip, for the atomic.
  ASSERT_OK(qp().Wait(first, Soon()));  // Nothing outstanding.
  ASSERT_OK(qp().Wait(third, Soon()));  // A round trip.
  ASSERT_OK(qp().Wait(second, Soon()));
  qp().CountDirectRead(50, Purpose::kRead);
  qp().CountDirectWrite(70, Purpose::kCompaction);

  const auto expect = [&](Purpose purpose, WireCounts expected) {
    SCOPED_TRACE(PurposeName(purpose));
    const WireCounts counts = connection_->Totals()[static_cast<size_t>(purpose)];
    EXPECT_EQ(counts.round_trips, expected.round_trips);
    EXPECT_EQ(counts.work_requests, expected.work_requests);
    EXPECT_EQ(counts.doorbells, expected.doorbells);
    EXPECT_EQ(counts.read_bytes, expected.read_bytes);
    EXPECT_EQ(counts.write_bytes, expected.write_bytes);
  };
  for (int i = 0; i < 2; ++i) {
    expect(Purpose::kRead, {1, 2, 1, 150, 0});
    expect(Purpose::kFlush, {0, 1, 1, 0, 100});
    expect(Purpose::kCompaction, {1, 1, 1, 0, 70});
    expect(Purpose::kPublication, {2, 1, 1, 8, 8});
    expect(Purpose::kRpc, {});
    queue_pair_.reset();  // What it counted stays.
  }
}

// Fails if Direct() offers bytes that are not the remote ones, or none where they are at hand.
TEST_P(FabricTest, OffersBytesInPlaceWhereItCan) {
  Write(4096, "in place");
  char* direct = qp().Direct(Span(4096, 8));
  ASSERT_EQ(direct != nullptr, IsDirect());
  if (!IsDirect()) return;
  EXPECT_EQ(std::string(direct, 8), "in place");
  std::memcpy(direct, "changed!", 8);
  EXPECT_EQ(Read(4096, 8), "changed!");
  EXPECT_EQ(qp().Direct(Span(kRegionBytes, 1)), nullptr);
  EXPECT_EQ(qp().Direct(RemoteSpan{kTestNode, RegionId{9}, 0, 1}), nullptr);
}

// Fails if buffers overlap, are too small or die with their connection.
TEST_P(FabricTest, BuffersAreApartAndOutliveTheirConnection) {
  RegisteredBuffer a, b;
  ASSERT_OK(connection_->NewBuffer(5000, &a));
  ASSERT_OK(connection_->NewBuffer(5000, &b));
  std::memset(a.data(), 'a', a.bytes());
  std::memset(b.data(), 'b', b.bytes());
  EXPECT_EQ(std::string(a.data(), a.bytes()), std::string(5000, 'a'));
  const char* reused = b.data();
  b = RegisteredBuffer();
  ASSERT_OK(connection_->NewBuffer(6000, &b));
  EXPECT_EQ(b.data(), reused);
  ASSERT_OK(connection_->NewBuffer(0, &b));
  EXPECT_TRUE(connection_->NewBuffer(~size_t{0}, &b).IsInvalidArgument());
  queue_pair_.reset();
  connection_.reset();
  a.data()[4999] = 'z';
}

std::string ParamName(const testing::TestParamInfo<std::tuple<Named<FabricKind>, bool>>& info) {
  std::string name = std::get<0>(info.param).name;
  if (std::get<1>(info.param)) name += "Simulated";
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    EveryFabric, FabricTest,
    testing::Combine(testing::Values(Named<FabricKind>{"local", FabricKind::kLocal},
                                     Named<FabricKind>{"shm", FabricKind::kShm},
                                     Named<FabricKind>{"tcp", FabricKind::kTcp},
                                     Named<FabricKind>{"verbs", FabricKind::kVerbs}),
                     testing::Bool()),
    ParamName);

TEST(FabricKindTest, NamesGoThereAndBack) {
  for (const FabricKind kind :
       {FabricKind::kLocal, FabricKind::kShm, FabricKind::kTcp, FabricKind::kVerbs}) {
    EXPECT_EQ(FabricKindFromName(FabricKindName(kind)), kind);
  }
  EXPECT_EQ(FabricKindFromName("SHM"), std::nullopt);
  EXPECT_EQ(FabricKindFromName(""), std::nullopt);
}

TEST(FabricFactoryTest, SaysWhatIsNotThere) {
  FabricOptions options;
  std::unique_ptr<FabricConnection> connection;
  FabricPeer peer;
  peer.regions = {RegionInfo{kTestRegion, 4096, ""}};

  options.kind = FabricKind::kVerbs;
  EXPECT_TRUE(ConnectFabric(options, peer, Soon(), &connection).IsInvalidArgument());  // No token.
  options.kind = FabricKind::kLocal;
  EXPECT_TRUE(ConnectFabric(options, peer, Soon(), &connection).IsIOError());
  options.kind = FabricKind::kShm;
  EXPECT_TRUE(ConnectFabric(options, peer, Soon(), &connection).IsNotSupported());
  options.kind = FabricKind::kTcp;
  EXPECT_TRUE(ConnectFabric(options, peer, Soon(), &connection).IsInvalidArgument());  // No token.
  peer.data_token = std::string(32, 'x');
  peer.host = "no.such.host.invalid";
  if (!TestMemoryNode::WhyNot(FabricKind::kVerbs).empty()) {
    options.kind = FabricKind::kVerbs;
    const Status status = ConnectFabric(options, peer, Soon(), &connection);
    EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
    EXPECT_NE(status.ToString().find("verbs fabric cannot be used"), std::string::npos);
  }
  options.kind = FabricKind::kTcp;
  EXPECT_TRUE(ConnectFabric(options, peer, Soon(), &connection).IsIOError());
  EXPECT_EQ(connection, nullptr);
}

}  // namespace
}  // namespace dlsm
