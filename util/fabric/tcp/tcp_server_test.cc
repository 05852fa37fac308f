// The memory node's side of the tcp fabric among strangers and misfortunes: peers that send
// rubbish, stop reading, go away or are expelled. The client's: tcp_client_test.cc.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "port/sync_point.h"
#include "util/eventually_testing.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_frame_testing.h"
#include "util/fabric/tcp/tcp_hello.h"
#include "util/fabric/tls/tcp_wait.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class TcpServerTest : public testing::Test {
 protected:
  TcpServerTest() : node_(FabricKind::kTcp, 8 << 20) {
    options_.kind = FabricKind::kTcp;
    const Status status = ConnectFabric(options_, node_.Peer(), Soon(), &connection_);
    EXPECT_TRUE(status.ok()) << status.ToString();
    queue_pair_ = NewQueuePair();
  }

  std::unique_ptr<QueuePair> NewQueuePair() {
    std::unique_ptr<QueuePair> made;
    const Status status = connection_->NewQueuePair(Soon(), &made);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return made;
  }
  QueuePair& qp() { return *queue_pair_; }

  // A stranger's connection that has shown `token`.
  FileDescriptor DialRaw(const std::string& token) {
    FileDescriptor socket = DialLoopback(node_.port());
    SayTcpHello(socket.get(), token, node_.key());
    return socket;
  }

  void ExpectOthersAreServed() {
    std::string got(8, '?');
    Ticket ticket{};
    ASSERT_TRUE(qp().PostRead(node_.Span(0, 8), Local(got), Purpose::kRead, &ticket).ok());
    const Status status = qp().Wait(ticket, Soon());
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  TestMemoryNode node_;
  FabricOptions options_;
  std::unique_ptr<FabricConnection> connection_;
  std::unique_ptr<QueuePair> queue_pair_;
};

TEST_F(TcpServerTest, AnswersFramesByTheBook) {
  const FileDescriptor socket = DialRaw(node_.token());
  std::memcpy(node_.data() + 16, "abc", 3);
  SendAll(socket.get(), Encoded(TcpRequest{TcpOpcode::kHello, 5, RegionId{}, 0, 0, 0}) +
                            Encoded(TcpRequest{TcpOpcode::kRead, 6, kTestRegion, 16, 3, 0}));
  const std::string expected = Encoded(TcpReply{TcpOpcode::kHello, TcpCode::kOk, 5, 0}) +
                               Encoded(TcpReply{TcpOpcode::kRead, TcpCode::kOk, 6, 3}) + "abc";
  EXPECT_EQ(ReceiveUpTo(socket.get(), expected.size()), expected);
}

// Fails if bytes or connections are not counted. The last reply may be counted after it has
// arrived: so may that of the test's own queue pair.
TEST_F(TcpServerTest, CountsTraffic) {
  EXPECT_TRUE(Eventually([&] { return node_.tcp().Traffic().sent >= TcpReply::kBytes; }));
  const TcpTraffic before = node_.tcp().Traffic();
  const size_t connections = node_.tcp().Connections();
  const FileDescriptor socket = DialRaw(node_.token());
  SendAll(socket.get(), Encoded(TcpRequest{TcpOpcode::kHello, 5, RegionId{}, 0, 0, 0}) +
                            Encoded(TcpRequest{TcpOpcode::kRead, 6, kTestRegion, 16, 100, 0}));
  EXPECT_EQ(ReceiveUpTo(socket.get(), 2 * TcpReply::kBytes + 100).size(),
            2 * TcpReply::kBytes + 100);
  EXPECT_EQ(node_.tcp().Connections(), connections + 1);
  EXPECT_TRUE(Eventually([&] {
    const TcpTraffic now = node_.tcp().Traffic();
    return now.received - before.received == 2 * TcpRequest::kBytes &&
           now.sent - before.sent == 2 * TcpReply::kBytes + 100;
  }));
}

// Fails under ThreadSanitizer if what a fabric thread reads for a peer is not ordered before what
// this peer, having the answer, makes another thread of the memory node do: give the memory to
// somebody else, who writes to it.
TEST_F(TcpServerTest, AReadIsOverBeforeItsReaderGivesBackTheMemory) {
  std::string got(64, '?');
  Ticket ticket{};
  ASSERT_TRUE(qp().PostRead(node_.Span(0, got.size()), Local(got), Purpose::kRead, &ticket).ok());
  ASSERT_TRUE(qp().Wait(ticket, Soon()).ok());
  node_.order().AfterReceive();
  std::memset(node_.data(), 'n', got.size());
}

// Fails if a wrong, short or missing token learns or changes anything.
TEST_F(TcpServerTest, RefusesWrongTokens) {
  for (const std::string& token : {std::string(kTcpTokenBytes, 'x'), node_.token().substr(1) + "x",
                                   std::string(kTcpTokenBytes, '\0')}) {
    const FileDescriptor socket = DialRaw(token);
    EXPECT_EQ(ReceiveUpTo(socket.get(), 1), "");
  }
  FabricPeer peer = node_.Peer();
  peer.data_token = std::string(kTcpTokenBytes, 'x');
  std::unique_ptr<FabricConnection> connection;
  ASSERT_TRUE(ConnectFabric(options_, peer, Soon(), &connection).ok());
  std::unique_ptr<QueuePair> refused;
  const Status status = connection->NewQueuePair(Soon(), &refused);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  ExpectOthersAreServed();
}

// Fails if the memory node's log says of a client that goes, or is silent, what the client would
// have to be told of a memory node.
TEST_F(TcpServerTest, SaysOfClientsWhatTheyDidNotDo) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  FileDescriptor client(ends[0]);
  TcpStream served{FileDescriptor(ends[1])};
  std::string token;
  Status status = node_.tcp().Greet(served, Deadline::In(milliseconds(0)), &token);
  EXPECT_TRUE(status.IsTimedOut());
  EXPECT_NE(status.ToString().find("it did not show its token in time"), std::string::npos)
      << status.ToString();
  client.Close();
  status = node_.tcp().Greet(served, Soon(), &token);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_NE(status.ToString().find("it did not show its token before"), std::string::npos)
      << status.ToString();
}

// A client that gives up resets its connection, and its memory is another's then. Fails if a memory
// node that stood still after it was told of a write, but not of the reset, carries the write out.
TEST_F(TcpServerTest, WhatWasTakenBackMeanwhileIsNotCarriedOut) {
  FileDescriptor socket = DialRaw(node_.token());
  SendAll(socket.get(), Encoded(TcpRequest{TcpOpcode::kHello, 5, RegionId{}, 0, 0, 0}));
  ReceiveUpTo(socket.get(), TcpReply::kBytes);
  std::this_thread::sleep_for(milliseconds(100));  // Until it has nothing else to be told.
  static std::atomic<bool> told;
  static std::atomic<bool> reset_since;
  static std::atomic<bool> goes_on;
  told = reset_since = goes_on = false;
  port::SyncPointHookOfProcess() = [](const char* place) {
    if (std::strcmp(place, "tcp server: told") != 0 || told.exchange(true)) return;
    while (!reset_since) std::this_thread::sleep_for(milliseconds(1));
    goes_on = true;
  };
  SendAll(socket.get(), Encoded(TcpRequest{TcpOpcode::kWrite, 6, kTestRegion, 16, 4, 0}) + "late");
  while (!told) std::this_thread::sleep_for(milliseconds(1));
  const linger reset{1, 0};
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
  socket.Close();
  std::this_thread::sleep_for(milliseconds(400));
  reset_since = true;
  while (!goes_on) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(100));
  port::SyncPointHookOfProcess() = nullptr;
  ExpectOthersAreServed();
  EXPECT_EQ(std::string(node_.data() + 16, 4), std::string(4, '\0'));
}

// A memory node that is late is told of a write that its client has given up, but not reset the
// connection for yet, and is held up once more. Fails if the write is carried out after its client
// was told that it has failed: by then its place may be another's.
TEST_F(TcpServerTest, WhatHasFailedIsNotCarriedOutAfterwards) {
  static constexpr auto kNever = Deadline::Clock::time_point{};
  static std::atomic<int> rounds;
  static std::atomic<Deadline::Clock::time_point> given_up_at;
  static std::atomic<bool> has_failed;
  static std::atomic<bool> goes_on;
  rounds = 0;
  given_up_at = kNever;
  has_failed = goes_on = false;
  port::SyncPointHookOfProcess() = [](const char* place) {
    if (std::strcmp(place, "tcp server: told") != 0) return;
    const int round = ++rounds;
    if (round == 1) {
      while (given_up_at.load() == kNever) std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_until(given_up_at.load() + kTcpDrain * 3 / 4);
    } else if (round == 2) {
      while (!has_failed) std::this_thread::sleep_for(milliseconds(1));
      goes_on = true;
    }
  };
  std::string got(8, '?');
  std::string late = "late";
  Ticket ticket{};
  EXPECT_OK(qp().PostRead(node_.Span(0, 8), Local(got), Purpose::kRead, &ticket));
  EXPECT_OK(qp().Ring());
  while (rounds == 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_OK(qp().PostWrite(Local(late), node_.Span(16, 4), Purpose::kFlush, &ticket));
  const Deadline deadline = Deadline::In(milliseconds(10));
  given_up_at = deadline.time_point();
  const Status status = qp().Wait(ticket, deadline);
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  const std::string there(node_.data() + 16, 4);
  has_failed = true;
  while (!goes_on) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(100));
  port::SyncPointHookOfProcess() = nullptr;
  EXPECT_EQ(std::string(node_.data() + 16, 4), there);
}

// Fails if who has read a token, or a whole hello, from the network gets in with it.
TEST_F(TcpServerTest, ATokenAloneOpensNothing) {
  const FileDescriptor thief = DialLoopback(node_.port());
  TcpHello stolen(node_.token(), "another key");
  std::string opening;
  ASSERT_OK(stolen.Open(&opening));
  SendAll(thief.get(), std::string(kTcpPreamble) + opening);
  const std::string challenge = ReceiveUpTo(thief.get(), kTcpChallengeBytes);
  ASSERT_EQ(challenge.size(), kTcpChallengeBytes);
  std::string proof;
  EXPECT_FALSE(stolen.Answer(challenge, &proof)) << "who has no key cannot tell who answers";
  // What somebody else has proved a moment ago, to another challenge.
  TcpHello honest(node_.token(), node_.key());
  ASSERT_OK(honest.Open(&opening));
  std::string others;
  std::string expected;
  ASSERT_OK(MakeTcpChallenge(opening, node_.key(), &others, &expected));
  ASSERT_TRUE(honest.Answer(others, &proof));
  EXPECT_EQ(proof, expected);
  SendAll(thief.get(), proof + Encoded(TcpRequest{}));
  EXPECT_EQ(ReceiveUpTo(thief.get(), 1), "");
  ExpectOthersAreServed();
}

// Fails if the server trusts a client's bounds: these requests come from one that checks nothing.
TEST_F(TcpServerTest, RefusesRequestsOutOfBounds) {
  const uint64_t end = node_.bytes();
  const TcpRequest bad[] = {
      {TcpOpcode::kRead, 1, kTestRegion, end, 1, 0},
      {TcpOpcode::kRead, 1, kTestRegion, 1, ~uint64_t{0}, 0},
      {TcpOpcode::kWrite, 1, kTestRegion, end - 1, 2, 0},
      {TcpOpcode::kWrite, 1, kTestRegion, ~uint64_t{0}, 2, 0},
      {TcpOpcode::kWrite, 1, RegionId{99}, 0, 2, 0},
      {TcpOpcode::kFetchAdd, 1, kTestRegion, 4, 1, 0},
      {TcpOpcode::kCompareAndSwap, 1, kTestRegion, end - 7, 1, 0},
      {TcpOpcode::kFetchAdd, 1, kTestRegion, ~uint64_t{7}, 1, 0},
  };
  for (const TcpRequest& request : bad) {
    const FileDescriptor socket = DialRaw(node_.token());
    SendAll(socket.get(), Encoded(request));
    const std::string expected =
        Encoded(TcpReply{request.opcode, TcpCode::kOutOfBounds, request.sequence, 0});
    EXPECT_EQ(ReceiveUpTo(socket.get(), 100), expected) << "and then the end";
  }
  ExpectOthersAreServed();
}

TEST_F(TcpServerTest, TellsItsVersionToPeersOfAnother) {
  const FileDescriptor socket = DialRaw(node_.token());
  std::string request = Encoded(TcpRequest{});
  request[0] = 9;
  SendAll(socket.get(), request);
  const std::string got = ReceiveUpTo(socket.get(), 100);
  ASSERT_EQ(got.size(), TcpReply::kBytes);
  TcpReply reply;
  ASSERT_EQ(reply.Decode(got.data()), TcpCode::kOk);
  EXPECT_EQ(reply.code, TcpCode::kOtherVersion);
}

// Fails if rubbish, a request cut at any byte, or a flipped bit crashes the server, changes memory
// or disturbs others.
TEST_F(TcpServerTest, SurvivesMalformedFrames) {
  Random random(5);
  // Each to bytes of its own: two connections' writes to the same bytes would be a race by
  // themselves.
  for (size_t cut = 0; cut < TcpRequest::kBytes + 16; ++cut) {
    const TcpRequest write{TcpOpcode::kWrite, 1, kTestRegion, 8192 + 16 * cut, 16, 0};
    const FileDescriptor socket = DialRaw(node_.token());
    SendAll(socket.get(), (Encoded(write) + std::string(16, '\0')).substr(0, cut));
  }
  for (size_t bit = 0; bit < 8 * TcpRequest::kBytes; ++bit) {
    std::string flipped =
        Encoded(TcpRequest{TcpOpcode::kWrite, 1, kTestRegion, 4096, 4, 0}) + "evil";
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const FileDescriptor socket = DialRaw(node_.token());
    SendAll(socket.get(), flipped);
    const std::string got = ReceiveUpTo(socket.get(), 100);
    TcpReply reply;
    ASSERT_EQ(got.size(), TcpReply::kBytes);
    ASSERT_EQ(reply.Decode(got.data()), TcpCode::kOk);
    EXPECT_NE(reply.code, TcpCode::kOk);
  }
  for (int i = 0; i < 100; ++i) {
    const FileDescriptor socket = DialRaw(node_.token());
    SendAll(socket.get(), random.Bytes(random.Uniform(5000)));
  }
  ExpectOthersAreServed();
  EXPECT_EQ(std::string(node_.data() + 4096, 16), std::string(16, '\0'));
}

// Fails if requests depend on how the network cuts them.
TEST_F(TcpServerTest, AcceptsRequestsByteByByte) {
  const FileDescriptor socket = DialRaw(node_.token());
  std::string bytes;
  for (uint32_t i = 0; i < 3; ++i) {
    bytes += Encoded(TcpRequest{TcpOpcode::kWrite, i, kTestRegion, 100 + 3 * i, 3, 0}) + "xyz";
  }
  bytes += Encoded(TcpRequest{TcpOpcode::kRead, 3, kTestRegion, 100, 9, 0});
  for (const char c : bytes) {
    SendAll(socket.get(), std::string(1, c));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const std::string got = ReceiveUpTo(socket.get(), 4 * TcpReply::kBytes + 9);
  ASSERT_EQ(got.size(), 4 * TcpReply::kBytes + 9);
  EXPECT_EQ(got.substr(4 * TcpReply::kBytes), "xyzxyzxyz");
}

// Fails if a peer that asks and never reads makes the server hold its requests, or stops others.
// Its requests must come to rest in its own socket.
TEST_F(TcpServerTest, APeerThatNeverReadsHurtsOnlyItself) {
  const FileDescriptor socket = DialRaw(node_.token());
  std::string requests;
  for (uint32_t i = 0; i < 1000; ++i) {
    requests += Encoded(TcpRequest{TcpOpcode::kRead, i, kTestRegion, 0, 1 << 20, 0});
  }
  timeval patience{0, 300'000};
  ASSERT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
  size_t taken = 0;
  while (taken < (size_t{256} << 20)) {
    const ssize_t n = ::send(socket.get(), requests.data(), requests.size(), MSG_NOSIGNAL);
    if (n < static_cast<ssize_t>(requests.size())) break;
    taken += static_cast<size_t>(n);
  }
  EXPECT_LT(taken, size_t{64} << 20) << "the server kept receiving";
  ExpectOthersAreServed();
}

// Fails if a revoked token still opens connections, or the old ones stay open.
TEST_F(TcpServerTest, ARevokedTokenEndsItsConnections) {
  const std::string mine(kTcpTokenBytes, 'm');
  node_.tcp().AllowToken(mine, node_.key());
  const FileDescriptor expelled = DialRaw(mine);
  SendAll(expelled.get(), Encoded(TcpRequest{}));
  EXPECT_EQ(ReceiveUpTo(expelled.get(), TcpReply::kBytes).size(), TcpReply::kBytes);
  EXPECT_OK(node_.tcp().RevokeToken(mine));
  EXPECT_EQ(ReceiveUpTo(expelled.get(), 1), "");
  EXPECT_EQ(ReceiveUpTo(DialRaw(mine).get(), 1), "");
  ExpectOthersAreServed();
}

// Fails if a wait outlasts its memory node by more than the moment it takes to notice.
TEST_F(TcpServerTest, AMemoryNodesDeathEndsWaits) {
  std::thread killer([this] {
    std::this_thread::sleep_for(milliseconds(100));
    node_.Die();
  });
  std::string got(4 << 20, '?');
  Status status;
  const auto start = Deadline::Clock::now();
  while (status.ok()) {
    Ticket ticket{};
    status = qp().PostRead(node_.Span(0, got.size()), Local(got), Purpose::kRead, &ticket);
    if (status.ok()) status = qp().Wait(ticket, Soon());
  }
  EXPECT_LT(Deadline::Clock::now() - start, seconds(20));
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_NE(status.ToString().find("memory node 7 at 127.0.0.1:"), std::string::npos)
      << status.ToString();
  EXPECT_TRUE(qp().closed());
  killer.join();
  std::unique_ptr<QueuePair> none;
  EXPECT_TRUE(connection_->NewQueuePair(Soon(), &none).IsIOError());
}

// An idle connection must not keep a processor busy.
TEST_F(TcpServerTest, IdleConnectionsCostNoTime) {
  std::vector<std::unique_ptr<QueuePair>> idle;
  for (int i = 0; i < 16; ++i) idle.push_back(NewQueuePair());
  const auto cpu_ms = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
  };
  std::this_thread::sleep_for(milliseconds(50));
  const auto before = cpu_ms();
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LT(cpu_ms() - before, 100);
}

TEST(TcpServerStartTest, RefusesSillyThreadCounts) {
  std::unique_ptr<TcpFabricServer> server;
  MessageOrder order;
  EXPECT_TRUE(TcpFabricServer::Start({}, 0, kTestPoll, &order, &server).IsInvalidArgument());
  EXPECT_TRUE(TcpFabricServer::Start({}, 100'000, kTestPoll, &order, &server).IsInvalidArgument());
}

}  // namespace
}  // namespace dlsm
