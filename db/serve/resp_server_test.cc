#include "db/serve/resp_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "db/serve/command.h"
#include "db/serve/server_testing.h"
#include "util/eventually_testing.h"
#include "util/temporary_directory_testing.h"

namespace dlsm::serve {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class RespServerTest : public ServerTest {};

TEST_F(RespServerTest, UnknownCommandsAreNamed) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("foo a b"), "-ERR unknown command 'foo', with args beginning with: 'a' 'b' ");
  EXPECT_EQ(redis("ping"), "PONG");
  EXPECT_EQ(redis("ping hi"), "\"hi\"");
  EXPECT_EQ(redis("echo hi"), "\"hi\"");
  EXPECT_EQ(redis("echo"), "-ERR wrong number of arguments for 'echo' command");
  EXPECT_EQ(redis("command count"), "(" + std::to_string(AllCommands().size()) + ")");
  EXPECT_THAT(redis("command list filterby aclcat hash"), HasSubstr("\"hget\""));
  EXPECT_EQ(redis("command list filterby pattern hget*"), "[\"hget\", \"hgetall\"]");
  EXPECT_EQ(redis("command list filterby module none"), "[]");
  EXPECT_THAT(redis("command info get"), HasSubstr("@read, @string, @fast"));
  EXPECT_EQ(redis("command getkeys mset a 1 b 2"), "[\"a\", \"b\"]");
  EXPECT_EQ(redis("command getkeys ping"), "-ERR The command has no key arguments");
  EXPECT_EQ(redis("config set appendfsync everysec slowlog-max-len 9"), "OK");
  EXPECT_EQ(redis("config set slowlog-max-len 7 port 1"),
            "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable "
            "config");
  EXPECT_EQ(redis("config get slowlog-max-len"), "[\"slowlog-max-len\", \"9\"]");
  EXPECT_EQ(redis("client kill"), "-ERR wrong number of arguments for 'client|kill' command");
  EXPECT_EQ(redis("config set appendfsync"), "-ERR unknown subcommand 'set'. Try CONFIG HELP.");
  EXPECT_THAT(redis("info"), HasSubstr("redis_version:7.0.0"));
  EXPECT_THAT(redis("info stats"), HasSubstr("total_commands_processed:"));
  EXPECT_EQ(redis("config get appendfsync"), "[\"appendfsync\", \"everysec\"]");
  EXPECT_EQ(redis("config set appendfsync always"), "OK");
  EXPECT_EQ(redis("config get appendfs*"), "[\"appendfsync\", \"always\"]");
  EXPECT_EQ(redis("quit"), "OK");
  EXPECT_EQ(redis.Receive(), "closed");
}

// Fails if replies of a pipeline are out of order, or one is lost, whatever is in it.
TEST_F(RespServerTest, PipelinesAreAnsweredInOrder) {
  RespServerOptions options;
  options.threads = 2;
  Start(options);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      TestClient redis = NewClient();
      const std::string key = "key" + std::to_string(thread);
      for (int i = 0; i < 20; ++i) {
        for (int j = 0; j < 100; ++j) {
          redis.Send({"INCR", key});
          redis.Send({"GET", key});
          redis.Send({"INCR", "all"});
        }
        for (int j = 1; j <= 100; ++j) {
          const std::string count = std::to_string(i * 100 + j);
          EXPECT_EQ(redis.Receive(), "(" + count + ")");
          EXPECT_EQ(redis.Receive(), '"' + count + '"');
          EXPECT_THAT(redis.Receive(), StartsWith("("));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(NewClient()("get all"), "\"8000\"");
}

TEST_F(RespServerTest, Transactions) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("exec"), "-ERR EXEC without MULTI");
  EXPECT_EQ(redis("discard"), "-ERR DISCARD without MULTI");
  EXPECT_EQ(redis("multi"), "OK");
  EXPECT_EQ(redis("multi"), "-ERR MULTI calls can not be nested");
  EXPECT_EQ(redis("set a 1"), "QUEUED");
  EXPECT_EQ(redis("incr a"), "QUEUED");
  EXPECT_EQ(redis("get a"), "QUEUED");
  EXPECT_EQ(NewClient()("get a"), "nil");
  EXPECT_EQ(redis("exec"), "[OK, (2), \"2\"]");
  redis("multi");
  EXPECT_EQ(redis("foo"), "-ERR unknown command 'foo', with args beginning with: ");
  EXPECT_EQ(redis("set a 9"), "QUEUED");
  EXPECT_EQ(redis("exec"), "-EXECABORT Transaction discarded because of previous errors.");
  EXPECT_EQ(redis("get a"), "\"2\"");
  redis("multi");
  redis("set b x");
  redis("incr b");
  redis("set c 1");
  EXPECT_EQ(redis("exec"), "[OK, -ERR value is not an integer or out of range, OK]");
  redis("multi");
  redis("set a 9");
  EXPECT_EQ(redis("discard"), "OK");
  EXPECT_EQ(redis("get a"), "\"2\"");
  // All in one piece.
  redis.SendBytes("multi\r\nset a 5\r\nget a\r\nexec\r\nget a\r\n");
  EXPECT_EQ(redis.Receive(), "OK");
  EXPECT_EQ(redis.Receive(), "QUEUED");
  EXPECT_EQ(redis.Receive(), "QUEUED");
  EXPECT_EQ(redis.Receive(), "[OK, \"5\"]");
  EXPECT_EQ(redis.Receive(), "\"5\"");
}

TEST_F(RespServerTest, WatchedKeys) {
  Start();
  TestClient redis = NewClient();
  TestClient other = NewClient();
  redis("set a 1");
  EXPECT_EQ(redis("watch a b"), "OK");
  redis("multi");
  EXPECT_EQ(redis("watch a"), "-ERR WATCH inside MULTI is not allowed");
  redis("set a 2");
  EXPECT_EQ(redis("exec"), "[OK]");
  redis("watch a b");
  other("set b 1");
  redis("multi");
  redis("set a 3");
  EXPECT_EQ(redis("exec"), "nil");
  EXPECT_EQ(redis("get a"), "\"2\"");
  redis("watch a");
  other("set a 7");
  EXPECT_EQ(redis("unwatch"), "OK");
  redis("multi");
  redis("set a 3");
  EXPECT_EQ(redis("exec"), "[OK]");
  redis("watch a");
  other("set other 7");
  other("setnx a 9");  // Which changes nothing.
  redis("multi");
  redis("incr a");
  EXPECT_EQ(redis("exec"), "[(4)]");
}

// Fails if a transaction that watches a counter loses an addition of another one.
TEST_F(RespServerTest, OptimisticAdditionsAreNotLost) {
  RespServerOptions options;
  options.threads = 3;
  Start(options);
  NewClient()("set n 0");
  constexpr int kThreads = 4;
  constexpr int kAdditions = 50;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      TestClient redis = NewClient();
      for (int done = 0; done < kAdditions;) {
        redis("watch n");
        const std::string value = redis("get n");
        const int next = std::stoi(value.substr(1)) + 1;
        redis("multi");
        redis("set n " + std::to_string(next));
        if (redis("exec") == "[OK]") ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(NewClient()("get n"), '"' + std::to_string(kThreads * kAdditions) + '"');
}

TEST_F(RespServerTest, Passwords) {
  RespServerOptions options;
  options.password = "a long secret";
  Start(options);
  TestClient redis = NewClient();
  EXPECT_EQ(redis("get a"), "-NOAUTH Authentication required.");
  EXPECT_EQ(redis("auth wrong"), "-WRONGPASS invalid username-password pair or user is disabled.");
  EXPECT_EQ(redis("auth nobody \"a long secret\""),
            "-WRONGPASS invalid username-password pair or user is disabled.");
  EXPECT_THAT(redis("hello 3"), StartsWith("-NOAUTH"));
  EXPECT_EQ(redis("auth \"a long secret\""), "OK");
  EXPECT_EQ(redis("get a"), "nil");
  EXPECT_EQ(redis("reset"), "RESET");
  EXPECT_EQ(redis("get a"), "-NOAUTH Authentication required.");
  EXPECT_THAT(redis("hello 3 auth default \"a long secret\" setname me"),
              HasSubstr("\"proto\", (3)"));
  EXPECT_EQ(redis("client getname"), "\"me\"");
  redis.SendBytes("*11\r\n");
  EXPECT_EQ(redis("1"), "-ERR Protocol error: expected '$', got '1'");
}

TEST_F(RespServerTest, BothProtocols) {
  Start();
  TestClient redis = NewClient();
  redis("set a 1");
  EXPECT_EQ(redis("hello 4"), "-NOPROTO unsupported protocol version");
  EXPECT_THAT(redis("hello 3"), HasSubstr("\"server\", \"redis\""));
  redis.SendBytes("get x\r\n");
  EXPECT_EQ(redis.Receive(), "nil");
  EXPECT_EQ(redis("config get save"), "[\"save\", \"\"]");
  EXPECT_THAT(redis("client info"), HasSubstr("resp=3"));
  EXPECT_EQ(redis("client setname \"a b\""),
            "-ERR Client names cannot contain spaces, newlines or special characters.");
}

// Fails if a client that sends what is no request, half of one, or takes no replies is in the way
// of others, or is not cut off.
TEST_F(RespServerTest, HostileClientsAreInNobodysWay) {
  RespServerOptions options;
  options.limits.query_bytes = 1 << 20;
  Start(options);
  TestClient good = NewClient();
  good.Call({"set", "large", std::string(1 << 20, 'x')});
  TestClient wrong = NewClient();
  EXPECT_EQ(wrong("*1\r\nfoo"), "-ERR Protocol error: expected '$', got 'f'");
  EXPECT_EQ(wrong.Receive(), "closed");
  TestClient half = NewClient();
  half.SendBytes("*2\r\n$3\r\nGET\r\n$100\r\nabc");
  TestClient takes_nothing = NewClient();
  for (int i = 0; i < 1000; ++i) takes_nothing.Send({"GET", "large"});
  TestClient endless = NewClient();
  endless.SendBytes("*2\r\n$3\r\nGET\r\n$400000000\r\n");
  std::thread flood([&endless] {
    const std::string bytes(1 << 20, 'x');
    // It is cut off meanwhile.
    for (int i = 0; i < 3 && endless.TrySendBytes(bytes); ++i) {
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(good("ping"), "PONG");
  flood.join();
  EXPECT_EQ(endless.Receive(), "closed");
  // More than the server keeps for a client that takes nothing: it waits until the client does.
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(takes_nothing.Receive().size(), (1u << 20) + 2) << i;
}

// Fails if a request that comes byte by byte is not understood, or holds up those of others.
TEST_F(RespServerTest, SlowClientsAreServedInTheirTime) {
  Start();
  TestClient good = NewClient();
  std::vector<TestClient> slow;
  for (int i = 0; i < 20; ++i) slow.push_back(NewClient());
  const std::string request = TestClient::Encode({"SET", "slow", "value"});
  for (const char byte : request) {
    for (TestClient& client : slow) client.SendBytes(std::string(1, byte));
    EXPECT_EQ(good("ping"), "PONG");
  }
  for (TestClient& client : slow) EXPECT_EQ(client.Receive(), "OK");
}

// Fails if the server takes memory for what a client only says it will send.
TEST_F(RespServerTest, DeclaredLengthsAreNotBelieved) {
  Start();
  const auto answer = [this](const std::string& bytes) {
    TestClient client = NewClient();
    client.SendBytes(bytes);
    return client.Receive();
  };
  EXPECT_EQ(answer("*1000000000000\r\n"), "-ERR Protocol error: invalid multibulk length");
  EXPECT_EQ(answer("*2\r\n$1000000000\r\n"), "-ERR Protocol error: invalid bulk length");
  EXPECT_EQ(answer("*2\r\n$-7\r\n"), "-ERR Protocol error: invalid bulk length");
  EXPECT_EQ(answer("*1\r\n$99999999999999999999\r\n"), "-ERR Protocol error: invalid bulk length");
  // Lengths that are allowed cost nothing while nothing comes.
  std::vector<TestClient> waiting;
  for (int i = 0; i < 100; ++i) {
    waiting.push_back(NewClient());
    waiting.back().SendBytes("*1000000\r\n$500000000\r\n");
  }
  EXPECT_EQ(NewClient()("ping"), "PONG");
  EXPECT_THAT(NewClient()("info clients"), HasSubstr("connected_clients:10"));
}

// Fails if a connection that breaks off in the midst of a request, of a transaction or of replies
// is kept, does something by halves, or keeps others from their keys.
TEST_F(RespServerTest, ConnectionsThatBreakOffLeaveNothing) {
  RespServerOptions options;
  options.threads = 2;
  Start(options);
  TestClient good = NewClient();
  good.Call({"SET", "large", std::string(1 << 20, 'x')});
  for (int i = 0; i < 50; ++i) {
    TestClient in_request = NewClient();
    in_request.SendBytes("*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$5\r\nab");
    TestClient in_transaction = NewClient();
    in_transaction.SendBytes("watch half\r\nmulti\r\nset half 1\r\n");
    TestClient in_replies = NewClient();
    for (int j = 0; j < 5; ++j) in_replies.Send({"GET", "large"});
    EXPECT_EQ(good("incr all"), "(" + std::to_string(i + 1) + ")");
    in_request.Reset();
    in_transaction.Reset();
    in_replies.Reset();
  }
  EXPECT_TRUE(Eventually(
      [&] { return good("info clients").find("connected_clients:1\r\n") != std::string::npos; }));
  EXPECT_EQ(good("get half"), "nil");
  EXPECT_EQ(good("set half 2"), "OK");
}

TEST_F(RespServerTest, ClientsAreLimited) {
  RespServerOptions options;
  options.clients_max = 2;
  Start(options);
  TestClient first = NewClient();
  EXPECT_EQ(first("ping"), "PONG");
  {
    TestClient second = NewClient();
    EXPECT_EQ(second("ping"), "PONG");
    EXPECT_EQ(NewClient().Receive(), "-ERR max number of clients reached");
  }
  EXPECT_TRUE(Eventually([&] { return NewClient()("ping") == "PONG"; }));
}

TEST_F(RespServerTest, SlowCommandsAreListed) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("slowlog len"), "(0)");
  EXPECT_EQ(redis("config set slowlog-log-slower-than 0"), "OK");
  redis("set a " + std::string(200, 'x'));
  EXPECT_EQ(redis("config set slowlog-log-slower-than -1"), "OK");
  const std::string listed = redis("slowlog get");
  EXPECT_THAT(listed,
              HasSubstr("\"set\", \"a\", \"" + std::string(128, 'x') + "... (72 more bytes)\""));
  EXPECT_EQ(redis("slowlog len"), "(2)") << "that, and what came before it";
  EXPECT_EQ(redis("config set slowlog-max-len 1"), "OK");
  EXPECT_EQ(redis("slowlog len"), "(1)");
  EXPECT_EQ(redis("slowlog reset"), "OK");
  EXPECT_EQ(redis("slowlog get"), "[]");
  EXPECT_EQ(redis("slowlog get -2"), "-ERR count should be greater than or equal to -1");
}

TEST_F(RespServerTest, ClientsAreListedAndKilled) {
  Start();
  TestClient redis = NewClient();
  TestClient other = NewClient();
  const std::string id = other("client id");
  EXPECT_EQ(redis("ping"), "PONG");
  EXPECT_THAT(redis("client list"), HasSubstr("id=" + id.substr(1, id.size() - 2) + " addr="));
  EXPECT_EQ(redis("client kill id " + id.substr(1, id.size() - 2)), "(1)");
  EXPECT_EQ(other.Receive(), "closed");
  EXPECT_EQ(redis("client kill id 99999"), "(0)");
  EXPECT_EQ(redis("client kill 1.2.3.4:5"), "-ERR No such client");
  EXPECT_EQ(redis("client kill foo bar"), "-ERR syntax error");
  EXPECT_EQ(redis("client kill skipme yes"), "(0)");
  EXPECT_EQ(redis("client setname me"), "OK");
  EXPECT_THAT(redis("client list"), HasSubstr("name=me ")) << "at once";
  EXPECT_EQ(redis("client list type pubsub"), "\"\"");
  EXPECT_EQ(redis("client list type foo"), "-ERR Unknown client type 'foo'");
  EXPECT_EQ(redis("client list id 998 999"), "\"\"");
  EXPECT_EQ(redis("client list id x"), "-ERR Invalid client ID");
  EXPECT_EQ(redis("client kill user nobody"), "-ERR No such user 'nobody'");
  TestClient third = NewClient();
  EXPECT_EQ(third("ping"), "PONG");
  EXPECT_EQ(redis("client kill type normal user default laddr 1.2.3.4:5"), "(0)");
  EXPECT_EQ(redis("client kill type normal user default"), "(1)");
  EXPECT_THAT(redis("client list"), testing::Not(HasSubstr("cmd=ping"))) << "it is gone at once";
  EXPECT_EQ(third.Receive(), "closed");
  EXPECT_EQ(redis("client kill id " + redis("client id").substr(1, 1) + " skipme no"), "(1)");
  EXPECT_EQ(redis.Receive(), "closed");
}

// Fails if a client is told that its writes are safer than they are.
TEST_F(RespServerTest, WaitTellsHowSafeWritesAre) {
  Start();
  {
    TestClient redis = NewClient();
    redis("set a 1");
    EXPECT_EQ(redis("wait 1 0"), "(0)") << "without a log";
    EXPECT_THAT(redis("waitaof 1 0 0"), StartsWith("-ERR WAITAOF cannot be used"));
    EXPECT_EQ(redis("wait x 0"), "-ERR value is not an integer or out of range");
    EXPECT_EQ(redis("wait 1 -1"), "-ERR timeout is negative");
  }
  TearDown();
  const TemporaryDirectory temporary;
  Start({}, temporary / "data");
  TestClient redis = NewClient();
  redis("set a 1");
  EXPECT_EQ(redis("wait 1 0"), "(1)");
  EXPECT_EQ(redis("waitaof 1 0 0"), "[(1), (0)]");
  EXPECT_EQ(redis("waitaof 2 0 0"), "-ERR value is out of range, must between 0 and 1");
}

// Fails if a server that is started again does not have what was written, or what expires.
TEST_F(RespServerTest, ADirectoryOutlivesTheServer) {
  const TemporaryDirectory temporary;
  const std::string directory = temporary / "data";
  Start({}, directory);
  {
    TestClient redis = NewClient();
    redis("set a 1 ex 1000");
    redis("select 2");
    redis("set b 2");
  }
  ASSERT_OK(server_->Stop());
  Start({}, directory);
  TestClient redis = NewClient();
  EXPECT_EQ(redis("get a"), "\"1\"");
  EXPECT_THAT(redis("ttl a"), testing::AnyOf("(1000)", "(999)"));
  redis("select 2");
  EXPECT_EQ(redis("get b"), "\"2\"");
}

}  // namespace
}  // namespace dlsm::serve
