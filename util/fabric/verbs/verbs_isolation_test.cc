// What clients of the verbs fabric cannot do: those that are cut off, those that break the rules,
// and those that have given up what is still on its way. All of it needs a device, and is skipped
// without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/fabric/verbs/verbs_frame.h"
#include "util/fabric/verbs/verbs_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

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

}  // namespace
}  // namespace dlsm
