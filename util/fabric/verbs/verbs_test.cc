// What is the verbs fabric's own: splitting, sharing, and what happens when a wait gives up or the
// memory node goes. That its transfers are right is fabric_test.cc's subject, what clients cannot
// do verbs_isolation_test.cc's. All of it needs a device, and is skipped without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/fabric/verbs/verbs_frame.h"
#include "util/fabric/verbs/verbs_testing.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

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
  ASSERT_OK(queue_pair->PostWrite({word, 8, 0}, node_->Span(0, 8), Purpose::kPublication, &ticket));
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

// Fails if a memory node whose regions are smaller than they were is taken for the same.
TEST_F(VerbsTest, RegionsMustBeWhatTheHelloSaid) {
  FabricPeer peer = node_->Peer();
  peer.regions[0].bytes += 4096;
  std::unique_ptr<FabricConnection> connection;
  ASSERT_OK(VerbsConnection::Connect(TestVerbsOptions(), kNoNumaNode, peer, &connection));
  std::unique_ptr<QueuePair> queue_pair;
  const Status status = connection->NewQueuePair(Soon(), &queue_pair);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("has it restarted?"));
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
