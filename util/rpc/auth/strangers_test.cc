// Thousands of connections of those who do not know the secret: none of them keeps a client away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "util/child_testing.h"
#include "util/fabric/tls/tls_context.h"
#include "util/random.h"
#include "util/rpc/auth/failure_limiter.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/rpc_client.h"
#include "util/rpc/rpc_server.h"
#include "util/secret_proof.h"
#include "util/status_testing.h"
#include "util/threads_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

Deadline StrangersDeadline() { return Deadline::In(std::chrono::seconds(30)); }

class EchoHandler : public RpcHandler {
 public:
  void Handle(const RpcPeer& /*peer*/, Method /*method*/, const Slice& request,
              RpcDone done) override {
    done(Status::OK(), request.ToString());
  }
  void Disconnected(const RpcPeer& /*peer*/) override {}
};

class StrangersTest : public testing::Test {
 protected:
  // Whoever is refused after many others is held for longer than this: but for little longer, for
  // on a busy machine threads are late.
  static constexpr milliseconds kLessThanAHold = FailureLimiter::kDelayMax - milliseconds(100);

  StrangersTest() {
    rlimit limit{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    before_ = limit;
    limit.rlim_cur = limit.rlim_max;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    descriptors_ = limit.rlim_cur;
    options_.secret = "secret";
  }
  ~StrangersTest() override {
    server_.reset();
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
  }

  void StartServer() { ASSERT_OK(RpcServer::Start(options_, &handler_, &server_)); }

  Socket Dial() {
    Socket socket;
    ConnectFailure failure{};
    // Where there is no descriptor left, there is no stranger.
    const Status status =
        ConnectSocket("127.0.0.1", server_->port(), StrangersDeadline(), &socket, &failure);
    if (!status.ok()) socket = Socket();
    return socket;
  }

  Status CallOnce(const std::string& secret = "secret") {
    NodeInfo info;
    std::unique_ptr<NodeRpcClient> client;
    Credentials credentials(secret);
    Status status = UseTls(tls_, &credentials);
    if (!status.ok()) return status;
    status = NodeRpcClient::Connect({"127.0.0.1", server_->port()}, credentials, "tester",
                                    StrangersDeadline(), &info, &client);
    std::string reply;
    return status.ok() ? client->Call(Method::kGrant, "here", &reply, StrangersDeadline()) : status;
  }

  // Both sides use TLS, and know each other by the secret.
  void UseTlsHere() {
    tls_.enabled = true;
    ASSERT_OK(TlsContext::ForServer(
        tls_, [key = TlsKey(options_.secret)](const std::string&) { return key; }, &options_.tls));
  }

  void ExpectGuessesAreSlow() {
    StartServer();
    std::vector<std::thread> guessers;
    std::atomic<int> guesses{0};
    const auto until = FailureLimiter::Clock::now() + milliseconds(2500);
    for (int i = 0; i < 16; ++i) {
      guessers.emplace_back([&] {
        while (FailureLimiter::Clock::now() < until) {
          EXPECT_TRUE(CallOnce("guess").IsInvalidArgument());
          guesses.fetch_add(1);
        }
      });
    }
    EXPECT_OK(CallOnce());
    for (std::thread& guesser : guessers) guesser.join();
    // Sixteen at a time, first 200 ms and soon more than a second each.
    EXPECT_LT(guesses.load(), 16 * 6);
    EXPECT_OK(CallOnce());
  }

  // What somebody says who does not know the secret.
  static std::string WrongProof() {
    ClientOpening opening;
    opening.nonce = std::string(kNonceBytes, 'n');
    ClientProof proof;
    proof.proof = std::string(kProofBytes, 'p');
    return EncodeGreeting(kProtocolVersion) + EncodeHelloMessage(opening.Encode()) +
           EncodeHelloMessage(proof.Encode());
  }

  // Many say this, for which each is refused.
  void ExpectRefusedKeepNobodyAway(const std::string& said) {
    StartServer();
    const size_t count = std::min<size_t>(1500, descriptors_ / 4);
    std::vector<Socket> strangers;
    const auto attack = [&](size_t times) {
      for (size_t i = 0; i < times; ++i) {
        Socket stranger = Dial();
        if (!stranger.valid()) continue;
        SendAll(stranger.get(), said, StrangersDeadline()).PermitUncheckedError();
        strangers.push_back(std::move(stranger));
      }
    };
    // After these, whoever is refused is held for more than a second.
    attack(64);
    std::this_thread::sleep_for(milliseconds(500));
    attack(count);
    EXPECT_GT(strangers.size(), count / 4) << "the test could not attack";
    const Deadline deadline = Deadline::In(kLessThanAHold);
    const size_t wanted = static_cast<size_t>(options_.strangers_max) + 10;
    // Some that are still to be accepted may add one for a moment.
    size_t threads = ThreadsOfProcess();
    while (threads > wanted && !deadline.Passed()) {
      std::this_thread::sleep_for(milliseconds(10));
      threads = ThreadsOfProcess();
    }
    EXPECT_LE(threads, wanted);
    EXPECT_OK(CallOnce());
    EXPECT_GT(server_->Counts().evicted, 0u);
  }

  rlimit before_{};
  rlim_t descriptors_ = 0;
  EchoHandler handler_;
  RpcServerOptions options_;
  TlsConfig tls_;  // Of the client.
  std::unique_ptr<RpcServer> server_;
};

// Fails if connections that are silent, stop half-way, send a byte now and then, or rubbish, hold
// what others need: threads, descriptors, the limit of connections, or the time to accept them.
TEST_F(StrangersTest, ThousandsKeepNobodyAway) {
  options_.connections_max = 8;
  StartServer();
  NodeInfo info;
  std::unique_ptr<NodeRpcClient> old_client;
  ASSERT_OK(NodeRpcClient::Connect({"127.0.0.1", server_->port()}, "secret", "old",
                                   StrangersDeadline(), &info, &old_client));
  const size_t count = std::min<size_t>(5000, descriptors_ / 2);
  const std::string greeting = EncodeGreeting(kProtocolVersion);
  std::vector<Socket> strangers;
  Random random(3);
  for (size_t i = 0; i < count; ++i) {
    Socket stranger = Dial();
    if (!stranger.valid()) continue;
    std::string said;
    switch (i % 6) {
      case 1:
        said = std::string(kControlPreamble, 3);
        break;
      case 2:
        said = greeting;
        break;
      case 3:
        said = std::string(kDataPreamble) + std::string(10, 't');
        break;
      case 4:
        said = std::string("\x16\x03\x01", 3);
        break;
      case 5:
        said = random.Bytes(50);
        break;
      default:
        break;
    }
    SendAll(stranger.get(), said, StrangersDeadline()).PermitUncheckedError();
    strangers.push_back(std::move(stranger));
    if (i % 500 == 0) {
      // One byte more for each: so nobody is given up for silence.
      for (const Socket& each : strangers) {
        static_cast<void>(::send(each.get(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
      }
      EXPECT_OK(CallOnce()) << "after " << i;
      std::string reply;
      EXPECT_OK(old_client->Call(Method::kGrant, "still", &reply, StrangersDeadline()));
    }
  }
  EXPECT_OK(CallOnce());
  EXPECT_GT(strangers.size(), count / 4) << "the test could not attack";
}

// Fails if who has said no more than that it wants a queue pair counts as a client: nobody would
// have to go for another one, and each would have a thread.
TEST_F(StrangersTest, QueuePairsAreForThoseWhoShowAToken) {
  std::atomic<int> adopted{0};
  options_.greet_queue_pair_connection = [](int socket, Deadline deadline, std::string* token) {
    token->resize(5);
    return ReceiveAll(socket, token->data(), token->size(), deadline);
  };
  options_.on_queue_pair_connection = [&](int socket, const std::string& token) {
    const Socket owned(socket);
    EXPECT_EQ(token, "token");
    adopted.fetch_add(1);
    return Status::OK();
  };
  StartServer();
  const size_t count = std::min<size_t>(2000, descriptors_ / 4);
  std::vector<Socket> strangers;
  size_t threads = 0;
  for (size_t i = 0; i < count; ++i) {
    Socket stranger = Dial();
    if (!stranger.valid()) continue;
    SendAll(stranger.get(), kQueuePairPreamble, StrangersDeadline()).PermitUncheckedError();
    strangers.push_back(std::move(stranger));
    if (i % 100 == 0) threads = std::max(threads, ThreadsOfProcess());
  }
  EXPECT_OK(CallOnce());
  EXPECT_GT(server_->Counts().evicted, 0u);
  EXPECT_LE(threads, 2 * static_cast<size_t>(options_.strangers_max) + 10);
  EXPECT_GT(strangers.size(), count / 4) << "the test could not attack";
  EXPECT_EQ(adopted.load(), 0);

  const Socket client = Dial();
  ASSERT_OK(SendAll(client.get(), std::string(kQueuePairPreamble) + "token", StrangersDeadline()));
  char byte;
  EXPECT_TRUE(
      ReceiveAll(client.get(), &byte, 1, StrangersDeadline()).IsIOError());  // It has been closed.
  EXPECT_EQ(adopted.load(), 1);
}

// Fails if a process without descriptors does not say so, or does not recover.
TEST_F(StrangersTest, RunsOutOfDescriptorsAndRecovers) {
  if (!kWorksWithoutDescriptors) GTEST_SKIP() << "UBSan needs a descriptor now and then";
  options_.strangers_max = 1000000;  // So that descriptors are what ends first.
  StartServer();
  ASSERT_OK(CallOnce());
  rlimit few{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &few), 0);
  few.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(Dial());
  EXPECT_FALSE(strangers.back().valid());
  // The client, which is in the same process, is told.
  const Status status = CallOnce();
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), testing::HasSubstr("this process has no descriptor left"));
  strangers.clear();
  const Deadline deadline = StrangersDeadline();
  Status recovered = CallOnce();
  while (!recovered.ok() && !deadline.Passed()) {
    std::this_thread::sleep_for(milliseconds(20));
    recovered = CallOnce();
  }
  EXPECT_OK(recovered);
}

// Fails if secrets can be tried at the speed of the network, or one who tries locks others out.
TEST_F(StrangersTest, GuessesAreSlow) { ExpectGuessesAreSlow(); }

// Fails if they can in the TLS handshake, which a client with a wrong secret does not pass.
TEST_F(StrangersTest, GuessesOverTlsAreSlow) {
  UseTlsHere();
  ExpectGuessesAreSlow();
}

// Fails if those whose handshakes fail, and who are held for that, keep others away, or are held
// when they have to go.
TEST_F(StrangersTest, FailedHandshakesKeepNobodyAway) {
  UseTlsHere();
  // A record whose contents are no handshake.
  ExpectRefusedKeepNobodyAway(std::string("\x16\x03\x01\x00\x04none", 9));
}

// The same of those whose proofs are wrong.
TEST_F(StrangersTest, FailedProofsKeepNobodyAway) { ExpectRefusedKeepNobodyAway(WrongProof()); }

// Fails if a memory node that is to stop waits for those who are held for wrong proofs.
TEST_F(StrangersTest, WhoIsHeldDoesNotHoldTheEnd) {
  StartServer();
  constexpr uint64_t kFailures = 30;
  std::vector<Socket> strangers;
  for (uint64_t i = 0; i < kFailures; ++i) {
    strangers.push_back(Dial());
    ASSERT_OK(SendAll(strangers.back().get(), WrongProof(), StrangersDeadline()));
  }
  const Deadline deadline = StrangersDeadline();
  while (server_->Counts().refused < kFailures && !deadline.Passed()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  // The next one is held for a second or so, once it has been asked for its proof.
  const Socket held = Dial();
  ASSERT_OK(SendAll(held.get(), WrongProof(), StrangersDeadline()));
  std::string asked(kGreetingBytes + kHelloHeaderBytes, '\0');
  ASSERT_OK(ReceiveAll(held.get(), asked.data(), asked.size(), StrangersDeadline()));
  const auto start = FailureLimiter::Clock::now();
  server_.reset();
  EXPECT_LT(FailureLimiter::Clock::now() - start, kLessThanAHold);
}

// Fails if who has said a byte, too little to tell what it speaks, is waited for when it has gone,
// has to go, or the memory node is to stop: many of them would keep all others away.
TEST_F(StrangersTest, WhoHasSaidAByteIsNotWaitedFor) {
  constexpr std::chrono::seconds kLessThanAHello(2);
  options_.strangers_max = 1;
  StartServer();
  const auto say_a_byte = [this] {
    Socket stranger = Dial();
    EXPECT_OK(SendAll(stranger.get(), "D", StrangersDeadline()));
    return stranger;
  };
  const auto expect_ended = [&](uint64_t so_many) {
    const Deadline deadline = Deadline::In(kLessThanAHello);
    while (server_->Counts().refused < so_many && !deadline.Passed()) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_EQ(server_->Counts().refused, so_many);
  };
  say_a_byte().Close();
  expect_ended(1);
  const Socket evicted = say_a_byte();
  const Socket last = say_a_byte();
  expect_ended(2);
  const auto start = FailureLimiter::Clock::now();
  server_.reset();
  EXPECT_LT(FailureLimiter::Clock::now() - start, kLessThanAHello);
}

TEST(FailureLimiterTest, DelaysGrowAndAreForgotten) {
  FailureLimiter limiter;
  const FailureLimiter::Clock::time_point start{std::chrono::hours(1)};
  EXPECT_EQ(limiter.DelayOf("a", start).count(), 0);
  limiter.Failed("a", start);
  EXPECT_EQ(limiter.DelayOf("a", start), FailureLimiter::kDelayPerFailure);
  EXPECT_EQ(limiter.DelayOf("b", start).count(), 0);
  for (int i = 0; i < 1000; ++i) limiter.Failed("a", start);
  EXPECT_EQ(limiter.DelayOf("a", start), FailureLimiter::kDelayMax);
  const auto half = start + FailureLimiter::kForgottenAfter / 2;
  EXPECT_LE(limiter.DelayOf("a", half), FailureLimiter::kDelayMax / 2);
  EXPECT_GT(limiter.DelayOf("a", half).count(), 0);
  EXPECT_EQ(limiter.DelayOf("a", start + FailureLimiter::kForgottenAfter).count(), 0);
}

}  // namespace
}  // namespace dlsm
