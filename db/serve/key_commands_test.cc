#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "db/serve/keys.h"
#include "db/serve/server_testing.h"
#include "util/eventually_testing.h"

namespace dlsm::serve {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using KeyCommandsTest = ServerTest;

TEST_F(KeyCommandsTest, DeleteAndExist) {
  Start();
  TestClient redis = NewClient();
  redis("mset a 1 b 2 c 3");
  EXPECT_EQ(redis("exists a a x"), "(2)");
  EXPECT_EQ(redis("del a x b"), "(2)");
  EXPECT_EQ(redis("unlink c c"), "(1)");
  EXPECT_EQ(redis("dbsize"), "(0)");
  redis("set a 1");
  EXPECT_EQ(redis("type a"), "string");
  EXPECT_EQ(redis("type x"), "none");
  EXPECT_EQ(redis("object encoding a"), "\"int\"");
  EXPECT_EQ(redis("object encoding x"), "nil");
  EXPECT_THAT(redis("memory usage a"), StartsWith("("));
}

TEST_F(KeyCommandsTest, Expiry) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("expire a 10"), "(0)");
  redis("set a 1");
  EXPECT_EQ(redis("expire a 100"), "(1)");
  EXPECT_EQ(redis("ttl a"), "(100)");
  EXPECT_EQ(redis("expire a 50 gt"), "(0)");
  EXPECT_EQ(redis("expire a 50 lt"), "(1)");
  EXPECT_EQ(redis("expire a 50 nx"), "(0)");
  EXPECT_EQ(redis("expire a 70 xx"), "(1)");
  EXPECT_EQ(redis("expire a 70 xx nx"),
            "-ERR NX and XX, GT or LT options at the same time are not compatible");
  EXPECT_EQ(redis("expire a 70 foo"), "-ERR Unsupported option foo");
  EXPECT_EQ(redis("pexpireat a 33177117420000"), "(1)");
  EXPECT_EQ(redis("pexpiretime a"), "(33177117420000)");
  EXPECT_EQ(redis("expiretime a"), "(33177117420)");
  EXPECT_EQ(redis("persist a"), "(1)");
  EXPECT_EQ(redis("persist a"), "(0)");
  EXPECT_EQ(redis("expiretime a"), "(-1)");
  EXPECT_EQ(redis("expire a -1"), "(1)");
  EXPECT_EQ(redis("exists a"), "(0)");
  redis("set a 1");
  EXPECT_EQ(redis("expire a 9223372036854775807"), "-ERR invalid expire time in 'expire' command");
  EXPECT_EQ(redis("expireat a 1"), "(1)");
  EXPECT_EQ(redis("get a"), "nil");
}

TEST_F(KeyCommandsTest, RenameAndCopy) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("rename a b"), "-ERR no such key");
  redis("set a 1 ex 100");
  EXPECT_EQ(redis("rename a b"), "OK");
  EXPECT_EQ(redis("mget a b"), "[nil, \"1\"]");
  EXPECT_EQ(redis("ttl b"), "(100)");
  EXPECT_EQ(redis("rename b b"), "OK");
  redis("set c 2");
  EXPECT_EQ(redis("renamenx b c"), "(0)");
  EXPECT_EQ(redis("renamenx b d"), "(1)");
  EXPECT_EQ(redis("copy d c"), "(0)");
  EXPECT_EQ(redis("copy d c replace"), "(1)");
  EXPECT_EQ(redis("get c"), "\"1\"");
  EXPECT_EQ(redis("ttl c"), "(100)");
  EXPECT_EQ(redis("copy x c"), "(0)");
  EXPECT_EQ(redis("copy d d"), "-ERR source and destination objects are the same");
  EXPECT_EQ(redis("copy d e db 3"), "(1)");
  EXPECT_EQ(redis("copy d e db 16"), "-ERR DB index is out of range");
  EXPECT_EQ(redis("get e"), "nil");
  redis("select 3");
  EXPECT_EQ(redis("get e"), "\"1\"");
}

TEST_F(KeyCommandsTest, DatabasesAreApart) {
  Start();
  TestClient redis = NewClient();
  redis("set a 0");
  EXPECT_EQ(redis("select 15"), "OK");
  EXPECT_EQ(redis("get a"), "nil");
  redis("set a 15");
  EXPECT_EQ(redis("select 16"), "-ERR DB index is out of range");
  EXPECT_EQ(redis("select x"), "-ERR value is not an integer or out of range");
  EXPECT_EQ(redis("dbsize"), "(1)");
  EXPECT_EQ(redis("flushdb"), "OK");
  EXPECT_EQ(redis("dbsize"), "(0)");
  redis("select 0");
  EXPECT_EQ(redis("get a"), "\"0\"");
  EXPECT_EQ(redis("flushall async"), "OK");
  EXPECT_EQ(redis("get a"), "nil");
  EXPECT_EQ(redis("flushall later"), "-ERR syntax error");
}

// Fails if SCAN leaves out a key that is there all the time, or does not come to an end.
TEST_F(KeyCommandsTest, ScanFindsAll) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("scan 0"), "[\"0\", []]");
  EXPECT_EQ(redis("randomkey"), "nil");
  for (int i = 0; i < 95; ++i) redis("set key" + std::to_string(i) + " v");
  std::set<std::string> found;
  std::string cursor = "0";
  int calls = 0;
  do {
    const std::string reply = redis("scan " + cursor + " match key* count 10");
    const size_t end = reply.find('"', 2);
    cursor = reply.substr(2, end - 2);
    for (size_t at = reply.find('"', end + 1); at != std::string::npos;) {
      const size_t close = reply.find('"', at + 1);
      found.insert(reply.substr(at + 1, close - at - 1));
      at = reply.find('"', close + 1);
    }
    redis("set another" + std::to_string(calls) + " v");
  } while (cursor != "0" && ++calls < 100);
  EXPECT_EQ(found.size(), 95u);
  EXPECT_GE(calls, 9);
  EXPECT_EQ(redis("scan x"), "-ERR invalid cursor");
  EXPECT_EQ(redis("scan 0 count 0"), "-ERR syntax error");
  EXPECT_EQ(redis("scan 0 type hash count 1000"), "[\"0\", []]");
  EXPECT_EQ(redis("keys key9?"), "[\"key90\", \"key91\", \"key92\", \"key93\", \"key94\"]");
  std::set<std::string> chosen;
  for (int i = 0; i < 100; ++i) chosen.insert(redis("randomkey"));
  EXPECT_GT(chosen.size(), 10u);
}

// Fails if a range is not that of the keys' order.
TEST_F(KeyCommandsTest, RangesAreInOrder) {
  Start();
  TestClient redis = NewClient();
  redis("mset a 1 b 2 c 3 d 4");
  EXPECT_EQ(redis("dlsm.range b d"), "[\"b\", \"2\", \"c\", \"3\"]");
  EXPECT_EQ(redis("dlsm.range \"\" \"\" limit 1 rev"), "[\"d\", \"4\"]");
  EXPECT_EQ(redis("dlsm.range b \"\" limit 2"), "[\"b\", \"2\", \"c\", \"3\"]");
  EXPECT_EQ(redis("dlsm.delrange a c"), "(2)");
  EXPECT_EQ(redis("keys *"), "[\"c\", \"d\"]");
  EXPECT_THAT(redis("dlsm.property dlsm.stats"), HasSubstr("dlsm.keys.written"));
}

// A range is deleted before what the same round has written afterwards.
TEST_F(KeyCommandsTest, RangesAreDeletedAmongOtherChanges) {
  Start();
  TestClient redis = NewClient();
  TestClient other = NewClient();
  redis("mset a 1 b 2 c 3");
  redis("hset h f v");
  redis("watch b");
  other("watch none");
  redis("multi");
  for (const char* command :
       {"set b 4", "dlsm.delrange b d", "get b", "set c 5", "dlsm.range a z", "dlsm.range a z rev",
        "hset new f v", "flushdb", "hgetall h", "dbsize", "set d 6", "keys *"}) {
    EXPECT_EQ(redis(command), "QUEUED") << command;
  }
  EXPECT_EQ(redis("exec"),
            "[OK, (2), nil, OK, [\"a\", \"1\", \"c\", \"5\"], [\"c\", \"5\", \"a\", \"1\"], (1), "
            "OK, [], (0), OK, [\"d\"]]");
  EXPECT_EQ(redis("keys *"), "[\"d\"]");
  EXPECT_EQ(redis("exists h new"), "(0)");
  redis("watch d");
  EXPECT_EQ(other("flushall"), "OK");
  redis("multi");
  redis("set d 7");
  EXPECT_EQ(redis("exec"), "nil") << "a watched key was deleted";
  other("multi");
  other("ping");
  EXPECT_EQ(other("exec"), "[PONG]") << "a key that is not there was not";
}

TEST_F(KeyCommandsTest, MergesDropStringsThatHaveExpired) {
  Start();
  TestClient redis = NewClient();
  for (int i = 0; i < 10; ++i) redis("set gone" + std::to_string(i) + " v px 1");
  redis("set stays v px 1000000000");
  redis("set forever v");
  EXPECT_TRUE(Eventually([&] { return redis("exists gone9") == "(0)"; }));
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  std::string entries;
  ASSERT_TRUE(db_->GetProperty("dlsm.entries", &entries));
  EXPECT_EQ(entries, "2");
}

TEST(PatternTest, IsThatOfRedis) {
  const auto matches = [](const char* pattern, const char* text) {
    return MatchesPattern(pattern, text);
  };
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*c", "abbc"));
  EXPECT_TRUE(matches("a*b*c", "axbxbxc"));
  EXPECT_FALSE(matches("a*b*c", "axbxbx"));
  EXPECT_TRUE(matches("h?llo", "hello"));
  EXPECT_FALSE(matches("h?llo", "hllo"));
  EXPECT_TRUE(matches("h[ae]llo", "hallo"));
  EXPECT_FALSE(matches("h[^e]llo", "hello"));
  EXPECT_TRUE(matches("h[a-c]llo", "hbllo"));
  EXPECT_TRUE(matches("h[c-a]llo", "hbllo"));
  EXPECT_TRUE(matches("a\\*b", "a*b"));
  EXPECT_FALSE(matches("a\\*b", "axb"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("a", ""));
  EXPECT_TRUE(matches("[a", "a"));
}

}  // namespace
}  // namespace dlsm::serve
