// What a server does with its connections, over real sockets. Calls are rpc_transport_test.cc's
// subject.
#include "util/rpc/rpc_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "port/mutex.h"
#include "util/eventually_testing.h"
#include "util/random.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/auth/hello.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/rpc_client.h"
#include "util/rpc/rpc_server_testing.h"
#include "util/status_testing.h"
#include "util/threads_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Fails if an absent server is not waited for, or waited for too long, or the message gives no
// hint.
TEST_F(RpcServerTest, RefusedConnectionsAreTriedAgainUntilTheDeadline) {
  StartServer();
  server_.reset();
  std::unique_ptr<NodeRpcClient> client;
  const Status status = Connect(&client, Deadline::In(milliseconds(100)));
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("cannot reach memory node 127.0.0.1:"));
  EXPECT_THAT(status.ToString(), HasSubstr("efused; is Server running there?"));
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(100));
    StartServer();
  });
  EXPECT_OK(Connect(&client));
  late.join();
}

TEST_F(RpcServerTest, UnknownHostIsNamed) {
  std::unique_ptr<NodeRpcClient> client;
  const Status status =
      NodeRpcClient::Connect({"no.such.host.invalid", 1}, "", "", Soon(), &info_, &client);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("no.such.host.invalid"));
}

TEST_F(RpcServerTest, PortInUseIsSaid) {
  StartServer();
  std::unique_ptr<RpcServer> second;
  const Status status = RpcServer::Start(options_, &handler_, &second);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("is in use"));
  RpcServerOptions bad = options_;
  bad.bind_address = "not an address";
  EXPECT_TRUE(RpcServer::Start(bad, &handler_, &second).IsInvalidArgument());
}

// Fails if strangers who are silent, slow or hostile keep others out.
TEST_F(RpcServerTest, StrangersHurtNobody) {
  StartServer();
  Random random(5);
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(RawConnection());  // Silent.
    strangers.push_back(RawConnection());
    ASSERT_OK(SendAll(strangers.back().get(), Slice(kControlPreamble, 3), Soon()));
    strangers.push_back(RawConnection());
    ASSERT_OK(SendAll(strangers.back().get(), EncodeGreeting(kProtocolVersion), Soon()));
  }
  for (int i = 0; i < 20; ++i) {
    const Socket garbage = RawConnection();
    ASSERT_OK(SendAll(garbage.get(), random.Bytes(100), Soon()));
    EXPECT_TRUE(EndsSoon(garbage));
  }
  ExpectServes();
  // And they do not stay for ever.
  for (const Socket& stranger : strangers) {
    char bytes[kGreetingBytes];
    ReceiveAll(stranger.get(), bytes, sizeof(bytes), Soon()).PermitUncheckedError();
    EXPECT_TRUE(EndsSoon(stranger));
  }
}

// Fails if a memory node that does not serve a transport is taken for one that does.
TEST_F(RpcServerTest, UnservedTransportsAreRefused) {
  StartServer();
  ControlStream control = HelloedConnection();
  std::string frame;
  ASSERT_OK(MakeFrame(FrameType::kRequest, kOpenTransport, Status::Code::kOk, 7, "offer", &frame));
  ASSERT_OK(SendSealed(control, frame));
  char bytes[kFrameHeaderBytes];
  ASSERT_OK(ReceiveAll(control.stream, bytes, sizeof(bytes), Soon()));
  FrameHeader header;
  ASSERT_OK(header.Decode(Slice(bytes, sizeof(bytes))));
  EXPECT_EQ(header.code, Status::Code::kNotSupported);
  EXPECT_EQ(header.call, 7u);
  std::string reason(header.payload_bytes + FrameSeal::kBytes, '\0');
  ASSERT_OK(ReceiveAll(control.stream, reason.data(), reason.size(), Soon()));
  EXPECT_THAT(reason, HasSubstr("over tcp only"));
  // And the connection goes on.
  ASSERT_OK(MakeFrame(FrameType::kRequest, Method::kGrant, Status::Code::kOk, 8, "", &frame));
  ASSERT_OK(SendSealed(control, frame));
  ASSERT_OK(ReceiveAll(control.stream, bytes, sizeof(bytes), Soon()));
}

// Fails if a broken frame does not end its connection, or ends another.
TEST_F(RpcServerTest, BrokenFramesEndTheirConnection) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::string frame;
  ASSERT_OK(MakeFrame(FrameType::kRequest, Method::kGrant, Status::Code::kOk, 1, "pay", &frame));
  Random random(6);
  for (int i = 0; i < 30; ++i) {
    ControlStream control = HelloedConnection();
    std::string broken = frame;
    const size_t at = random.Uniform(frame.size());
    broken[at] = static_cast<char>(broken[at] ^ (1 << random.Uniform(8)));
    ASSERT_OK(SendSealed(control, broken));
    ASSERT_TRUE(EndsSoon(control)) << at;
  }
  ControlStream reply_sender = HelloedConnection();
  ASSERT_OK(MakeFrame(FrameType::kReply, Method::kGrant, Status::Code::kOk, 1, "pay", &frame));
  ASSERT_OK(SendSealed(reply_sender, frame));
  EXPECT_TRUE(EndsSoon(reply_sender));
  std::string reply;
  ASSERT_OK(client->Call(Method::kGrant, "unhurt", &reply, Soon()));
}

// Fails if a client that asks for much and takes nothing blocks others, or makes the server keep
// all of it.
TEST_F(RpcServerTest, ClientsThatDoNotReadAreCutOff) {
  StartServer();
  ControlStream greedy = HelloedConnection();
  std::string frame;
  ASSERT_OK(MakeFrame(FrameType::kRequest, Method::kPutManifest, Status::Code::kOk, 1, "", &frame));
  Status sent;
  for (int i = 0; i < 1000 && sent.ok(); ++i) sent = SendSealed(greedy, frame);
  sent.PermitUncheckedError();
  ExpectServes();
  // Nothing is read before the server has given up.
  const Deadline deadline = Soon();
  while (handler_.disconnected() < 2 && !deadline.Passed()) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  // Its 1 GB of replies does not arrive.
  std::vector<char> chunk(size_t{1} << 20);
  uint64_t received = 0;
  while (ReceiveAll(greedy.stream, chunk.data(), chunk.size(), Soon()).ok()) {
    received += chunk.size();
  }
  EXPECT_LT(received, uint64_t{300} << 20);
}

// Fails if the patience with a client that does not take its replies begins before there are any: a
// connection that is older than that would end with the first reply that its socket does not take
// at once.
TEST_F(RpcServerTest, OldConnectionsMayReadTheirRepliesLate) {
  constexpr milliseconds kPatience{1000};
  options_.progress_timeout = kPatience;
  StartServer();
  ControlStream late = HelloedConnection();
  // So that the replies fit nowhere: no host gives a connection as much as all of them.
  const int receive_bytes = 256 << 10;
  ASSERT_EQ(
      setsockopt(late.stream.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes)),
      0);
  std::this_thread::sleep_for(kPatience + kPatience / 2);
  std::string frame;
  ASSERT_OK(MakeFrame(FrameType::kRequest, Method::kPutManifest, Status::Code::kOk, 1, "", &frame));
  constexpr int kReplies = 16;
  for (int i = 0; i < kReplies; ++i) ASSERT_OK(SendSealed(late, frame));
  std::this_thread::sleep_for(kPatience / 4);
  std::vector<char> reply(kFrameHeaderBytes + kLargeReplyBytes + FrameSeal::kBytes);
  for (int i = 0; i < kReplies; ++i) {
    ASSERT_OK(ReceiveAll(late.stream, reply.data(), reply.size(), Soon())) << i;
  }
  // And one that takes none is still cut off.
  for (int i = 0; i < kReplies; ++i) ASSERT_OK(SendSealed(late, frame));
  const Deadline deadline = Soon();
  while (handler_.disconnected() == 0 && !deadline.Passed()) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(handler_.disconnected(), 1);
}

// Fails if the limit of connections is not kept, or does not say that it is one.
TEST_F(RpcServerTest, TooManyConnectionsAreRefused) {
  options_.connections_max = 2;
  StartServer();
  std::unique_ptr<NodeRpcClient> first;
  std::unique_ptr<NodeRpcClient> second;
  std::unique_ptr<NodeRpcClient> third;
  ASSERT_OK(Connect(&first));
  ASSERT_OK(Connect(&second));
  const Status status = Connect(&third);
  EXPECT_TRUE(status.IsBusy()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("2 connections, its limit"));
  first.reset();
  Status retried;
  for (int i = 0; i < 500; ++i) {
    retried = Connect(&third);
    if (retried.ok()) break;
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_OK(retried);
}

// Fails if a data connection is lost, closed, or has bytes missing when it is handed over.
TEST_F(RpcServerTest, HandsOverDataConnections) {
  std::atomic<int> taken{-1};
  options_.greet_data_connection = [&](TcpStream& stream, Deadline deadline, std::string* token) {
    token->resize(9);
    return ReceiveAll(stream, token->data(), token->size(), deadline);
  };
  options_.on_data_connection = [&](TcpStream stream, const std::string& token) {
    EXPECT_EQ(token, "the token");
    taken.store(fcntl(stream.get(), F_DUPFD_CLOEXEC, 0));
  };
  StartServer();
  const Socket data = RawConnection();
  ASSERT_OK(SendAll(data.get(), std::string(kDataPreamble) + "the token", Soon()));
  while (taken.load() < 0) std::this_thread::yield();
  const Socket theirs(taken.load());
  // The server forgets its own descriptor in its housekeeping; the connection stays.
  std::this_thread::sleep_for(milliseconds(400));
  ASSERT_OK(SendAll(theirs.get(), "answer", Soon()));
  std::string answer(6, '\0');
  ASSERT_OK(ReceiveAll(data.get(), answer.data(), answer.size(), Soon()));
  EXPECT_EQ(answer, "answer");
}

// Fails if the token of a client that has gone stays good, or that of a living one does not.
TEST_F(RpcServerTest, TokensEndWithTheirClients) {
  port::Mutex mutex;
  std::vector<std::string> revoked;
  TokenTable tokens(milliseconds(500), {}, [&](const std::string& token) {
    const port::MutexLock lock(mutex);
    revoked.push_back(token);
  });
  options_.tokens = &tokens;
  const auto revoked_count = [&] {
    const port::MutexLock lock(mutex);
    return revoked.size();
  };
  StartServer();
  std::unique_ptr<NodeRpcClient> stays;
  std::unique_ptr<NodeRpcClient> goes;
  ASSERT_OK(Connect(&stays));
  ASSERT_OK(Connect(&goes));
  goes.reset();
  const Deadline deadline = Soon();
  while (revoked_count() == 0 && !deadline.Passed()) std::this_thread::sleep_for(milliseconds(20));
  {
    const port::MutexLock lock(mutex);
    EXPECT_EQ(revoked, (std::vector<std::string>{info_.data_token}));
  }
  server_.reset();
}

// A client whose token was revoked connects again every now and then. Fails if it shows that token
// each time: it is given another one each time then, until its sessions, which remember all of
// them, refuse its calls.
TEST_F(RpcServerTest, AClientShowsTheTokenThatItWasGivenLast) {
  std::atomic<int> given{0};
  TokenTable tokens(std::chrono::minutes(1),
                    [&given](const std::string&, const ClientRights&) { ++given; }, {});
  options_.tokens = &tokens;
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  tokens.Forget(info_.data_token);
  int given_instead = 0;
  for (int times = 0; times < 3; ++times) {
    server_.reset();
    StartServer();  // In the same boot: as if the connection alone had been lost.
    std::string reply;
    EXPECT_TRUE(
        Eventually([&] { return client->Call(Method::kGrant, "again", &reply, Soon()).ok(); }));
    // One, unless the answer to the first hello was lost: then the client could not know it.
    if (times == 0) given_instead = given - 1;
  }
  EXPECT_GE(given_instead, 1);
  EXPECT_EQ(given - 1, given_instead);
  server_.reset();
}

// Fails if each connection has a thread while nothing comes over it, at either end; if what comes
// then is not served; or if the end of one is not noticed.
TEST_F(RpcServerTest, IdleConnectionsKeepNoThreads) {
  constexpr size_t kClients = 60;
  StartServer();
  std::vector<std::unique_ptr<NodeRpcClient>> clients(kClients);
  const auto call_all = [&] {
    for (const auto& client : clients) {
      std::string reply;
      EXPECT_OK(client->Call(Method::kGrant, "echo", &reply, Soon()));
      EXPECT_EQ(reply, "echo");
    }
  };
  for (auto& client : clients) ASSERT_OK(Connect(&client));
  for (int round = 0; round < 2; ++round) {
    call_all();
    // The pool's and the watches', whatever else this process has.
    EXPECT_TRUE(Eventually([] { return ThreadsOfProcess() < kClients / 2; }));
  }
  std::vector<std::thread> callers;
  for (size_t i = 0; i < kClients; ++i) {
    callers.emplace_back([&, i] {
      std::string reply;
      for (int round = 0; round < 20; ++round) {
        EXPECT_OK(clients[i]->Call(round % 2 == 0 ? Method::kGrant : Method::kMerge, "echo", &reply,
                                   Soon()));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return handler_.disconnected() == int{kClients}; }));
}

// Fails if replies that come while nobody serves the connection stay, where the socket does not
// take all of them at once.
TEST_F(RpcServerTest, LongRepliesToAnIdleConnectionArrive) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  constexpr size_t kCallers = 3;
  std::vector<std::thread> callers;
  std::string replies[kCallers];
  for (size_t i = 0; i < kCallers; ++i) {
    callers.emplace_back(
        [&, i] { EXPECT_OK(client->Call(Method::kFree, "", &replies[i], Soon())); });
  }
  EXPECT_TRUE(Eventually([&] { return handler_.kept() == kCallers; }));
  std::this_thread::sleep_for(milliseconds(20));  // The connection is nobody's by now.
  const std::string answer(16 * kLargeReplyBytes, 'a');
  handler_.AnswerKept(answer);
  for (std::thread& caller : callers) caller.join();
  for (const std::string& reply : replies) EXPECT_EQ(reply, answer);
}

}  // namespace
}  // namespace dlsm
