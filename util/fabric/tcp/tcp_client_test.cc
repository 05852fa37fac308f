// The client's side of the tcp fabric, with memory nodes that hang, lie or go away.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/tcp/peer_dialer.h"
#include "util/fabric/tcp/tcp_frame.h"
#include "util/fabric/tcp/tcp_frame_testing.h"
#include "util/fabric/tcp/tcp_hello.h"
#include "util/fabric/tls/tcp_stream.h"
#include "util/fabric/tls/tcp_wait.h"
#include "util/fabric/tls/tls_context.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// From now on the kernel refuses this thread every connect(), for good. Returns whether it can.
bool ForbidConnect() {
  std::array<sock_filter, 4> rules{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int SocketOption(int socket, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof(value);
  EXPECT_EQ(::getsockopt(socket, level, name, &value, &bytes), 0);
  return value;
}

// This process's end of its connection to that port, which belongs to somebody else; -1: none.
int SocketTo(uint16_t port) {
  constexpr int kLast = 4096;  // More descriptors no test has.
  for (int socket = 0; socket < kLast; ++socket) {
    sockaddr_in address{};
    socklen_t bytes = sizeof(address);
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
        address.sin_family == AF_INET && address.sin_port == htons(port)) {
      return socket;
    }
  }
  return -1;
}

// A memory node that a test plays itself: it takes one connection, answers the hello, then does as
// it is told.
class TcpClientTest : public testing::Test {
 protected:
  static constexpr const char* kKey = "the key of its token";
  static constexpr uint64_t kRegionBytes = uint64_t{64} << 20;

  TcpClientTest() : listener_(ListenOnLoopback(&port_)) {}

  template <typename Serve>
  void Play(Serve serve) {
    server_ = std::thread([this, serve] {
      const FileDescriptor socket(::accept(listener_.get(), nullptr, nullptr));
      const std::string opening = ReceiveUpTo(socket.get(), kTcpPreamble.size() + kTcpOpeningBytes);
      std::string challenge;
      std::string expected;
      if (opening.size() == kTcpPreamble.size() + kTcpOpeningBytes) {
        EXPECT_OK(
            MakeTcpChallenge(opening.substr(kTcpPreamble.size()), kKey, &challenge, &expected));
        SendAll(socket.get(), challenge);
        ReceiveUpTo(socket.get(), kProofBytes + TcpRequest::kBytes);
      }
      serve(socket.get());
    });
  }
  FabricPeer Peer() const {
    FabricPeer peer;
    peer.node = kTestNode;
    peer.host = "127.0.0.1";
    peer.port = port_;
    peer.data_token = std::string(kTcpTokenBytes, 't');
    peer.data_key = kKey;
    peer.tls = tls_;
    peer.regions = {RegionInfo{kTestRegion, kRegionBytes, ""}};
    return peer;
  }
  Status Connect(Deadline deadline) {
    FabricOptions options;
    options.kind = FabricKind::kTcp;
    options.tcp_poll = poll_;
    queue_pair_.reset();  // Before its connection.
    const Status status = ConnectFabric(options, Peer(), deadline, &connection_);
    return status.ok() ? connection_->NewQueuePair(deadline, &queue_pair_) : status;
  }
  Status ReadSomething(Deadline deadline) {
    Ticket ticket{};
    const RemoteSpan from{kTestNode, kTestRegion, 0, got_.size()};
    const Status status = queue_pair_->PostRead(from, Local(got_), Purpose::kRead, &ticket);
    return status.ok() ? queue_pair_->Wait(ticket, deadline) : status;
  }
  // Gives up what is posted to a server that hangs, `after` so long. Returns how long it took until
  // the client had its buffers back.
  template <typename Post>
  Deadline::Clock::duration TimeToGiveUp(milliseconds after, Post post) {
    std::atomic<bool> given_up{false};
    Play([&given_up](int socket) {
      AnswerHello(socket);
      while (!given_up) std::this_thread::sleep_for(milliseconds(1));
    });
    const Status connected = Connect(Soon());
    Ticket ticket{};
    const Status posted = connected.ok() ? post(&ticket) : connected;
    EXPECT_OK(posted);
    if (!posted.ok()) {
      given_up = true;
      server_.join();
      return {};
    }
    const auto start = Deadline::Clock::now();
    const Status status = queue_pair_->Wait(ticket, Deadline::In(after));
    const auto took = Deadline::Clock::now() - start;
    EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
    given_up = true;
    server_.join();
    return took;
  }
  // The server's answers to the hello and to a read, which it awaits first.
  static void AnswerHello(int socket) {
    SendAll(socket, Encoded(TcpReply{TcpOpcode::kHello, TcpCode::kOk, 0, 0}));
  }
  // A server that hangs until its client has given up, and is to have its connection reset by then.
  void PlayAHangUntil(const std::atomic<bool>& given_up) {
    Play([&given_up](int socket) {
      AnswerHello(socket);
      while (!given_up) std::this_thread::sleep_for(milliseconds(1));
      pollfd reset{socket, 0, 0};
      EXPECT_EQ(::poll(&reset, 1, 10'000), 1) << "no reset";
      EXPECT_NE(reset.revents & (POLLERR | POLLHUP), 0);
    });
  }
  // A server that does not answer a read before its client has given up.
  void PlayALateReply() {
    Play([](int socket) {
      AnswerHello(socket);
      ReceiveUpTo(socket, TcpRequest::kBytes);
      EXPECT_EQ(ReceiveUpTo(socket, 1), "");  // The client has ended its side.
      SendAll(socket, Encoded(TcpReply{TcpOpcode::kRead, TcpCode::kOk, 1, 10}) + "late bytes");
    });
  }
  void TearDown() override {
    queue_pair_.reset();
    if (server_.joinable()) server_.join();
  }

  uint16_t port_ = 0;
  FileDescriptor listener_;
  std::thread server_;
  std::string got_ = std::string(10, '?');
  std::chrono::microseconds poll_{0};
  std::shared_ptr<const TlsContext> tls_;  // Null: plain.
  std::unique_ptr<FabricConnection> connection_;
  std::unique_ptr<QueuePair> queue_pair_;
};

// Fails if a wait ignores its deadline, or leaves the queue pair open to a late reply.
TEST_F(TcpClientTest, ATimeOutClosesTheQueuePair) {
  PlayALateReply();
  ASSERT_TRUE(Connect(Soon()).ok());
  const auto start = Deadline::Clock::now();
  const Status status = ReadSomething(Deadline::In(milliseconds(50)));
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  EXPECT_LT(Deadline::Clock::now() - start, seconds(10));
  EXPECT_TRUE(queue_pair_->closed());
  EXPECT_TRUE(ReadSomething(Soon()).IsTimedOut());
  server_.join();
  EXPECT_EQ(got_, std::string(10, '?'));
}

// A child that fork() makes closes what was open here; others have it, too. Fails if a server that
// hangs is not told as long as there is one that what it has not carried out is taken back: where a
// write was to go may be another's by then.
TEST_F(TcpClientTest, WhatIsGivenUpIsResetThoughAChildHasTheSocketToo) {
  std::atomic<bool> given_up{false};
  PlayAHangUntil(given_up);
  EXPECT_OK(Connect(Soon()));
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    ::alarm(60);  // Its parent may be killed before it.
    while (true) ::pause();
  }
  const Status status = ReadSomething(Deadline::In(milliseconds(50)));
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  given_up = true;
  server_.join();
  ASSERT_GT(child, 0);
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

// Fails if a server that hangs is not told what is taken back where the kernel knows, or permits,
// no other way to reset a connection than to close it.
TEST_F(TcpClientTest, WhatIsGivenUpIsResetThoughTheKernelRefusesToDisconnect) {
  std::atomic<bool> given_up{false};
  PlayAHangUntil(given_up);
  bool forbidden = false;
  std::thread client([this, &forbidden] {
    EXPECT_OK(Connect(Soon()));
    forbidden = ForbidConnect();
    const Status status = ReadSomething(Deadline::In(milliseconds(50)));
    EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  });
  client.join();
  given_up = true;
  server_.join();
  if (!forbidden) GTEST_SKIP() << "system calls cannot be filtered here";
}

// A late read harms nobody. Fails if whoever gives one up waits until its reset has taken effect,
// or if whoever gives up what may still change memory does not.
TEST_F(TcpClientTest, OnlyWhatMayStillChangeMemoryWaitsForItsReset) {
  constexpr milliseconds kWait{20};
  std::string word(8, 'w');
  std::string ahead(8, '?');
  const RemoteSpan there{kTestNode, kTestRegion, 0, word.size()};
  const auto to_write = TimeToGiveUp(kWait, [&](Ticket* ticket) {
    return queue_pair_->PostWrite(Local(word), there, Purpose::kFlush, ticket);
  });
  EXPECT_GE(to_write, kWait + 2 * kTcpDrain);
  uint64_t prior = 0;
  const auto to_add = TimeToGiveUp(kWait, [&](Ticket* ticket) {
    return queue_pair_->PostFetchAdd(there, 1, &prior, Purpose::kRead, ticket);
  });
  EXPECT_GE(to_add, kWait + 2 * kTcpDrain);
  Deadline::Clock::duration shortest = seconds(60);
  // A busy machine may add to one; not to each.
  for (int attempt = 0; attempt < 10 && shortest >= kWait + 2 * kTcpDrain; ++attempt) {
    const auto to_read = TimeToGiveUp(kWait, [&](Ticket* ticket) {
      const Status status = queue_pair_->PostRead(there, Local(word), Purpose::kRead, ticket);
      return status.ok() ? queue_pair_->PostRead(there, Local(ahead), Purpose::kRead, ticket)
                         : status;
    });
    shortest = std::min(shortest, to_read);
  }
  EXPECT_LT(shortest, kWait + 2 * kTcpDrain);
}

// A memory node receives no more requests while its client takes no answers. Fails if the client's
// kernel ends the connection of one that is alive then: a pipeline whose user pauses would fail.
TEST_F(TcpClientTest, AMemoryNodeMayHaveNoRoomForRequestsAsLongAsItsClientPauses) {
  Play([](int socket) {
    AnswerHello(socket);
    EXPECT_EQ(ReceiveUpTo(socket, 1), "");
  });
  ASSERT_OK(Connect(Soon()));
  const int socket = SocketTo(port_);
  ASSERT_GE(socket, 0);
  EXPECT_EQ(SocketOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 0) << "the kernel's own";
  EXPECT_NE(SocketOption(socket, SOL_SOCKET, SO_KEEPALIVE), 0);
}

// A life line of verbs has no deadline: how long a queue pair that was given up keeps others
// waiting is up to the kernel. Fails if whatever is dialed may have a slow reader.
TEST_F(TcpClientTest, ADialedSocketOfItselfNoticesAPeerThatTakesNothing) {
  PeerDialer dialer;
  FileDescriptor socket;
  ASSERT_OK(PeerDialer::Resolve(Peer(), &dialer));
  ASSERT_OK(dialer.Dial(Soon(), &socket));
  EXPECT_EQ(SocketOption(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT), 30'000);
}

// A wait that has no memory to say that its time is over. Fails if it throws and leaves the queue
// pair open: its caller gives its buffer back, and the late reply would be written there.
TEST_F(TcpClientTest, ATimeOutWithoutMemoryClosesTheQueuePairToo) {
  PlayALateReply();
  ASSERT_TRUE(Connect(Soon()).ok());
  {
    const port::FailingAllocationsAt failing("tcp: timed out");
    const Status status = ReadSomething(Deadline::In(milliseconds(50)));
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_TRUE(queue_pair_->closed());
  EXPECT_TRUE(ReadSomething(Soon()).IsIOError());
  server_.join();
  EXPECT_EQ(got_, std::string(10, '?'));
}

// Fails if a wait polls, or sleeps where the kernel knows no deadline, beyond its own deadline.
TEST_F(TcpClientTest, ADeadlineEndsPollingAndSleeping) {
  constexpr milliseconds kWait{180};
  for (const auto poll : {seconds(0), seconds(60)}) {
    poll_ = poll;
    Deadline::Clock::duration shortest = seconds(60);
    // A busy machine may add to one; not to each.
    for (int attempt = 0; attempt < 5 && shortest > 2 * kWait; ++attempt) {
      Play([](int socket) {
        AnswerHello(socket);
        ReceiveUpTo(socket, TcpRequest::kBytes);
        EXPECT_EQ(ReceiveUpTo(socket, 1), "");
      });
      ASSERT_TRUE(Connect(Soon()).ok());
      const auto start = Deadline::Clock::now();
      const Status status = ReadSomething(Deadline::In(kWait));
      const auto took = Deadline::Clock::now() - start;
      EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
      EXPECT_GE(took, kWait);
      shortest = std::min(shortest, took);
      server_.join();
    }
    EXPECT_LE(shortest, 2 * kWait);
  }
}

TEST_F(TcpClientTest, AServerThatHangsAtTheHelloTimesOut) {
  Play([](int socket) { ReceiveUpTo(socket, 1); });
  const Status status = Connect(Deadline::In(milliseconds(50)));
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
}

TEST_F(TcpClientTest, SaysWhenTheServerSpeaksAnotherVersion) {
  Play([](int socket) {
    std::string reply = Encoded(TcpReply{});
    reply[0] = 9;
    SendAll(socket, reply);
  });
  const Status status = Connect(Soon());
  EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
  EXPECT_NE(status.ToString().find("version 9"), std::string::npos) << status.ToString();
}

// Fails if a client believes a reply that is damaged, is for another request or claims other sizes.
TEST_F(TcpClientTest, RefusesWrongReplies) {
  const TcpReply right{TcpOpcode::kRead, TcpCode::kOk, 1, 10};
  std::vector<std::string> replies;
  for (size_t bit = 0; bit < 8 * TcpReply::kBytes; bit += 5) {
    replies.push_back(Encoded(right));
    replies.back()[bit / 8] = static_cast<char>(replies.back()[bit / 8] ^ (1 << (bit % 8)));
  }
  replies.push_back(Encoded(TcpReply{TcpOpcode::kRead, TcpCode::kOk, 2, 10}));
  replies.push_back(Encoded(TcpReply{TcpOpcode::kRead, TcpCode::kOk, 1, 11}));
  replies.push_back(Encoded(TcpReply{TcpOpcode::kWrite, TcpCode::kOk, 1, 10}));
  replies.push_back(Encoded(TcpReply{TcpOpcode::kRead, TcpCode::kMalformed, 1, 0}));
  for (const std::string& reply : replies) {
    Play([reply](int socket) {
      AnswerHello(socket);
      ReceiveUpTo(socket, TcpRequest::kBytes);
      SendAll(socket, reply);
    });
    ASSERT_TRUE(Connect(Soon()).ok());
    const Status status = ReadSomething(Soon());
    EXPECT_TRUE(status.IsCorruption()) << status.ToString();
    EXPECT_TRUE(queue_pair_->closed());
    server_.join();
  }
}

// Fails if a write has completed that is not all sent: the rest would be sent from memory that its
// owner has taken back, and tell the server, or who answers in its place, what is there by then.
TEST_F(TcpClientTest, AnAnswerToWhatIsNotSentIsRefused) {
  const int window = 4096;  // So that sockets never hold all of the write.
  ASSERT_EQ(::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &window, sizeof(window)), 0);
  Play([](int socket) {
    AnswerHello(socket);
    ReceiveUpTo(socket, TcpRequest::kBytes);
    SendAll(socket, Encoded(TcpReply{TcpOpcode::kWrite, TcpCode::kOk, 1, kRegionBytes}));
    pollfd ended{socket, POLLRDHUP, 0};
    EXPECT_EQ(::poll(&ended, 1, 10'000), 1) << "the client goes on";
  });
  ASSERT_OK(Connect(Soon()));
  std::string bytes(kRegionBytes, 'w');
  Ticket ticket{};
  const RemoteSpan to{kTestNode, kTestRegion, 0, kRegionBytes};
  ASSERT_OK(queue_pair_->PostWrite(Local(bytes), to, Purpose::kFlush, &ticket));
  const Status status = queue_pair_->Wait(ticket, Soon());
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  EXPECT_TRUE(queue_pair_->closed());
  queue_pair_.reset();  // Before the bytes.
}

// A reply cut at every byte.
TEST_F(TcpClientTest, ATruncatedReplyIsALostConnection) {
  const std::string reply =
      Encoded(TcpReply{TcpOpcode::kRead, TcpCode::kOk, 1, 10}) + std::string(10, 'x');
  for (size_t cut = 0; cut < reply.size(); ++cut) {
    Play([&reply, cut](int socket) {
      AnswerHello(socket);
      ReceiveUpTo(socket, TcpRequest::kBytes);
      SendAll(socket, reply.substr(0, cut));
    });
    ASSERT_TRUE(Connect(Soon()).ok());
    const Status status = ReadSomething(Soon());
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    server_.join();
  }
}

// The same over TLS.
class TcpTlsClientTest : public TcpClientTest {
 protected:
  void SetUp() override {
    const std::string key(TlsContext::kKeyBytes, 'k');
    TlsConfig config;
    config.enabled = true;
    ASSERT_OK(TlsContext::ForServer(
        config, [key](const std::string& /*identity*/) { return key; }, &server_tls_));
    ASSERT_OK(TlsContext::ForClient(config, "tester", key, &tls_));
  }

  template <typename Serve>
  void PlayOverTls(Serve serve) {
    server_ = std::thread([this, serve] {
      TcpStream stream(FileDescriptor{::accept(listener_.get(), nullptr, nullptr)});
      ASSERT_OK(server_tls_->Accept(stream, Soon()));
      const std::string opening = Receive(stream, kTcpPreamble.size() + kTcpOpeningBytes);
      std::string challenge;
      std::string expected;
      ASSERT_OK(MakeTcpChallenge(opening.substr(kTcpPreamble.size()), kKey, &challenge, &expected));
      Send(stream, challenge);
      Receive(stream, kProofBytes + TcpRequest::kBytes);
      Send(stream, Encoded(TcpReply{TcpOpcode::kHello, TcpCode::kOk, 0, 0}));
      serve(stream);
    });
  }
  static void Send(TcpStream& stream, const std::string& bytes) {
    EXPECT_OK(SendWhole("the client", stream, bytes, Soon()));
  }
  static std::string Receive(TcpStream& stream, size_t bytes) {
    std::string received(bytes, '\0');
    EXPECT_OK(ReceiveWhole("the client", stream, received.data(), received.size(), Soon()));
    return received;
  }

  std::shared_ptr<const TlsContext> server_tls_;
  std::atomic<bool> carried_out_{false};
};

// What is no record of TLS ends the session, but not what the server has received before. Fails if
// the bytes of a write, and the place that they go to, are given back while the server may still be
// carrying it out, which it says by closing its end.
TEST_F(TcpTlsClientTest, AQueuePairWhoseTlsFailsIsDrained) {
  constexpr size_t kBytes = 100;
  PlayOverTls([this](TcpStream& stream) {
    Receive(stream, TcpRequest::kBytes + kBytes);
    SendAll(stream.get(), std::string(kBytes, 'x'));
    ReceiveUpTo(stream.get(), size_t{1} << 20);  // Until the client has ended its side.
    std::this_thread::sleep_for(kTcpDrain / 2);
    carried_out_ = true;
  });
  ASSERT_OK(Connect(Soon()));
  std::string bytes(kBytes, 'w');
  Ticket ticket{};
  const RemoteSpan to{kTestNode, kTestRegion, 0, kBytes};
  ASSERT_OK(queue_pair_->PostWrite(Local(bytes), to, Purpose::kFlush, &ticket));
  const auto start = Deadline::Clock::now();
  const Status status = queue_pair_->Wait(ticket, Soon());
  // On a busy machine it may have waited as long as it waits for anybody.
  EXPECT_TRUE(carried_out_ || Deadline::Clock::now() - start >= kTcpDrain);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_TRUE(queue_pair_->closed());
}

}  // namespace
}  // namespace dlsm
