// Whose turn it is when a memory node has more to do for its data connections than time; and how
// connections go from a thread to another.
#include "util/fabric/tcp/tcp_server_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "port/sync_point.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_frame_testing.h"
#include "util/fabric/tls/tcp_wait.h"
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
    Greet(client);
    return client;
  }
  static void Greet(const FileDescriptor& client) {
    SendAll(client.get(), Encoded(TcpRequest{}));
    EXPECT_EQ(ReceiveUpTo(client.get(), TcpReply::kBytes).size(), TcpReply::kBytes);
  }

  // The same. Who accepted it has a descriptor of its own, *accepted; the thread's is *number.
  FileDescriptor ConnectBy(FileDescriptor* accepted, int* number) {
    constexpr int kFirst = 500;  // Nobody else opens so many.
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    FileDescriptor client(ends[0]);
    *accepted = FileDescriptor(ends[1]);
    *number = ::fcntl(accepted->get(), F_DUPFD_CLOEXEC, kFirst);
    tokens_.Allow("client");
    thread_->Adopt(TcpStream(FileDescriptor(*number)), "client");
    Greet(client);
    return client;
  }
  void AwaitConnections(size_t so_many) {
    const Deadline deadline = Deadline::In(std::chrono::seconds(20));
    while (thread_->connections() != so_many && !deadline.Passed()) std::this_thread::yield();
    EXPECT_EQ(thread_->connections(), so_many);
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
  PollGroup never_polls_{std::chrono::nanoseconds(0), 2};
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

// A client that gives up ends its connection, and its memory is another's then. The thread has been
// told of a write before, when it woke up or when it asked again, and stands still at once. Fails
// if it takes what it was told for news afterwards, and carries the write out.
TEST_F(TcpServerThreadTest, WhatIsTakenBackWhileTheThreadStandsStillIsNotCarriedOut) {
  static std::atomic<int> asked;
  static std::atomic<int> held_at;
  static std::atomic<bool> given_up;
  EXPECT_OK(TcpServerThread::Start(regions_, tokens_, &order_, never_polls_, &thread_));
  for (const int look : {1, 2}) {
    SCOPED_TRACE(look);
    FileDescriptor client = Connect("client", nullptr);
    asked = 0;
    held_at = look;
    given_up = false;
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::strcmp(place, "tcp server: asked") != 0) return;
      const int looks = ++asked;
      // For all that it knows, it has slept for so long.
      if (looks == 1) std::this_thread::sleep_for(kTcpDrain / 4);
      while (looks == held_at && !given_up) std::this_thread::yield();
    };
    SendAll(client.get(), Encoded(TcpRequest{TcpOpcode::kWrite, 1, kTestRegion, 8, 4, 0}) + "late");
    const Deadline deadline = Deadline::In(std::chrono::seconds(20));
    while (asked < look && !deadline.Passed()) std::this_thread::yield();
    EXPECT_EQ(asked, look);
    client.Close();
    std::this_thread::sleep_for(kTcpDrain);
    given_up = true;
    AwaitConnections(0);
    port::SyncPointHookOfProcess() = nullptr;
    EXPECT_EQ(std::string(memory_.data() + 8, 4), std::string(4, '\0'));
  }
}

// Fails if the thread goes on being told of a connection that has ended, and takes that for the end
// of the next one that has its number.
TEST_F(TcpServerThreadTest, AConnectionThatHasEndedEndsNoOther) {
  FileDescriptor accepted[2];
  int number[2] = {-1, -1};
  FileDescriptor gone = ConnectBy(&accepted[0], &number[0]);
  gone.Close();
  AwaitConnections(0);
  const FileDescriptor next = ConnectBy(&accepted[1], &number[1]);
  ASSERT_EQ(number[1], number[0]);
  for (int i = 0; i < 10; ++i) Greet(next);
  EXPECT_EQ(thread_->connections(), 1u);
}

// Fails if a client does not hear that its connection has been closed, because it has no more to
// say or because of its token, or was refused, while who accepted it still has a descriptor of it.
TEST_F(TcpServerThreadTest, ClientsHearThatTheirConnectionsAreClosed) {
  FileDescriptor accepted[2];
  int number = -1;
  const FileDescriptor done = ConnectBy(&accepted[0], &number);
  ASSERT_EQ(::shutdown(done.get(), SHUT_WR), 0);
  EXPECT_EQ(ReceiveUpTo(done.get(), 1), "");
  const FileDescriptor revoked = ConnectBy(&accepted[1], &number);
  EXPECT_OK(thread_->CloseAll("client"));
  EXPECT_EQ(ReceiveUpTo(revoked.get(), 1), "");
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor refused(ends[0]);
  const FileDescriptor kept(ends[1]);
  thread_->Adopt(TcpStream(FileDescriptor(::fcntl(kept.get(), F_DUPFD_CLOEXEC, 0))), "stranger");
  EXPECT_EQ(ReceiveUpTo(refused.get(), 1), "");
}

// Fails if a client that is alive, and takes nothing of what it has asked for, is cut off by the
// kernel after some time: an iterator whose user pauses would fail for what it has read ahead.
TEST_F(TcpServerThreadTest, AClientMayTakeItsTimeToRead) {
  uint16_t port = 0;
  const FileDescriptor listener = ListenOnLoopback(&port);
  const FileDescriptor client = DialLoopback(port);
  const FileDescriptor accepted(::accept(listener.get(), nullptr, nullptr));
  int most_ms = 10'000;  // As whoever accepts connections of all kinds has it.
  socklen_t bytes = sizeof(most_ms);
  ASSERT_EQ(::setsockopt(accepted.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, bytes), 0);
  tokens_.Allow("client");
  thread_->Adopt(TcpStream(FileDescriptor(::fcntl(accepted.get(), F_DUPFD_CLOEXEC, 0))), "client");
  Greet(client);
  ASSERT_EQ(::getsockopt(accepted.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, &bytes), 0);
  EXPECT_EQ(most_ms, 0) << "the kernel's own";
}

// Two threads. The first one begins with all connections.
class TcpHandOverTest : public testing::Test {
 protected:
  TcpHandOverTest() {
    held_ = released_ = 0;
    regions_.Add(MappedRegion{kTestRegion, memory_.data(), memory_.size()});
    EXPECT_OK(TcpServerThread::Start(regions_, tokens_, &order_, polls_, &first_));
    EXPECT_OK(TcpServerThread::Start(regions_, tokens_, &order_, polls_, &second_));
    tokens_.Allow("client", /*key=*/"", /*reach=*/nullptr);
    first_->SetPeers({second_.get()});
    second_->SetPeers({first_.get()});
    for (FileDescriptor& client : clients_) client = Connect();
  }
  ~TcpHandOverTest() override {
    released_ = INT_MAX;
    port::SyncPointHookOfProcess() = nullptr;
    first_->Stop();
    second_->Stop();
  }

  FileDescriptor Connect() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    FileDescriptor client(ends[0]);
    first_->Adopt(TcpStream(FileDescriptor(ends[1])), "client");
    Call(client);
    return client;
  }
  static std::string Hello() {
    return Encoded(TcpRequest{TcpOpcode::kHello, 1, RegionId{}, 0, 0, 0});
  }
  static std::string Add(uint64_t addend) {
    return Encoded(TcpRequest{TcpOpcode::kFetchAdd, 1, kTestRegion, 0, addend, 0});
  }
  static uint64_t Answer(const FileDescriptor& client) {
    const std::string got = ReceiveUpTo(client.get(), TcpReply::kBytes);
    TcpReply reply;
    if (got.size() != TcpReply::kBytes || reply.Decode(got.data()) != TcpCode::kOk) {
      ADD_FAILURE() << got.size() << " bytes";
      return 0;
    }
    return reply.value;
  }
  static void Call(const FileDescriptor& client) {
    SendAll(client.get(), Hello());
    Answer(client);
  }

  // Whoever comes to `place` next waits there until Release().
  static void HoldAt(const char* place) {
    place_ = place;
    armed_ = true;
    port::SyncPointHookOfProcess() = [](const char* passed) {
      if (std::strcmp(passed, place_) != 0 || !armed_.exchange(false)) return;
      const int mine = ++held_;
      while (released_ < mine) std::this_thread::yield();
    };
  }
  static void AwaitHeld(int so_many) {
    while (held_ < so_many) std::this_thread::yield();
  }
  static void Release() { ++released_; }

  // The first thread is about to be told of the last two at once, while the second has nothing to
  // do: it waits until Release().
  void SendAtOnce(const std::string& one, const std::string& other) {
    HoldAt("tcp server: told");
    SendAll(clients_[0].get(), Hello());
    AwaitHeld(1);
    SendAll(clients_[1].get(), one);
    SendAll(clients_[2].get(), other);
    while (!second_->idle()) std::this_thread::yield();
  }

  static inline std::atomic<const char*> place_{""};
  static inline std::atomic<bool> armed_{false};
  static inline std::atomic<int> held_{0};
  static inline std::atomic<int> released_{0};

  alignas(8) std::array<char, 64> memory_{};
  RegionTable regions_;
  TcpTokens tokens_;
  MessageOrder order_;
  PollGroup polls_{kTestPoll, 2};
  std::unique_ptr<TcpServerThread> first_;
  std::unique_ptr<TcpServerThread> second_;
  std::array<FileDescriptor, 3> clients_;
};

// Fails if two connections that are busy at a time stay with one thread while another has nothing
// to do, or if anything that was asked for is lost or done twice on the way.
TEST_F(TcpHandOverTest, WhoIsBusyGivesToWhoIsIdle) {
  ASSERT_EQ(first_->connections(), 3u);
  SendAtOnce(Add(1), Add(2));
  Release();
  const uint64_t one_found = Answer(clients_[1]);
  const uint64_t other_found = Answer(clients_[2]);
  EXPECT_EQ(std::min(one_found, other_found), 0u);
  EXPECT_EQ(one_found + other_found, one_found == 0 ? 1u : 2u) << "what the first one added";
  Answer(clients_[0]);
  EXPECT_EQ(memory_[0], 3);
  EXPECT_EQ(first_->connections(), 2u);
  EXPECT_EQ(second_->connections(), 1u);
  EXPECT_EQ(first_->handed_over(), 1u);
  for (const FileDescriptor& client : clients_) Call(client);
}

// A connection is neither thread's when its token is revoked, and its new thread has obeyed
// already. Fails if what it has asked for is carried out after that.
TEST_F(TcpHandOverTest, ARevocationMeetsWhatIsOnItsWay) {
  const auto write = [](uint64_t offset) {
    return Encoded(TcpRequest{TcpOpcode::kWrite, 1, kTestRegion, offset, 4, 0}) + "late";
  };
  SendAtOnce(write(0), write(8));
  HoldAt("tcp server: hands over");
  Release();
  AwaitHeld(2);
  tokens_.Revoke("client");
  EXPECT_OK(second_->CloseAll("client"));
  Release();
  EXPECT_OK(first_->CloseAll("client"));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (second_->connections() > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  EXPECT_EQ(first_->connections() + second_->connections(), 0u);
  EXPECT_EQ(memory_[8], '\0') << "the other one's may have come in time";
}

// Fails if a request is lost, or done twice, while connections go to and fro; and under
// ThreadSanitizer if two threads have one at a time.
TEST_F(TcpHandOverTest, NothingIsLostBetweenThreads) {
  std::vector<FileDescriptor> clients(6);
  for (FileDescriptor& client : clients) client = Connect();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> sum{0};
  std::vector<std::thread> threads;
  for (const FileDescriptor& client : clients) {
    threads.emplace_back([&] {
      while (!stop) {
        SendAll(client.get(), Add(1));
        Answer(client);
        ++sum;
      }
    });
  }
  const auto handed_over = [&] { return first_->handed_over() + second_->handed_over(); };
  const Deadline deadline = Deadline::In(std::chrono::seconds(5));
  while (handed_over() < 10 && !deadline.Passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(handed_over(), 0u);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  uint64_t counted = 0;
  std::memcpy(&counted, memory_.data(), sizeof(counted));
  EXPECT_EQ(counted, sum);
  // For a moment both count what is handed over.
  const size_t all = clients_.size() + clients.size();
  const auto connections = [&] { return first_->connections() + second_->connections(); };
  const Deadline counted_by = Deadline::In(std::chrono::seconds(20));
  while (connections() != all && !counted_by.Passed()) std::this_thread::yield();
  EXPECT_EQ(connections(), all);
}

}  // namespace
}  // namespace dlsm
