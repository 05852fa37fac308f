// Whose turn it is when a memory node has more to do for its data connections than time.
#include "util/fabric/tcp_server_thread.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "port/sync_point.h"
#include "util/fabric/fabric_testing.h"
#include "util/fabric/tcp_frame.h"
#include "util/fabric/tcp_frame_testing.h"
#include "util/fabric/tcp_wait.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Everything. Each look at it takes what a round of the thread may take.
class SlowReach final : public Reach {
 public:
  bool During(const ReachedRange*, size_t, bool,
              const std::function<void()>& transfer) const override {
    ++looks;
    std::this_thread::sleep_for(kTcpDrain / 2);
    transfer();
    return true;
  }

  mutable std::atomic<int> looks{0};
};

// Everything, too. Notes how far the other one was.
class NotingReach final : public Reach {
 public:
  explicit NotingReach(const SlowReach& other) : other_(other) {}
  bool During(const ReachedRange*, size_t, bool,
              const std::function<void()>& transfer) const override {
    others_looks = other_.looks.load();
    transfer();
    return true;
  }

  mutable std::atomic<int> others_looks{-1};

 private:
  const SlowReach& other_;
};

class TcpServerThreadTest : public testing::Test {
 protected:
  TcpServerThreadTest() {
    regions_.Add(MappedRegion{kTestRegion, memory_.data(), memory_.size()});
    EXPECT_OK(TcpServerThread::Start(regions_, tokens_, &order_, polls_, &thread_));
  }
  ~TcpServerThreadTest() override { port::SyncPointHookOfProcess() = nullptr; }

  // A client's end of a connection that the thread has begun to serve.
  FileDescriptor Connect(const std::string& token, ReachPointer reach) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    FileDescriptor client(ends[0]);
    tokens_.Allow(token, /*key=*/"", std::move(reach));
    thread_->Adopt(TcpStream(FileDescriptor(ends[1])), token);
    SendAll(client.get(), Encoded(TcpRequest{}));
    EXPECT_EQ(ReceiveUpTo(client.get(), TcpReply::kBytes).size(), TcpReply::kBytes);
    return client;
  }

  // From its next round on the thread waits, once it was told of something, until it may go on.
  void HoldThread() {
    told_ = false;
    may_go_on_ = false;
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::strcmp(place, "tcp server: told") != 0) return;
      told_ = true;
      while (!may_go_on_) std::this_thread::yield();
    };
  }
  static void AwaitTold() {
    while (!told_) std::this_thread::yield();
  }

  static inline std::atomic<bool> told_;
  static inline std::atomic<bool> may_go_on_;

  std::array<char, size_t{64} << 10> memory_{};
  RegionTable regions_;
  TcpTokens tokens_;
  MessageOrder order_;
  PollGroup polls_{kTestPoll, 2};
  std::unique_ptr<TcpServerThread> thread_;
};

// One connection always has something to do, and uses up each round; the kernel tells of it first,
// for it was there first. Fails if the round after that does not begin with the other one, which
// would wait until the first has nothing more to do.
TEST_F(TcpServerThreadTest, TheNextRoundBeginsWithWhoHadNoTurn) {
  constexpr int kWrites = 5;
  constexpr int kLooksOfAWrite = 2;  // Before its bytes are taken, and when they are.
  const auto slow = std::make_shared<SlowReach>();
  const auto noting = std::make_shared<NotingReach>(*slow);
  const FileDescriptor busy = Connect("busy", slow);
  const FileDescriptor other = Connect("other", noting);
  // As much as is received at once, each.
  const uint64_t bytes = TcpServerConnection::kScratchBytes - TcpRequest::kBytes;
  const std::string write =
      Encoded(TcpRequest{TcpOpcode::kWrite, 1, kTestRegion, 0, bytes, 0}) + std::string(bytes, 'w');
  std::string writes;
  for (int i = 0; i < kWrites; ++i) writes += write;
  HoldThread();
  SendAll(busy.get(), writes);
  AwaitTold();
  SendAll(other.get(), Encoded(TcpRequest{TcpOpcode::kRead, 1, kTestRegion, 0, 8, 0}));
  may_go_on_ = true;
  EXPECT_EQ(ReceiveUpTo(other.get(), TcpReply::kBytes + 8).size(), TcpReply::kBytes + 8);
  // One write while the thread knew of nobody else, another in the first round with both.
  EXPECT_LE(noting->others_looks, 2 * kLooksOfAWrite);
  EXPECT_GT(noting->others_looks, 0);
  EXPECT_EQ(ReceiveUpTo(busy.get(), kWrites * TcpReply::kBytes).size(), kWrites * TcpReply::kBytes);
  EXPECT_EQ(slow->looks, kWrites * kLooksOfAWrite);
}

}  // namespace
}  // namespace dlsm
