#include "db/serve/serve_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "db/serve/server_testing.h"
#include "util/eventually_testing.h"

namespace dlsm::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

class ServeMetricsTest : public ServerTest {
 protected:
  std::string Text() const {
    return prometheus::TextSerializer().Serialize(ServeMetrics(&server_->state()).Collect());
  }
  static std::string CountOf(const std::string& command, int count) {
    return "\ndlsm_serve_command_seconds_count{command=\"" + command + "\"} " +
           std::to_string(count) + "\n";
  }
};

// Fails if a command is not counted by its name, or one that was not carried out is.
TEST_F(ServeMetricsTest, CountsCommands) {
  RespServerOptions options;
  options.threads = 2;
  Start(options);
  TestClient one = NewClient();
  TestClient other = NewClient();
  for (TestClient* client : {&one, &other}) {
    EXPECT_EQ((*client)("SET key value"), "OK");
    EXPECT_EQ((*client)("get key"), "\"value\"");
    EXPECT_EQ((*client)("get nothing"), "nil");
  }
  EXPECT_THAT(one("get"), HasSubstr("wrong number"));
  EXPECT_THAT(one("no_such_command"), HasSubstr("unknown command"));
  EXPECT_EQ(one("multi"), "OK");
  EXPECT_EQ(one("incr number"), "QUEUED");
  EXPECT_EQ(one("exec"), "[(1)]");
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr(CountOf("set", 2)));
  EXPECT_THAT(text, HasSubstr(CountOf("get", 4)));
  EXPECT_THAT(text, HasSubstr(CountOf("exec", 1)));
  EXPECT_THAT(text, Not(HasSubstr("command=\"incr\"")));
  EXPECT_THAT(text, Not(HasSubstr("no_such_command")));
  EXPECT_THAT(text, HasSubstr("\ndlsm_serve_commands_total 11\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_serve_errors_total 2\n"));
  EXPECT_THAT(text, HasSubstr("\ndlsm_serve_key_misses_total 3\n"));  // INCR's, too.
  EXPECT_THAT(text, HasSubstr("\ndlsm_serve_clients 2\n"));
}

// Fails if a pipeline's commands, which are counted together, get lost.
TEST_F(ServeMetricsTest, CountsPipelines) {
  Start();
  TestClient redis = NewClient();
  constexpr int kCalls = 3000;  // Of several rounds.
  std::string all;
  for (int i = 0; i < kCalls; ++i) {
    all += TestClient::Encode({"INCR", "number"});
    if (i % 3 == 0) all += TestClient::Encode({"PING"});
  }
  redis.SendBytes(all);
  for (int i = 0; i < kCalls + kCalls / 3; ++i) ASSERT_NE(redis.Receive(), "closed");
  EXPECT_THAT(Text(), HasSubstr(CountOf("incr", kCalls)));
  EXPECT_THAT(Text(), HasSubstr(CountOf("ping", kCalls / 3)));
}

// Fails if clients that were cut off or refused do not count.
TEST_F(ServeMetricsTest, CountsClientsThatWereTurnedAway) {
  RespServerOptions options;
  options.clients_max = 1;
  options.limits.output_bytes = 1 << 20;
  Start(options);
  {
    TestClient slow = NewClient();
    EXPECT_EQ(slow.Call({"SET", "large", std::string(2 << 20, 'x')}), "OK");
    EXPECT_THAT(NewClient().Receive(), HasSubstr("max number of clients"));
    std::string mget = "mget";
    for (int i = 0; i < 30; ++i) mget += " large";
    slow.SendBytes(mget + "\r\n");
    EXPECT_TRUE(Eventually([this] { return server_->state().slow_clients == 1; }));
  }
  EXPECT_THAT(Text(), HasSubstr("\ndlsm_serve_clients_refused_total 1\n"));
  EXPECT_THAT(Text(), HasSubstr("\ndlsm_serve_clients_slow_total 1\n"));
}

}  // namespace
}  // namespace dlsm::serve
