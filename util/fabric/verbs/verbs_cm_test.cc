// Queue pairs that the RDMA connection manager connects: who is let in, what is agreed on, and that
// every wait for it ends. That they then carry transfers as others do is the subject of
// fabric_test.cc, verbs_test.cc and verbs_isolation_test.cc, which run over them with
// DLSM_TEST_RDMA_DEVICE=connection=cm. All of it needs a device, and is skipped without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/tcp/peer_dialer.h"
#include "util/fabric/tls/tcp_wait.h"
#include "util/fabric/verbs/verbs_cm_connect.h"
#include "util/fabric/verbs/verbs_cm_frame.h"
#include "util/fabric/verbs/verbs_cm_id.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/fabric/verbs/verbs_socket.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

VerbsOptions Connecting(VerbsConnect connect) {
  VerbsOptions options = TestVerbsOptions();
  options.connect = connect;
  return options;
}

class VerbsCmTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = uint64_t{1} << 20;

  void SetUp() override {
    const std::string why_not = TestMemoryNode::WhyNot(FabricKind::kVerbs);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    const VerbsCmLibrary* library = nullptr;
    const Status status = VerbsCmLibrary::Get(&library);
    if (!status.ok()) GTEST_SKIP() << status.ToString();
    ASSERT_OK(VerbsDevice::Open(Connecting(VerbsConnect::kCm), &device_));
    ASSERT_OK(VerbsDomain::Create(device_, &domain_));
    Start(Connecting(VerbsConnect::kAuto));
  }
  void Start(const VerbsOptions& server) {
    node_ = std::make_unique<TestMemoryNode>(FabricKind::kVerbs, kBytes, server);
  }

  // Writes bytes and reads them back.
  Status Use(const VerbsOptions& client) {
    std::unique_ptr<FabricConnection> connection;
    std::unique_ptr<QueuePair> queue_pair;
    Status status = VerbsConnection::Connect(client, kNoNumaNode, node_->Peer(), &connection);
    if (status.ok()) status = connection->NewQueuePair(Soon(), &queue_pair);
    if (!status.ok()) return status;
    std::string out = Random(7).Bytes(300'000);
    std::string in(out.size(), '?');
    Ticket ticket{};
    const RemoteSpan span = node_->Span(77, out.size());
    EXPECT_OK(queue_pair->PostWrite({out.data(), out.size(), 0}, span, Purpose::kFlush, &ticket));
    EXPECT_OK(queue_pair->Wait(ticket, Soon()));
    EXPECT_OK(queue_pair->PostRead(span, {in.data(), in.size(), 0}, Purpose::kRead, &ticket));
    status = queue_pair->Wait(ticket, Soon());
    EXPECT_TRUE(!status.ok() || in == out);
    return status;
  }

  // Offers a queue pair with a good token, and keeps the answer; makes no request.
  FileDescriptor Offer(VerbsCmAnswer* answer) {
    PeerDialer dialer;
    FileDescriptor socket;
    VerbsCmOffer offer;
    std::string body;
    EXPECT_OK(PeerDialer::Resolve(node_->Peer(), &dialer));
    EXPECT_OK(dialer.Dial(Soon(), &socket));
    EXPECT_OK(NewEndpoint()->DescribeLimits({}, &offer.limits));
    SendAll(socket.get(), std::string(kVerbsPreamble) + node_->token() +
                              EncodeVerbsFrame(VerbsFrameKind::kCmOffer, offer.Encode()));
    EXPECT_OK(ReceiveVerbsAnswer("the memory node", socket.get(), Soon(), VerbsFrameKind::kCmAnswer,
                                 &body));
    EXPECT_OK(answer->Decode(body));
    return socket;
  }
  std::unique_ptr<VerbsEndpoint> NewEndpoint() {
    std::unique_ptr<VerbsEndpoint> endpoint;
    EXPECT_OK(VerbsEndpoint::Create(domain_, VerbsEndpoint::Role::kClient, &endpoint));
    return endpoint;
  }

  // What comes of a request with that greeting.
  rdma_cm_event_type Request(const VerbsCmAnswer& where, const std::string& greeting) {
    const std::unique_ptr<VerbsEndpoint> endpoint = NewEndpoint();
    std::shared_ptr<VerbsCmChannel> channel;
    std::unique_ptr<VerbsCmId> id;
    VerbsLimits own;
    EXPECT_OK(endpoint->DescribeLimits({}, &own));
    EXPECT_OK(VerbsCmChannel::Create(&channel));
    EXPECT_OK(channel->NewId(&id));
    EXPECT_OK(id->ResolveAddress({}, where.address, where.port, 0, milliseconds(2000)));
    EXPECT_EQ(Next(*channel), RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_OK(id->ResolveRoute(milliseconds(2000)));
    EXPECT_EQ(Next(*channel), RDMA_CM_EVENT_ROUTE_RESOLVED);
    EXPECT_OK(endpoint->InitialiseBy(*id));
    EXPECT_OK(id->Connect(*endpoint->queue_pair(), 1, device_->options(), greeting));
    const rdma_cm_event_type answer = Next(*channel);
    endpoint->Keep(std::move(id));
    return answer;
  }
  bool LetsIn(const VerbsCmAnswer& where, const std::string& greeting) {
    const rdma_cm_event_type answer = Request(where, greeting);
    if (answer == RDMA_CM_EVENT_REJECTED) return false;
    EXPECT_EQ(answer,
              device_->is_iwarp() ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE);
    return true;
  }
  static rdma_cm_event_type Next(VerbsCmChannel& channel) {
    VerbsCmEvent event;
    bool taken = false;
    const Deadline deadline = Soon();
    while (!taken && !deadline.Passed()) {
      PollSocket(channel.descriptor(), POLLIN, deadline);
      EXPECT_OK(channel.Take(&event, &taken));
    }
    EXPECT_TRUE(taken) << "the connection manager reported nothing";
    return event.type;
  }

  // A memory node that answers, and then does nothing; *socket is the client's end to it.
  FileDescriptor AnswerOnly(const VerbsCmAnswer& answer, FileDescriptor* socket) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    *socket = FileDescriptor(ends[0]);
    SendAll(ends[1], EncodeVerbsFrame(VerbsFrameKind::kCmAnswer, answer.Encode()));
    return FileDescriptor(ends[1]);
  }

  std::shared_ptr<const VerbsDevice> device_;
  std::shared_ptr<const VerbsDomain> domain_;
  std::unique_ptr<TestMemoryNode> node_;
};

// Fails if a memory node that may take both refuses one, or if what the two ways leave behind
// disturbs the other.
TEST_F(VerbsCmTest, AMemoryNodeTakesEitherWay) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_OK(Use(Connecting(VerbsConnect::kCm)));
    if (!device_->is_iwarp()) {
      EXPECT_OK(Use(Connecting(VerbsConnect::kHello)));
    }
    EXPECT_OK(Use(Connecting(VerbsConnect::kAuto)));
  }
}

// Fails if a memory node that was told one way takes the other, or does not say which to set.
TEST_F(VerbsCmTest, AMemoryNodeKeepsToTheWayItWasTold) {
  if (device_->is_iwarp()) GTEST_SKIP() << "this device knows one way only";
  Start(Connecting(VerbsConnect::kCm));
  EXPECT_OK(Use(Connecting(VerbsConnect::kCm)));
  EXPECT_THAT(Use(Connecting(VerbsConnect::kHello)).ToString(), HasSubstr("set connection=cm"));
  Start(Connecting(VerbsConnect::kHello));
  EXPECT_OK(Use(Connecting(VerbsConnect::kHello)));
  EXPECT_THAT(Use(Connecting(VerbsConnect::kCm)).ToString(), HasSubstr("connection=hello"));
}

// Fails if an iWARP device is taken for one that can do without the manager.
TEST_F(VerbsCmTest, IwarpNeedsTheManager) {
  if (!device_->is_iwarp()) GTEST_SKIP() << "this device is not iWARP";
  std::shared_ptr<const VerbsDevice> device;
  const Status status = VerbsDevice::Open(Connecting(VerbsConnect::kHello), &device);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("leave out connection=hello"));
}

// Fails if the ends do not agree on the packets' size or on how many reads there are at once: then
// nothing arrives, or reads fail.
TEST_F(VerbsCmTest, TheLessOfBothIsTaken) {
  for (const bool client_has_less : {false, true}) {
    VerbsOptions more = Connecting(VerbsConnect::kCm);
    VerbsOptions less = more;
    less.mtu_bytes = 512;
    less.reads_at_once = 1;
    more.reads_at_once = 64;
    Start(client_has_less ? more : less);
    EXPECT_OK(Use(client_has_less ? less : more));
  }
}

// Fails if a request is let in that does not show the nonce of an answer, or one that shows it
// again: whoever reaches the RDMA network could read all memory.
TEST_F(VerbsCmTest, ARequestNeedsItsOwnNonce) {
  VerbsCmAnswer answer;
  const FileDescriptor life_line = Offer(&answer);
  VerbsCmNonce other = answer.nonce;
  other[15] ^= 1;
  EXPECT_FALSE(LetsIn(answer, ""));
  EXPECT_FALSE(LetsIn(answer, std::string(VerbsCmGreeting::kBytes, 'x')));
  EXPECT_FALSE(LetsIn(answer, VerbsCmGreeting{other}.Encode()));
  EXPECT_TRUE(LetsIn(answer, VerbsCmGreeting{answer.nonce}.Encode()));
  EXPECT_FALSE(LetsIn(answer, VerbsCmGreeting{answer.nonce}.Encode()));
  EXPECT_OK(Use(Connecting(VerbsConnect::kCm)));
}

// Fails if a client that was cut off between the answer and its request is let in all the same.
TEST_F(VerbsCmTest, ARevokedTokenRejectsTheRequest) {
  VerbsCmAnswer answer;
  const FileDescriptor life_line = Offer(&answer);
  EXPECT_OK(node_->verbs().RevokeToken(node_->token()));
  EXPECT_FALSE(LetsIn(answer, VerbsCmGreeting{answer.nonce}.Encode()));
}

// Fails if a client that is gone before its request leaves its end open to whoever has the nonce.
TEST_F(VerbsCmTest, WithoutLifeLineNoRequest) {
  VerbsCmAnswer answer;
  FileDescriptor life_line = Offer(&answer);
  EXPECT_EQ(::shutdown(life_line.get(), SHUT_WR), 0);
  PollSocket(life_line.get(), POLLIN, Soon());  // Until the memory node has taken its end down.
  EXPECT_FALSE(LetsIn(answer, VerbsCmGreeting{answer.nonce}.Encode()));
}

// Fails if a client waits beyond its deadline for a request that nobody answers, or keeps its queue
// pair.
TEST_F(VerbsCmTest, AClientGivesUpAtItsDeadline) {
  if (device_->is_iwarp()) GTEST_SKIP() << "soft-iWARP itself waits for the TCP handshake";
  VerbsCmAnswer answer;
  { const FileDescriptor asked = Offer(&answer); }
  answer.address[15] = static_cast<uint8_t>(answer.address[15] ^ 0x50);  // Nobody is there.
  FileDescriptor socket;
  const FileDescriptor far = AnswerOnly(answer, &socket);
  const std::unique_ptr<VerbsEndpoint> endpoint = NewEndpoint();
  std::vector<VerbsRemoteMemory> memory;
  const auto begin = Deadline::Clock::now();
  const Status status = ArrangeByManager("the memory node", node_->token(), socket.get(),
                                         Deadline::In(milliseconds(300)), endpoint.get(), &memory);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.ToString(), HasSubstr("reachable from here?"));
  EXPECT_LT(Deadline::Clock::now() - begin, seconds(10));
  EXPECT_TRUE(memory.empty());
}

// Fails if a client goes on waiting when the memory node has already given up.
TEST_F(VerbsCmTest, AClientSeesTheLifeLineEnd) {
  if (device_->is_iwarp()) GTEST_SKIP() << "soft-iWARP itself waits for the TCP handshake";
  VerbsCmAnswer answer;
  { const FileDescriptor asked = Offer(&answer); }
  answer.address[15] = static_cast<uint8_t>(answer.address[15] ^ 0x50);  // Nobody is there.
  FileDescriptor socket;
  FileDescriptor far = AnswerOnly(answer, &socket);
  EXPECT_EQ(::shutdown(far.get(), SHUT_WR), 0);
  const std::unique_ptr<VerbsEndpoint> endpoint = NewEndpoint();
  std::vector<VerbsRemoteMemory> memory;
  const auto begin = Deadline::Clock::now();
  const Status status = ArrangeByManager("the memory node", node_->token(), socket.get(), Soon(),
                                         endpoint.get(), &memory);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_LT(Deadline::Clock::now() - begin, seconds(20));
}

// Fails if nobody is told why there is no connection where nobody listens.
TEST_F(VerbsCmTest, ARejectedRequestIsAnError) {
  VerbsCmAnswer answer;
  { const FileDescriptor asked = Offer(&answer); }
  answer.nonce[0] ^= 1;
  FileDescriptor socket;
  const FileDescriptor far = AnswerOnly(answer, &socket);
  const std::unique_ptr<VerbsEndpoint> endpoint = NewEndpoint();
  std::vector<VerbsRemoteMemory> memory;
  const Status status = ArrangeByManager("the memory node", node_->token(), socket.get(), Soon(),
                                         endpoint.get(), &memory);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("its log says why"));
}

// Fails if an atomic that the device cannot carry out hangs, crashes, or is not told apart from a
// broken network.
TEST_F(VerbsCmTest, AtomicsThatTheDeviceLacksAreRefused) {
  if (device_->has_atomics()) GTEST_SKIP() << "this device has atomics";
  std::unique_ptr<FabricConnection> connection;
  std::unique_ptr<QueuePair> queue_pair;
  ASSERT_OK(VerbsConnection::Connect(TestVerbsOptions(), kNoNumaNode, node_->Peer(), &connection));
  ASSERT_OK(connection->NewQueuePair(Soon(), &queue_pair));
  uint64_t prior = 0;
  Ticket ticket{};
  const Status status =
      queue_pair->PostFetchAdd(node_->Span(0, 8), 1, &prior, Purpose::kPublication, &ticket);
  EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("has no atomics"));
}

}  // namespace
}  // namespace dlsm
