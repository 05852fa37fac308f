#include "util/rpc/token_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlsm {
namespace {

using std::chrono::seconds;

// Fails if a token is revoked under a client that is there or may still come back, or is not
// revoked under one that has gone.
TEST(TokenTableTest, RevokesAfterTheGracePeriod) {
  std::vector<std::string> events;
  TokenTable table(
      seconds(2), [&](const std::string& token) { events.push_back("+" + token); },
      [&](const std::string& token) { events.push_back("-" + token); });
  TokenTable::Clock::time_point now{};
  table.Acquire("a");
  table.Acquire("b");
  table.Acquire("a");  // A second connection, before the first is known to be lost.
  table.Release("a", now);
  table.Expire(now + seconds(100));
  EXPECT_EQ(events, (std::vector<std::string>{"+a", "+b"}));

  table.Release("a", now + seconds(100));
  table.Expire(now + seconds(101));
  table.Acquire("a");  // Back in time.
  table.Expire(now + seconds(200));
  EXPECT_EQ(events.size(), 2u);

  table.Release("a", now + seconds(200));
  table.Release("b", now + seconds(201));
  table.Expire(now + seconds(202));
  EXPECT_EQ(events, (std::vector<std::string>{"+a", "+b", "-a"}));
  table.Acquire("a");  // Back too late: good again.
  table.Expire(now + seconds(203));
  EXPECT_EQ(events, (std::vector<std::string>{"+a", "+b", "-a", "+a", "-b"}));
}

}  // namespace
}  // namespace dlsm
