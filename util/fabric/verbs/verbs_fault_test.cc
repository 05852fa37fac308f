// Faults under the verbs fabric that the device reports: a far end that does not answer, a port
// that goes down, a device that is taken away. Each must become a Status in time, leave the
// caller's buffers alone, and be over once its cause is. All of it needs a device, and is skipped
// without one; what changes the machine's network only runs where script/softroce/run-in-vm has
// made it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr uint64_t kFaultBytes = uint64_t{8} << 20;

milliseconds Since(Deadline::Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Deadline::Clock::now() - start);
}

// Of the virtual machine; empty elsewhere.
std::string NetworkInterface() {
  const char* const name = std::getenv("SOFTROCE_NETDEV");
  return name == nullptr ? "" : name;
}

void Shell(const std::string& command) { EXPECT_EQ(std::system(command.c_str()), 0) << command; }

// Reliable connections' queue pairs of this machine, of both ends.
int CountQueuePairs() {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen("rdma resource show qp | grep -c 'type RC'", "r"), ::pclose);
  int count = -1;
  EXPECT_EQ(std::fscanf(pipe.get(), "%d", &count), 1);
  return count;
}

// A memory node that the test plays: a region, one queue pair, and a life line that ends when the
// test says so.
class FarEnd {
 public:
  explicit FarEnd(const VerbsOptions& options) : memory_(kFaultBytes, 'm') {
    std::shared_ptr<const VerbsDevice> device;
    EXPECT_OK(VerbsDevice::Open(options, &device));
    EXPECT_OK(VerbsDomain::Create(device, &domain_));
    EXPECT_OK(domain_->Register(
        memory_.data(), memory_.size(),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, &registration_));
    EXPECT_OK(VerbsEndpoint::Create(domain_, VerbsEndpoint::Role::kServer, &endpoint_));
    EXPECT_OK(VerbsEndpoint::Create(domain_, VerbsEndpoint::Role::kClient, &near_));
    VerbsEnd near, far;
    EXPECT_OK(near_->Describe({}, {}, &near));
    EXPECT_OK(endpoint_->Describe(near, {}, &far));
    EXPECT_OK(endpoint_->Connect(near));
    EXPECT_OK(near_->Connect(far));
    peer_->node = kTestNode;
    peer_->name = "memory node 7 at the test";
    peer_->regions.Add(MappedRegion{kTestRegion, nullptr, kFaultBytes});
    buffers_ = std::make_shared<VerbsBuffers>(domain_);
  }

  std::unique_ptr<VerbsQueuePair> NearEnd() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    life_line_ = FileDescriptor(ends[1]);
    const VerbsRemoteMemory all{kTestRegion, registration_->rkey, 0, kFaultBytes,
                                reinterpret_cast<uintptr_t>(memory_.data())};
    return std::make_unique<VerbsQueuePair>(std::move(near_), FileDescriptor(ends[0]), peer_,
                                            std::vector<VerbsRemoteMemory>{all}, buffers_, nullptr,
                                            books_);
  }
  RegisteredBuffer NewBuffer(size_t bytes) {
    RegisteredBuffer buffer;
    EXPECT_OK(buffers_->NewBuffer(bytes, &buffer));
    return buffer;
  }

  void DestroyQueuePair() { endpoint_.reset(); }
  void EndLifeLine() { life_line_.Close(); }
  bool FarewellPending() { return books_.farewells.Pending(); }

 private:
  std::string memory_;
  std::shared_ptr<const VerbsDomain> domain_;
  VerbsRegistration registration_{nullptr, nullptr};
  const std::shared_ptr<VerbsPeer> peer_ = std::make_shared<VerbsPeer>();
  std::shared_ptr<VerbsBuffers> buffers_;
  VerbsBooks books_;
  std::unique_ptr<VerbsEndpoint> endpoint_;
  std::unique_ptr<VerbsEndpoint> near_;
  FileDescriptor life_line_;
};

class VerbsFaultTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = TestMemoryNode::WhyNot(FabricKind::kVerbs);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }

  void Start(const VerbsOptions& options = {}) {
    node_ = std::make_unique<TestMemoryNode>(FabricKind::kVerbs, kFaultBytes);
    std::memset(node_->data(), 'm', kFaultBytes);
    std::unique_ptr<FabricConnection> made;
    ASSERT_OK(VerbsConnection::Connect(options, kNoNumaNode, node_->Peer(), &made));
    connection_.reset(static_cast<VerbsConnection*>(made.release()));
  }

  // A read and a write, by whatever queue pair *queue_pair is or becomes.
  Status Use(std::unique_ptr<QueuePair>* queue_pair) {
    if (*queue_pair == nullptr || (*queue_pair)->closed()) {
      queue_pair->reset();
      const Status made = connection_->NewQueuePair(Deadline::In(seconds(3)), queue_pair);
      if (!made.ok()) return made;
    }
    std::string in(20'000, '?'), out(300, 'm');
    Ticket ticket{};
    Status status =
        (*queue_pair)
            ->PostWrite({out.data(), out.size(), 0}, node_->Span(kFaultBytes / 2, out.size()),
                        Purpose::kFlush, &ticket);
    if (!status.ok()) return status;
    status = (*queue_pair)
                 ->PostRead(node_->Span(kFaultBytes / 2 - 1000, in.size()),
                            {in.data(), in.size(), 0}, Purpose::kRead, &ticket);
    if (!status.ok()) return status;
    status = (*queue_pair)->Wait(ticket, Deadline::In(seconds(3)));
    if (status.ok()) {
      EXPECT_EQ(in, std::string(in.size(), 'm'));
    }
    return status;
  }

  // Threads that do so for as long as `fault` takes, whatever fails. Then all must work again. What
  // each call returned and the longest are printed.
  template <typename Fault>
  void UseDuring(Fault fault) {
    constexpr int kThreads = 3;
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> succeeded{0}, failed{0};
    std::atomic<int64_t> longest_ms{0};
    std::vector<std::string> messages(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::unique_ptr<QueuePair> queue_pair;
        Status status;
        const auto use = [&] {
          const auto start = Deadline::Clock::now();
          status = Use(&queue_pair);
          const int64_t took = Since(start).count();
          if (took > longest_ms) longest_ms = took;
          status.ok() ? ++succeeded : ++failed;
          if (!status.ok() && messages[static_cast<size_t>(t)].empty()) {
            messages[static_cast<size_t>(t)] = status.ToString();
          }
          if (!status.ok()) std::this_thread::sleep_for(milliseconds(20));
        };
        while (!stop) use();
        const auto give_up = Deadline::In(seconds(20));
        do {
          use();
        } while (!status.ok() && !give_up.Passed());
        EXPECT_OK(status);
      });
    }
    while (succeeded < 50) std::this_thread::sleep_for(milliseconds(1));
    fault();
    const uint64_t then = succeeded;
    stop = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(succeeded.load(), then);
    EXPECT_LT(longest_ms.load(), 9000) << "longer than the time-outs of one call";
    std::printf("%llu succeeded, %llu failed, the longest took %lld ms\n",
                static_cast<unsigned long long>(succeeded), static_cast<unsigned long long>(failed),
                static_cast<long long>(longest_ms));
    for (const std::string& message : messages) {
      if (message.empty()) continue;
      std::printf("  %s\n", message.c_str());
      EXPECT_THAT(message, HasSubstr("memory node 7"));
    }
  }

  std::unique_ptr<TestMemoryNode> node_;
  std::unique_ptr<VerbsConnection> connection_;
};

// Fails if a far end whose queue pair is gone is waited for longer than the device tries again, if
// that is not told apart from other failures, or if the connection goes on before it knows that
// nothing can land any more.
TEST_F(VerbsFaultTest, RetriesEnd) {
  VerbsOptions options;
  options.ack_timeout = 12;  // 17 ms
  options.retries = 3;
  FarEnd far(options);
  const auto queue_pair = far.NearEnd();
  const RegisteredBuffer buffer = far.NewBuffer(kFaultBytes);
  Ticket ticket{};
  const RemoteSpan all{kTestNode, kTestRegion, 0, kFaultBytes};
  ASSERT_OK(queue_pair->PostRead(all, buffer.span(), Purpose::kRead, &ticket));
  ASSERT_OK(queue_pair->Wait(ticket, Soon()));
  EXPECT_EQ(std::count(buffer.data(), buffer.data() + kFaultBytes, 'm'),
            static_cast<int64_t>(kFaultBytes));
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(queue_pair->PostRead(all, buffer.span(), Purpose::kRead, &ticket));
  }
  ASSERT_OK(queue_pair->Ring());
  far.DestroyQueuePair();
  const auto start = Deadline::Clock::now();
  const Status status = queue_pair->Wait(ticket, Soon());
  std::printf("after %lld ms: %s\n", static_cast<long long>(Since(start).count()),
              status.ToString().c_str());
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("memory node 7 at the test does not answer over RDMA"));
  EXPECT_LT(Since(start), seconds(10));
  EXPECT_TRUE(queue_pair->closed());
  std::memset(buffer.data(), 'x', kFaultBytes);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(std::count(buffer.data(), buffer.data() + kFaultBytes, 'x'),
            static_cast<int64_t>(kFaultBytes));
  EXPECT_TRUE(far.FarewellPending());
  far.EndLifeLine();
  EXPECT_FALSE(far.FarewellPending());
}

// Fails if a port that goes down and comes back leaves a thread hanging, or a queue pair that
// cannot be replaced.
TEST_F(VerbsFaultTest, ThePortGoesDownAndUp) {
  const std::string interface = NetworkInterface();
  if (interface.empty()) GTEST_SKIP() << "only in the virtual machine";
  Start();
  UseDuring([&] {
    Shell("ip link set " + interface + " down");
    std::this_thread::sleep_for(seconds(3));
    Shell("ip link set " + interface + " up");
  });
}

// Fails if queue pairs of either end outlive their clients, however those ended.
TEST_F(VerbsFaultTest, NoQueuePairIsLeft) {
  if (NetworkInterface().empty()) GTEST_SKIP() << "only in the virtual machine";
  EXPECT_EQ(CountQueuePairs(), 0);
  Start();
  for (int round = 0; round < 30; ++round) {
    std::unique_ptr<QueuePair> queue_pair;
    ASSERT_OK(Use(&queue_pair));
    std::string in(1 << 20, '?');
    Ticket ticket{};
    ASSERT_OK(queue_pair->PostRead(node_->Span(0, in.size()), {in.data(), in.size(), 0},
                                   Purpose::kRead, &ticket));
    if (round % 3 == 0) {
      EXPECT_FALSE(queue_pair->Wait(ticket, Deadline::In(seconds(0))).ok());
    } else if (round % 3 == 1) {
      EXPECT_OK(node_->verbs().RevokeToken(node_->token()));
      EXPECT_FALSE(queue_pair->Wait(ticket, Soon()).ok());
      node_->verbs().AllowToken(node_->token());
    }
  }
  connection_.reset();
  const auto give_up = Deadline::In(seconds(10));
  while (CountQueuePairs() > 0 && !give_up.Passed()) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(CountQueuePairs(), 0);
}

// Fails if taking the device away makes a thread hang or crash, or if a device that has come back
// cannot be used. The software device goes only when nobody has it open any more: so what a device
// does that vanishes under a queue pair (it reports a fatal error, and every call fails) cannot be
// had from it.
TEST_F(VerbsFaultTest, TheDeviceIsTakenAway) {
  const std::string interface = NetworkInterface();
  if (interface.empty()) GTEST_SKIP() << "only in the virtual machine";
  Start();
  std::thread remover;
  UseDuring([&] {
    remover = std::thread([] { Shell("rdma link delete rxe0"); });
    std::this_thread::sleep_for(seconds(2));
  });
  connection_.reset();
  node_.reset();
  remover.join();
  std::shared_ptr<const VerbsDevice> device;
  const Status gone = VerbsDevice::Open({}, &device);
  EXPECT_TRUE(gone.IsNotSupported()) << gone.ToString();
  EXPECT_THAT(gone.ToString(), HasSubstr("load its driver"));
  Shell("rdma link add rxe0 type rxe netdev " + interface);
  Start();
  std::unique_ptr<QueuePair> queue_pair;
  EXPECT_OK(Use(&queue_pair));
}

}  // namespace
}  // namespace dlsm
