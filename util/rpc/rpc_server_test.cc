// Client and server together, over real sockets.
#include "util/rpc/rpc_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "port/mutex.h"
#include "util/random.h"
#include "util/rpc/frame.h"
#include "util/rpc/hello.h"
#include "util/rpc/rpc_client.h"
#include "util/rpc/rpc_transport.h"
#include "util/rpc/socket.h"
#include "util/rpc/verbs_rpc_server.h"
#include "util/secret_proof.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Deadline Soon() { return Deadline::In(seconds(20)); }

constexpr size_t kLargeReplyBytes = size_t{1} << 20;

// kGrant: answers with the request. kMerge: the same, 20 ms later, from another thread. kFree:
// never answers by itself. kPutManifest: answers with 1 MB. kListDatabases: with more than a frame
// holds.
class TestHandler : public RpcHandler {
 public:
  ~TestHandler() override {
    const port::MutexLock lock(mutex_);
    for (std::thread& thread : threads_) thread.join();
  }

  void Handle(const RpcPeer& peer, Method method, const Slice& request, RpcDone done) override {
    const port::MutexLock lock(mutex_);
    if (live_.insert(peer.connection).second) last_name_ = peer.name;
    switch (method) {
      case Method::kGrant:
        return done(Status::OK(), request.ToString());
      case Method::kMerge:
        threads_.emplace_back([done, text = request.ToString()] {
          std::this_thread::sleep_for(milliseconds(20));
          done(Status::OK(), text);
        });
        return;
      case Method::kFree:
        kept_.push_back(std::move(done));
        return;
      case Method::kPutManifest:
        return done(Status::OK(), std::string(kLargeReplyBytes, 'x'));
      case Method::kListDatabases:
        return done(Status::OK(), std::string(kFrameBytesMax + 1, 'x'));
      default:
        return done(Status::NotFound("no such thing"), "ignored");
    }
  }

  void Disconnected(const RpcPeer& peer) override {
    const port::MutexLock lock(mutex_);
    live_.erase(peer.connection);
    ++disconnected_;
  }

  void AnswerKept(const std::string& reply) {
    std::vector<RpcDone> kept;
    {
      const port::MutexLock lock(mutex_);
      kept.swap(kept_);
    }
    for (const RpcDone& done : kept) done(Status::OK(), reply);
  }
  size_t kept() {
    const port::MutexLock lock(mutex_);
    return kept_.size();
  }
  int disconnected() {
    const port::MutexLock lock(mutex_);
    return disconnected_;
  }
  std::string last_name() {
    const port::MutexLock lock(mutex_);
    return last_name_;
  }

 private:
  port::Mutex mutex_;
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  std::vector<RpcDone> kept_ GUARDED_BY(mutex_);
  std::set<uint64_t> live_ GUARDED_BY(mutex_);
  int disconnected_ GUARDED_BY(mutex_) = 0;
  std::string last_name_ GUARDED_BY(mutex_);
};

class RpcServerTest : public testing::Test {
 protected:
  RpcServerTest() {
    options_.secret = "secret";
    options_.node = NodeId{4};
    options_.epoch = 99;
    options_.regions = {{RegionId{0}, 4096, ""}};
  }

  void StartServer() {
    if (transport_.kind != RpcTransport::kTcp) {
      ASSERT_OK(NewVerbsTransportFactory(transport_.verbs, &options_.transports));
    }
    ASSERT_OK(RpcServer::Start(options_, &handler_, &server_));
    if (options_.port == 0) options_.port = server_->port();  // Kept by later ones.
  }

  Status Connect(std::unique_ptr<NodeRpcClient>* client, Deadline deadline = Soon()) {
    return NodeRpcClient::Connect({"127.0.0.1", options_.port}, "secret", "tester", deadline,
                                  &info_, client, transport_);
  }

  Socket RawConnection() {
    Socket socket;
    bool refused = false;
    EXPECT_OK(ConnectSocket("127.0.0.1", options_.port, Soon(), &socket, &refused));
    return socket;
  }
  // One that has passed the hello.
  ControlStream HelloedConnection() {
    ControlStream control;
    control.stream = TcpStream(FileDescriptor(RawConnection().Release()));
    ClientIdentity identity;
    identity.secret = "secret";
    NodeInfo info;
    FrameKeys keys;
    EXPECT_OK(ClientHello(control.stream, "here", identity, Soon(), &info, &keys));
    EXPECT_OK(control.seals.MakeForClient(keys));
    return control;
  }
  static Status SendSealed(ControlStream& control, std::string frame) {
    const Status sealed = control.seals.sent->Append(&frame);
    return sealed.ok() ? SendAll(control.stream, frame, Soon()) : sealed;
  }
  // Whether the server has ended this connection; waits for it.
  static bool EndsSoon(const Socket& socket) {
    char byte;
    return ReceiveAll(socket.get(), &byte, 1, Soon()).IsIOError();
  }
  static bool EndsSoon(ControlStream& control) {
    char byte;
    const Status status = ReceiveAll(control.stream, &byte, 1, Soon());
    return status.IsIOError();
  }
  void ExpectServes() {
    std::unique_ptr<NodeRpcClient> client;
    ASSERT_OK(Connect(&client));
    std::string reply;
    ASSERT_OK(client->Call(Method::kGrant, "still here", &reply, Soon()));
    EXPECT_EQ(reply, "still here");
  }

  RpcTransportOptions transport_;
  TestHandler handler_;  // Outlives the server.
  RpcServerOptions options_;
  NodeInfo info_;
  std::unique_ptr<RpcServer> server_;
};

// What holds whatever carries the calls. verbs and ring need an RDMA device: script/softroce has
// one for every machine.
class RpcTransportTest : public RpcServerTest, public testing::WithParamInterface<RpcTransport> {
 protected:
  void SetUp() override {
    transport_.kind = GetParam();
    if (transport_.kind == RpcTransport::kTcp) return;
    const Status usable = NewVerbsTransportFactory({}, &options_.transports);
    if (usable.IsNotSupported()) GTEST_SKIP() << usable.ToString();
    ASSERT_OK(usable);
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, RpcTransportTest,
                         testing::Values(RpcTransport::kTcp, RpcTransport::kVerbs,
                                         RpcTransport::kRing),
                         [](const auto& each) { return RpcTransportName(each.param); });

// Fails if requests or replies are lost, changed or mixed up.
TEST_P(RpcTransportTest, Answers) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  EXPECT_EQ(info_.epoch, 99u);
  EXPECT_EQ(info_.node, NodeId{4});
  EXPECT_EQ(info_.regions.size(), 1u);
  std::string reply;
  // Inline, in a registered buffer, and read by the memory node, in parts if it must; replies
  // likewise.
  uint64_t calls = 0;
  uint64_t bytes = 0;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{500}, size_t{1500}, size_t{2100},
                            size_t{9000}, size_t{40000}, size_t{9} << 20, size_t{1}}) {
    const std::string request(size, 'r');
    ASSERT_OK(client->Call(Method::kGrant, request, &reply, Soon()));
    EXPECT_EQ(reply, request);
    ++calls;
    bytes += kFrameHeaderBytes + size;
  }
  const CallCounts counts = client->Totals()[static_cast<size_t>(Method::kGrant)];
  EXPECT_EQ(counts.calls, calls);
  EXPECT_EQ(counts.failures, 0u);
  EXPECT_EQ(counts.request_bytes, bytes);
  EXPECT_EQ(counts.reply_bytes, bytes);
  EXPECT_THAT(handler_.last_name(), HasSubstr("tester (127.0.0.1:"));
  const Status status = client->Call(Method::kHeartbeat, "", &reply, Soon());
  EXPECT_TRUE(status.IsNotFound());
  EXPECT_EQ(status.message().ToString(), "no such thing");
  EXPECT_TRUE(client->Call(static_cast<Method>(200), "", &reply, Soon()).IsNotFound());
}

// Fails if the client's calls go another way than the test is about.
TEST_P(RpcTransportTest, CallsGoOverTheTransport) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::string reply;
  ASSERT_OK(client->Call(Method::kGrant, "x", &reply, Soon()));
  EXPECT_EQ(client->counts().work_requests > 0, GetParam() != RpcTransport::kTcp);
}

// Fails if settings that are made for transfers, a short send queue and short messages, make calls
// of some size, or after some number of calls, wait for ever.
TEST_P(RpcTransportTest, ShortSendQueuesAndMessages) {
  if (GetParam() == RpcTransport::kTcp) GTEST_SKIP() << "the settings are those of an RDMA device";
  transport_.verbs.send_queue_depth = 8;
  transport_.verbs.message_bytes_max = 4096;
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::string reply;
  for (const size_t size : {size_t{0}, size_t{500}, size_t{2} << 20, size_t{9} << 20}) {
    const std::string request(size, 'r');
    const int calls = size > size_t{2} << 20 ? 3 : 100;
    for (int i = 0; i < calls; ++i) {
      ASSERT_OK(client->Call(Method::kGrant, request, &reply, Soon())) << size << ", call " << i;
      ASSERT_EQ(reply, request);
    }
  }
  // And several large ones at once.
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const std::string request(size_t{3} << 20, 'm');
      std::string answer;
      ASSERT_OK(client->Call(Method::kMerge, request, &answer, Soon()));
      ASSERT_EQ(answer, request);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Fails if calls of many threads over one connection wait for each other, or get others' answers.
TEST_P(RpcTransportTest, ManyCallsAtOnce) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Method method = i % 10 == 0 ? Method::kMerge : Method::kGrant;
        const std::string request = std::to_string(t) + "/" + std::to_string(i);
        std::string reply;
        ASSERT_OK(client->Call(method, request, &reply, Soon()));
        ASSERT_EQ(reply, request);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Fails if a deadline is not kept, or a late reply is taken for another call's.
TEST_P(RpcTransportTest, LateRepliesAreDropped) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::string reply;
  const auto start = std::chrono::steady_clock::now();
  const Status status = client->Call(Method::kFree, "", &reply, Deadline::In(milliseconds(50)));
  EXPECT_TRUE(status.IsTimedOut());
  EXPECT_THAT(status.ToString(), HasSubstr("did not answer in time"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  handler_.AnswerKept("late");
  ASSERT_OK(client->Call(Method::kGrant, "on time", &reply, Soon()));
  EXPECT_EQ(reply, "on time");
}

// Fails if a reply that cannot be sent leaves its caller without an answer.
TEST_P(RpcTransportTest, TooLargeMessagesAreErrors) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::string reply;
  EXPECT_TRUE(client->Call(Method::kListDatabases, "", &reply, Soon()).IsInvalidArgument());
  EXPECT_TRUE(client->Call(Method::kGrant, std::string(kFrameBytesMax, 'x'), &reply, Soon())
                  .IsInvalidArgument());
  ASSERT_OK(client->Call(Method::kGrant, "fine", &reply, Soon()));
}

// Fails if a client stays without connection although the same memory node is there again, or loses
// its data token.
TEST_P(RpcTransportTest, ComesBackToTheSameEpoch) {
  port::Mutex mutex;
  std::vector<std::string> allowed;
  TokenTable tokens(std::chrono::hours(1),
                    [&](const std::string& token, const ClientRights& /*owner*/) {
                      const port::MutexLock lock(mutex);
                      allowed.push_back(token);
                    },
                    {});
  options_.tokens = &tokens;
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::string reply;
  ASSERT_OK(client->Call(Method::kGrant, "a", &reply, Soon()));
  server_.reset();
  const Status status = client->Call(Method::kGrant, "b", &reply, Soon());
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("127.0.0.1:"));
  StartServer();
  ASSERT_OK(client->Call(Method::kGrant, "c", &reply, Soon()));
  EXPECT_EQ(reply, "c");
  server_.reset();
  const port::MutexLock lock(mutex);
  EXPECT_EQ(allowed, (std::vector<std::string>{info_.data_token}));
}

// Fails if a restarted memory node passes for the one that had the data.
TEST_P(RpcTransportTest, AnotherEpochIsLostMemory) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  server_.reset();
  options_.epoch = 100;
  StartServer();
  std::string reply;
  // The first call may meet the end of the old connection.
  Status status = client->Call(Method::kGrant, "a", &reply, Soon());
  if (status.IsIOError()) status = client->Call(Method::kGrant, "a", &reply, Soon());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(status.IsIOError());
    EXPECT_THAT(status.ToString(), HasSubstr("restarted and its memory is lost"));
    EXPECT_THAT(status.ToString(), HasSubstr("memory node 4"));
    status = client->Call(Method::kGrant, "a", &reply, Soon());
  }
}

// Fails if a caller sleeps on when the connection has gone.
TEST_P(RpcTransportTest, LostConnectionWakesItsCallers) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::thread caller([&] {
    std::string reply;
    EXPECT_TRUE(client->Call(Method::kFree, "", &reply, Soon()).IsIOError());
  });
  while (handler_.kept() == 0) std::this_thread::yield();
  server_.reset();
  caller.join();
  EXPECT_EQ(handler_.disconnected(), 1);
  handler_.AnswerKept("to nobody");
}

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

// Fails if a wrong secret passes, or hurts others.
TEST_P(RpcTransportTest, WrongSecretIsRefused) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  const Status status = NodeRpcClient::Connect({"127.0.0.1", options_.port}, "guess", "tester",
                                               Soon(), &info_, &client);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_THAT(status.ToString(), HasSubstr("refused the secret"));
  ExpectServes();
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

// Fails if many more calls than there are slots at once are not answered, or calls that were given
// up take the slots, or the places of their replies, for ever.
TEST_P(RpcTransportTest, MoreCallsThanSlots) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::vector<std::thread> threads;
  for (int t = 0; t < 100; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        std::string request = std::to_string(t) + "/" + std::to_string(i);
        request.resize(static_cast<size_t>(t * 40), 'x');
        std::string reply;
        ASSERT_OK(
            client->Call(t % 2 == 0 ? Method::kMerge : Method::kGrant, request, &reply, Soon()));
        ASSERT_EQ(reply, request);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string reply;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 30; ++i) {
      EXPECT_TRUE(
          client->Call(Method::kFree, "", &reply, Deadline::In(milliseconds(2))).IsTimedOut());
    }
    while (handler_.kept() < 30) std::this_thread::yield();
    handler_.AnswerKept(std::string(500, 'l'));
    ASSERT_OK(client->Call(Method::kGrant, "on time", &reply, Soon()));
    EXPECT_EQ(reply, "on time");
  }
  // More than are ever answered: in the end the connection starts afresh.
  for (int i = 0; i < 200; ++i) {
    const Status status = client->Call(Method::kFree, "", &reply, Deadline::In(milliseconds(2)));
    EXPECT_TRUE(status.IsTimedOut() || status.IsIOError()) << status.ToString();
  }
  Status status = client->Call(Method::kGrant, "after", &reply, Soon());
  if (status.IsIOError()) status = client->Call(Method::kGrant, "after", &reply, Soon());
  ASSERT_OK(status);
  EXPECT_EQ(reply, "after");
  handler_.AnswerKept("late");
}

// Fails if a call after a pause is not noticed by a memory node that has gone to sleep.
TEST_P(RpcTransportTest, CallsAfterPauses) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    // Around the time after which a ring's reader sleeps.
    std::this_thread::sleep_for(std::chrono::microseconds(random.Uniform(1000)));
    std::string reply;
    const std::string request = random.Bytes(random.Uniform(3000));
    ASSERT_OK(client->Call(Method::kGrant, request, &reply, Soon()));
    ASSERT_EQ(reply, request);
  }
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

}  // namespace
}  // namespace dlsm
