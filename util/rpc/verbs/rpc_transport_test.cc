// Calls over each of the transports, from client to server and back.
#include "util/rpc/verbs/rpc_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "port/mutex.h"
#include "util/named_testing.h"
#include "util/random.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/rpc_client.h"
#include "util/rpc/rpc_server_testing.h"
#include "util/rpc/verbs/transport_messages.h"
#include "util/rpc/verbs/verbs_rpc_server.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

// What holds whatever carries the calls. verbs and ring need an RDMA device: script/softroce has
// one for every machine.
class RpcTransportTest : public RpcServerTest,
                         public testing::WithParamInterface<Named<RpcTransport>> {
 protected:
  void SetUp() override {
    transport_.kind = GetParam();
    if (transport_.kind == RpcTransport::kTcp) return;
    const Status usable = NewVerbsTransportFactory({}, &options_.transports);
    if (usable.IsNotSupported()) GTEST_SKIP() << usable.ToString();
    ASSERT_OK(usable);
  }

  // Starts the server anew, as another boot with what options_ say, and expects that each call of
  // `client` fails with a message that is `why`.
  void ExpectRefusedByNextBoot(NodeRpcClient* client, const testing::Matcher<std::string>& why) {
    server_.reset();
    options_.boot = BootId{991};
    StartServer();
    std::string reply;
    // The first call may meet the end of the old connection.
    Status status = client->Call(Method::kGrant, "a", &reply, Soon());
    for (int i = 0; i < 2; ++i) {
      if (i > 0 || status.ToString().find("restarted") == std::string::npos) {
        status = client->Call(Method::kGrant, "a", &reply, Soon());
      }
      EXPECT_TRUE(status.IsIOError());
      EXPECT_THAT(status.ToString(), why);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, RpcTransportTest,
                         testing::Values(Named<RpcTransport>{"tcp", RpcTransport::kTcp},
                                         Named<RpcTransport>{"verbs", RpcTransport::kVerbs},
                                         Named<RpcTransport>{"ring", RpcTransport::kRing}),
                         NameOf<RpcTransport>);

// Fails if requests or replies are lost, changed or mixed up.
TEST_P(RpcTransportTest, Answers) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  EXPECT_EQ(info_.contents, ContentsId{99});
  EXPECT_EQ(info_.boot, BootId{990});
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

// Fails if a call that there is no memory for throws, or if those after it find no connection.
TEST_P(RpcTransportTest, ACallWithoutMemoryFails) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::string reply;
  {
    const port::FailingAllocationsAt failing("call");
    const Status status = client->Call(Method::kGrant, "a", &reply, Soon());
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_EQ(failing.failed(), 1u);
  }
  ASSERT_OK(client->Call(Method::kGrant, "b", &reply, Soon()));
  EXPECT_EQ(reply, "b");
}

// Fails if replies that there is no memory to hand out are exceptions, or if their slots stay taken
// and later calls wait for one in vain.
TEST_P(RpcTransportTest, RepliesWithoutMemoryLeaveTheirSlotsToOthers) {
  if (GetParam() == RpcTransport::kTcp) GTEST_SKIP() << "it has no slots";
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  std::string reply;
  {
    const port::FailingAllocationsAt failing("reply taken");
    for (size_t i = 0; i < 2 * kRpcSlots; ++i) {
      const Status status = client->Call(Method::kGrant, "a", &reply, Soon());
      ASSERT_TRUE(status.IsIOError()) << status.ToString();
    }
    EXPECT_EQ(failing.failed(), 2 * kRpcSlots);
  }
  ASSERT_OK(client->Call(Method::kGrant, "b", &reply, Soon()));
  EXPECT_EQ(reply, "b");
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
TEST_P(RpcTransportTest, OtherContentsAreLostMemory) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  options_.contents = ContentsId{100};
  ExpectRefusedByNextBoot(client.get(), AllOf(HasSubstr("restarted and its memory is lost"),
                                              HasSubstr("memory node 4")));
}

// Fails if a call that was meant for a boot reaches the next one, or if contents that are there
// still pass for lost.
TEST_P(RpcTransportTest, CallsOfAnotherBootAreVoid) {
  StartServer();
  std::unique_ptr<NodeRpcClient> client;
  ASSERT_OK(Connect(&client));
  ExpectRefusedByNextBoot(client.get(), AllOf(HasSubstr("restarted and has its contents still"),
                                              HasSubstr("open the database again")));
  EXPECT_THAT(client->lost().ToString(), HasSubstr("restarted and has its contents still"));
  std::unique_ptr<NodeRpcClient> next;  // One of this boot is served.
  ASSERT_OK(Connect(&next));
  std::string reply;
  EXPECT_OK(next->Call(Method::kGrant, "a", &reply, Soon()));
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

}  // namespace
}  // namespace dlsm
