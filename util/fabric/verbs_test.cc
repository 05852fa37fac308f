// What is the verbs fabric's own: splitting, sharing, isolation between clients, and what happens
// when the memory node goes or cuts a client off. That its transfers are right is fabric_test.cc's
// subject. All of it needs a device, and is skipped without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "util/fabric/fabric_testing.h"
#include "util/fabric/verbs_connect.h"
#include "util/fabric/verbs_frame.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Deadline Soon() { return Deadline::In(seconds(60)); }

class VerbsTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = (uint64_t{8} << 20) + 4096 + 24;

  void SetUp() override {
    const std::string why_not = TestMemoryNode::WhyNot(FabricKind::kVerbs);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    Start(kBytes, TestVerbsOptions(), TestVerbsOptions());
  }

  void Start(uint64_t bytes, std::shared_ptr<const VerbsDevice> device) {
    connection_.reset();
    node_ = std::make_unique<TestMemoryNode>(bytes, std::move(device));
    connection_ = ConnectAs(node_->token());
  }
  void Start(uint64_t bytes, const VerbsOptions& server, const VerbsOptions& client) {
    connection_.reset();
    node_ = std::make_unique<TestMemoryNode>(FabricKind::kVerbs, bytes, server);
    connection_ = ConnectAs(node_->token(), client);
  }
  std::unique_ptr<VerbsConnection> ConnectAs(const std::string& token,
                                             const VerbsOptions& options = TestVerbsOptions()) {
    FabricPeer peer = node_->Peer();
    peer.data_token = token;
    std::unique_ptr<FabricConnection> made;
    EXPECT_OK(VerbsConnection::Connect(options, peer, &made));
    return std::unique_ptr<VerbsConnection>(static_cast<VerbsConnection*>(made.release()));
  }
  std::unique_ptr<QueuePair> NewQueuePair(VerbsConnection& connection) {
    std::unique_ptr<QueuePair> made;
    EXPECT_OK(connection.NewQueuePair(Soon(), &made));
    return made;
  }
  std::unique_ptr<QueuePair> NewQueuePair() { return NewQueuePair(*connection_); }
  RegisteredBuffer NewBuffer(size_t bytes) {
    RegisteredBuffer buffer;
    EXPECT_OK(connection_->NewBuffer(bytes, &buffer));
    return buffer;
  }

  static bool connects_by_manager() {
    std::shared_ptr<const VerbsDevice> device;
    EXPECT_OK(VerbsDevice::Open(TestVerbsOptions(), &device));
    return device->connects_by_manager();
  }

  // Reads a few bytes.
  Status Touch(QueuePair& queue_pair, Deadline deadline = Soon()) {
    std::string bytes(64, '\0');
    Ticket ticket{};
    const LocalSpan to{bytes.data(), bytes.size(), 0};
    const Status status =
        queue_pair.PostRead(node_->Span(0, bytes.size()), to, Purpose::kRead, &ticket);
    return status.ok() ? queue_pair.Wait(ticket, deadline) : status;
  }

  std::unique_ptr<TestMemoryNode> node_;
  std::unique_ptr<VerbsConnection> connection_;
};

// Fails if a byte is lost or moved where a transfer is cut: at the end of a registration of the
// memory node, or at the longest message, with memory that is registered and with memory that is
// not, through a send queue that is much too short.
TEST_F(VerbsTest, CutsTransfersWhereItMust) {
  VerbsOptions server = TestVerbsOptions(), client = TestVerbsOptions();
  server.registration_bytes_max = 1 << 20;
  client.message_bytes_max = 100'000;
  client.send_queue_depth = 8;
  Start(kBytes, server, client);
  const auto queue_pair = NewQueuePair();
  Random random(1);
  std::string mirror = random.Bytes(kBytes);
  std::memcpy(node_->data(), mirror.data(), kBytes);
  const RegisteredBuffer buffer = NewBuffer(3 << 20);
  std::string plain(buffer.bytes(), '\0');
  for (int round = 0; round < 60; ++round) {
    const bool registered = round % 2 == 0;
    const bool write = round % 3 == 0;
    const uint64_t bytes = 1 + random.Uniform(3 << 20);
    const uint64_t offset = random.Uniform(kBytes - bytes + 1);
    LocalSpan local = registered ? buffer.span() : LocalSpan{plain.data(), plain.size(), 0};
    local = local.Sub(0, bytes);
    const RemoteSpan remote = node_->Span(offset, bytes);
    Ticket ticket{};
    if (write) {
      const std::string fresh = random.Bytes(bytes);
      std::memcpy(local.data, fresh.data(), bytes);
      mirror.replace(offset, bytes, fresh);
      ASSERT_OK(queue_pair->PostWrite(local, remote, Purpose::kFlush, &ticket));
    } else {
      std::memset(local.data, '?', bytes);
      ASSERT_OK(queue_pair->PostRead(remote, local, Purpose::kRead, &ticket));
    }
    ASSERT_OK(queue_pair->Wait(ticket, Soon()));
    if (!write) {
      ASSERT_EQ(std::memcmp(local.data, mirror.data() + offset, bytes), 0);
    }
  }
  EXPECT_EQ(std::memcmp(node_->data(), mirror.data(), kBytes), 0);
}

// Fails if a chain costs more than one doorbell and one completion, if bytes of registered buffers
// or small writes are copied, or if buffers that come back are registered again.
TEST_F(VerbsTest, ChainsAreCheap) {
  const auto queue_pair = NewQueuePair();
  RegisteredBuffer buffer = NewBuffer(4096);
  const uint64_t registrations = connection_->registrations();
  Ticket ticket{};
  for (size_t i = 0; i < 32; ++i) {
    ASSERT_OK(queue_pair->PostRead(node_->Span(i * 64, 64), buffer.span().Sub(i * 64, 64),
                                   Purpose::kRead, &ticket));
  }
  ASSERT_OK(queue_pair->Wait(ticket, Soon()));
  VerbsCounts counts = connection_->Counts();
  EXPECT_EQ(counts.work_requests, 32u);
  EXPECT_EQ(counts.doorbells, 1u);
  EXPECT_EQ(counts.completions, 1u);
  char word[8] = "1234567";
  ASSERT_OK(queue_pair->PostWrite({word, 8, 0}, node_->Span(0, 8), Purpose::kLog, &ticket));
  ASSERT_OK(queue_pair->Wait(ticket, Soon()));
  EXPECT_EQ(connection_->Counts().copied_bytes, 0u);
  for (int i = 0; i < 1000; ++i) {
    buffer = RegisteredBuffer();
    buffer = NewBuffer(size_t{1} << (12 + i % 8));
  }
  EXPECT_EQ(connection_->registrations(), registrations);
}

// Fails if a wait outlives the memory node by more than a moment, does not name it, or if the
// device still writes into the buffer once the wait has returned.
TEST_F(VerbsTest, TheMemoryNodeDiesInTheMiddleOfReads) {
  constexpr size_t kRead = size_t{8} << 20;
  const auto queue_pair = NewQueuePair();
  const RegisteredBuffer buffer = NewBuffer(kRead);
  Ticket ticket{};
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(queue_pair->PostRead(node_->Span(0, kRead), buffer.span(), Purpose::kRead, &ticket));
  }
  ASSERT_OK(queue_pair->Ring());
  std::thread killer([this] {
    std::this_thread::sleep_for(milliseconds(30));
    node_->Die();
  });
  const auto begin = Deadline::Clock::now();
  const Status status = queue_pair->Wait(ticket, Soon());
  killer.join();
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("memory node 7 at 127.0.0.1"));
  EXPECT_LT(Deadline::Clock::now() - begin, seconds(30));
  EXPECT_TRUE(queue_pair->closed());
  std::memset(buffer.data(), 'x', kRead);
  std::memset(node_->data(), 'y', kRead);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(std::count(buffer.data(), buffer.data() + kRead, 'x'), static_cast<int64_t>(kRead));
  std::unique_ptr<QueuePair> again;
  EXPECT_TRUE(connection_->NewQueuePair(Soon(), &again).IsIOError());
}

// Fails if a client that was cut off can still read, or can come back with the token it had; or if
// another client suffers.
TEST_F(VerbsTest, ARevokedTokenCutsOff) {
  const std::string other_token(kVerbsTokenBytes, 'o');
  node_->verbs().AllowToken(other_token);
  const auto other = ConnectAs(other_token);
  const auto other_queue_pair = NewQueuePair(*other);
  const auto queue_pair = NewQueuePair();
  EXPECT_OK(Touch(*queue_pair));
  EXPECT_OK(Touch(*other_queue_pair));
  EXPECT_OK(node_->verbs().RevokeToken(node_->token()));
  const Status status = Touch(*queue_pair);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("memory node 7 at 127.0.0.1"));
  std::unique_ptr<QueuePair> again;
  const Status refused = connection_->NewQueuePair(Soon(), &again);
  EXPECT_TRUE(refused.IsIOError()) << refused.ToString();
  EXPECT_OK(Touch(*other_queue_pair));
  node_->verbs().AllowToken(node_->token());
  EXPECT_OK(Touch(*NewQueuePair()));
}

// Fails if a write that was under way when its client was cut off can land after RevokeToken() has
// returned.
TEST_F(VerbsTest, NothingLandsAfterRevocation) {
  constexpr size_t kWrite = size_t{8} << 20;
  for (int round = 0; round < 5; ++round) {
    const auto queue_pair = NewQueuePair();
    const RegisteredBuffer buffer = NewBuffer(kWrite);
    std::memset(buffer.data(), 'w', kWrite);
    Ticket ticket{};
    for (int i = 0; i < 20; ++i) {
      ASSERT_OK(
          queue_pair->PostWrite(buffer.span(), node_->Span(0, kWrite), Purpose::kFlush, &ticket));
    }
    ASSERT_OK(queue_pair->Ring());
    std::this_thread::sleep_for(milliseconds(10 * round));
    EXPECT_OK(node_->verbs().RevokeToken(node_->token()));
    std::memset(node_->data(), '0', kWrite);
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(std::count(node_->data(), node_->data() + kWrite, '0'), static_cast<int64_t>(kWrite));
    EXPECT_FALSE(queue_pair->Wait(ticket, Soon()).ok());
    node_->verbs().AllowToken(node_->token());
  }
}

// Calls of a device that refuses to give back what it holds, for as long as it is told to.
struct Stubborn {
  static inline std::atomic<int> registrations_refused{0};
  static inline std::atomic<int> queue_pairs_refused{0};
  static inline const VerbsLibrary* real = nullptr;

  static int Deregister(ibv_mr* registration) {
    return registrations_refused-- > 0 ? EBUSY : real->dereg_mr(registration);
  }
  static int DestroyQueuePair(ibv_qp* queue_pair) {
    return queue_pairs_refused-- > 0 ? EIO : real->destroy_qp(queue_pair);
  }
  static VerbsLibrary Library() {
    EXPECT_OK(VerbsLibrary::Get(&real));
    VerbsLibrary library = *real;
    library.dereg_mr = &Deregister;
    library.destroy_qp = &DestroyQueuePair;
    registrations_refused = queue_pairs_refused = 0;
    return library;
  }
};

// Fails if a revocation is said to be complete although the device still holds a registration or a
// queue pair of the client, is not tried again, or never ends once the device gives in.
TEST_F(VerbsTest, ARevocationThatTheDeviceDoesNotConfirmHasFailed) {
  const VerbsLibrary library = Stubborn::Library();
  std::shared_ptr<const VerbsDevice> device;
  ASSERT_OK(VerbsDevice::Open({}, library, &device));
  Start(kBytes, device);
  for (std::atomic<int>* refused :
       {&Stubborn::registrations_refused, &Stubborn::queue_pairs_refused}) {
    auto queue_pair = NewQueuePair();
    EXPECT_OK(Touch(*queue_pair));
    *refused = 2;
    EXPECT_TRUE(node_->verbs().RevokeToken(node_->token()).IsIOError());
    if (refused == &Stubborn::queue_pairs_refused) {
      // Its registrations are gone nevertheless. Its life line is open, so that its client does not
      // rely on the end of what it has sent.
      EXPECT_FALSE(Touch(*queue_pair, Deadline::In(seconds(5))).ok());
    }
    while (*refused > 0) {
      EXPECT_TRUE(node_->verbs().RevokeToken(node_->token()).IsIOError());
    }
    EXPECT_OK(node_->verbs().RevokeToken(node_->token()));
    EXPECT_FALSE(Touch(*queue_pair, Deadline::In(seconds(5))).ok());
    node_->verbs().AllowToken(node_->token());
    queue_pair.reset();
    connection_ = ConnectAs(node_->token());  // Without farewells to wait for.
  }
  // What uses the library's copy ends before it.
  connection_.reset();
  node_.reset();
}

// Fails if a memory node whose regions are smaller than they were is taken for the same.
TEST_F(VerbsTest, RegionsMustBeWhatTheHelloSaid) {
  FabricPeer peer = node_->Peer();
  peer.regions[0].bytes += 4096;
  std::unique_ptr<FabricConnection> connection;
  ASSERT_OK(VerbsConnection::Connect(TestVerbsOptions(), peer, &connection));
  std::unique_ptr<QueuePair> queue_pair;
  const Status status = connection->NewQueuePair(Soon(), &queue_pair);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("has it restarted?"));
}

// A client that does not keep to the rules: its queue pair believes what memory the test says.
class RogueClient {
 public:
  RogueClient(const FabricPeer& peer, const std::string& token)
      : peer_(std::make_shared<VerbsPeer>()) {
    std::shared_ptr<const VerbsDevice> device;
    EXPECT_OK(VerbsDevice::Open(TestVerbsOptions(), &device));
    EXPECT_OK(VerbsDomain::Create(device, &domain_));
    buffers_ = std::make_shared<VerbsBuffers>(domain_);
    PeerDialer dialer;
    EXPECT_OK(PeerDialer::Resolve(peer, &dialer));
    EXPECT_OK(dialer.Dial(Soon(), &socket_));
    EXPECT_OK(VerbsEndpoint::Create(domain_, VerbsEndpoint::Role::kClient, &endpoint_));
    EXPECT_OK(
        ArrangeQueuePair(dialer.name(), token, socket_.get(), Soon(), endpoint_.get(), &memory));
    peer_->node = peer.node;
    peer_->name = dialer.name();
  }

  // Its queue pair has another life line, which the test closes: the real one stays open.
  FileDescriptor HoldLifeLine() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    held_ = std::exchange(socket_, FileDescriptor(ends[0]));
    return FileDescriptor(ends[1]);
  }
  VerbsBooks& books() { return books_; }

  std::unique_ptr<VerbsQueuePair> MakeQueuePair() {
    peer_->regions.Add(MappedRegion{kTestRegion, nullptr, memory.at(0).bytes});
    return std::make_unique<VerbsQueuePair>(std::move(endpoint_), std::move(socket_), peer_, memory,
                                            buffers_, nullptr, books_);
  }

  // Reads the first `bytes` from `offset` of what `memory` says is there.
  Status Read(uint64_t offset, size_t bytes) {
    const auto made = MakeQueuePair();
    VerbsQueuePair& queue_pair = *made;
    std::string to(bytes, '\0');
    Ticket ticket{};
    const RemoteSpan from{kTestNode, kTestRegion, offset, bytes};
    const Status status =
        queue_pair.PostRead(from, {to.data(), to.size(), 0}, Purpose::kRead, &ticket);
    return status.ok() ? queue_pair.Wait(ticket, Soon()) : status;
  }

  std::vector<VerbsRemoteMemory> memory;

 private:
  const std::shared_ptr<VerbsPeer> peer_;
  std::shared_ptr<const VerbsDomain> domain_;
  std::shared_ptr<VerbsBuffers> buffers_;
  VerbsBooks books_;
  FileDescriptor socket_;
  FileDescriptor held_;
  std::unique_ptr<VerbsEndpoint> endpoint_;
};

// Fails if the memory node's device gives out a byte beyond the region, whatever the client does.
TEST_F(VerbsTest, TheDeviceKeepsTheBounds) {
  RogueClient honest(node_->Peer(), node_->token());
  EXPECT_OK(honest.Read(kBytes - 8, 8));
  RogueClient rogue(node_->Peer(), node_->token());
  rogue.memory.at(0).bytes += 8;
  const Status status = rogue.Read(kBytes, 8);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.ToString(), HasSubstr("memory node 7 at 127.0.0.1"));
  EXPECT_OK(Touch(*NewQueuePair()));
}

// Fails if a queue pair whose far end may still run is forgotten: a write of it could land on top
// of what a later queue pair has written.
TEST_F(VerbsTest, AFarewellWithoutAnswerStopsTheConnection) {
  RogueClient client(node_->Peer(), node_->token());
  FileDescriptor far = client.HoldLifeLine();
  const auto queue_pair = client.MakeQueuePair();
  EXPECT_OK(Touch(*queue_pair));
  EXPECT_FALSE(client.books().farewells.Pending());
  // More than a queue pair copies at once, so it cannot be complete at the first look.
  std::string bytes(4 << 20, '\0');
  Ticket ticket{};
  ASSERT_OK(queue_pair->PostRead(node_->Span(0, bytes.size()), {bytes.data(), bytes.size(), 0},
                                 Purpose::kRead, &ticket));
  EXPECT_TRUE(queue_pair->Wait(ticket, Deadline::In(seconds(0))).IsTimedOut());
  EXPECT_TRUE(client.books().farewells.Pending());
  far.Close();
  EXPECT_FALSE(client.books().farewells.Pending());
}

// Fails if one client's keys are good on another client's queue pairs.
TEST_F(VerbsTest, KeysOfOthersAreOfNoUse) {
  const std::string other_token(kVerbsTokenBytes, 'o');
  node_->verbs().AllowToken(other_token);
  const RogueClient owner(node_->Peer(), node_->token());
  RogueClient thief(node_->Peer(), other_token);
  ASSERT_NE(thief.memory.at(0).key, owner.memory.at(0).key);
  thief.memory = owner.memory;
  EXPECT_FALSE(thief.Read(0, 8).ok());
}

// Fails if a wait that gives up leaves the device writing into the buffer, or the connection unable
// to go on.
TEST_F(VerbsTest, ATimeoutClosesAndANewQueuePairWorks) {
  constexpr size_t kRead = size_t{8} << 20;
  std::memset(node_->data(), 'r', kRead);
  for (int round = 0; round < 3; ++round) {
    const auto queue_pair = NewQueuePair();
    const RegisteredBuffer buffer = NewBuffer(kRead);
    Ticket ticket{};
    for (int i = 0; i < 50; ++i) {
      ASSERT_OK(
          queue_pair->PostRead(node_->Span(0, kRead), buffer.span(), Purpose::kRead, &ticket));
    }
    const Status status = queue_pair->Wait(ticket, Deadline::In(milliseconds(5 * round)));
    EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
    EXPECT_TRUE(queue_pair->closed());
    std::memset(buffer.data(), 'x', kRead);
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(std::count(buffer.data(), buffer.data() + kRead, 'x'), static_cast<int64_t>(kRead));
    EXPECT_OK(Touch(*NewQueuePair()));
  }
}

// Fails if threads beyond the bound get no queue pair, mix up their requests on the shared one, or
// cannot replace it when it has failed.
TEST_F(VerbsTest, ThreadsBeyondTheBoundShare) {
  VerbsOptions client = TestVerbsOptions();
  client.queue_pairs_max = 1;
  Start(kBytes, TestVerbsOptions(), client);
  const auto own = NewQueuePair();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const auto shared = NewQueuePair();
      Random random(static_cast<uint64_t>(t));
      for (int i = 0; i < 200; ++i) {
        std::string out = random.Bytes(1 + random.Uniform(3000));
        std::string in(out.size(), '?');
        const RemoteSpan span = node_->Span(static_cast<uint64_t>(t) << 20, out.size());
        Ticket ticket{};
        ASSERT_OK(shared->PostWrite({out.data(), out.size(), 0}, span, Purpose::kFlush, &ticket));
        ASSERT_OK(shared->PostRead(span, {in.data(), in.size(), 0}, Purpose::kRead, &ticket));
        ASSERT_OK(shared->Wait(ticket, Soon()));
        ASSERT_EQ(in, out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(connection_->Describe(), HasSubstr("2 queue pairs, 4 shared"));
  const auto first = NewQueuePair();
  const auto second = NewQueuePair();
  Ticket ticket{};
  EXPECT_FALSE(
      first->PostRead(node_->Span(kBytes, 1), LocalSpan{nullptr, 1, 0}, Purpose::kRead, &ticket)
          .ok());
  EXPECT_TRUE(second->closed());
  EXPECT_OK(Touch(*NewQueuePair()));
  EXPECT_OK(Touch(*own));
}

// Fails if an idle queue pair keeps a thread of either end busy.
TEST_F(VerbsTest, IdleCostsNoTime) {
  const auto queue_pair = NewQueuePair();
  EXPECT_OK(Touch(*queue_pair));
  std::this_thread::sleep_for(milliseconds(50));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10);
  EXPECT_OK(Touch(*queue_pair));
}

// Fails if what a stranger or a broken client sends stops the server, or is answered with keys.
TEST_F(VerbsTest, NonsenseIsRefused) {
  const std::string good = std::string(kVerbsPreamble) + node_->token();
  const std::string samples[] = {
      std::string(kVerbsPreamble) + std::string(kVerbsTokenBytes, 'w') + std::string(64, '\1'),
      good + std::string(VerbsFrameHeader::kBytes, '\1'),
      good + EncodeVerbsFrame(VerbsFrameKind::kOffer, "too short"),
      good + EncodeVerbsFrame(VerbsFrameKind::kRefusal, VerbsRefusal{"no"}.Encode()),
      good + std::string("\1\1\0\0\377\377\377\377\0\0\0\0", 12),
  };
  for (const std::string& sample : samples) {
    const FileDescriptor socket = DialLoopback(node_->port());
    SendAll(socket.get(), sample);
    EXPECT_EQ(ReceiveUpTo(socket.get(), 1), "");
  }
  EXPECT_OK(Touch(*NewQueuePair()));
}

// A GID that this device cannot reach is refused with a reason, not by silence.
TEST_F(VerbsTest, ARefusalSaysWhy) {
  if (connects_by_manager()) GTEST_SKIP() << "the connection manager chooses the GID";
  VerbsOffer offer;
  offer.end.mtu = 5;
  offer.end.reads_at_once = 1;
  offer.end.gid_type = GidType::kInfiniBand;
  const FileDescriptor socket = DialLoopback(node_->port());
  SendAll(socket.get(), std::string(kVerbsPreamble) + node_->token() +
                            EncodeVerbsFrame(VerbsFrameKind::kOffer, offer.Encode()));
  EXPECT_THAT(ReceiveUpTo(socket.get(), 1 << 16), HasSubstr("has no GID that reaches InfiniBand"));
}

TEST(VerbsDeviceTest, SaysWhatIsWrongWithTheChoice) {
  const std::string why_not = TestMemoryNode::WhyNot(FabricKind::kVerbs);
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  std::shared_ptr<const VerbsDevice> device;
  ASSERT_OK(VerbsDevice::Open(TestVerbsOptions(), &device));
  const std::string name = device->name();
  const auto open = [&](const std::string& wish) {
    VerbsOptions options = TestVerbsOptions();
    options.device = wish;
    return VerbsDevice::Open(options, &device);
  };
  EXPECT_OK(open(name));
  EXPECT_OK(open(name + ":1"));
  EXPECT_TRUE(open(name + ":9").IsInvalidArgument());
  EXPECT_TRUE(open(name + ":x").IsInvalidArgument());
  EXPECT_TRUE(open("lo").IsInvalidArgument());
  EXPECT_TRUE(open("192.0.2.77").IsInvalidArgument());
  const Status status = open("no_such_device");
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr(name));
  // Set by script/softroce/run-in-vm.
  for (const char* variable : {"SOFTROCE_NETDEV", "SOFTROCE_IP"}) {
    const char* const wish = std::getenv(variable);
    if (wish != nullptr) {
      EXPECT_OK(open(wish)) << wish;
    }
  }
}

// Fails if the limit is not looked at, or the message does not help.
TEST(VerbsMemoryTest, LockedMemoryIsChecked) {
  EXPECT_OK(CheckLockedMemory(1 << 20, 1 << 20, false));
  EXPECT_OK(CheckLockedMemory(1 << 30, 1 << 20, true));
  EXPECT_OK(CheckLockedMemory(1 << 30, ~uint64_t{0}, false));
  const Status status = CheckLockedMemory(1 << 30, 1 << 20, false);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("ulimit -l"));
}

}  // namespace
}  // namespace dlsm
