#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "db/serve/server_testing.h"

namespace dlsm::serve {
namespace {

using testing::StartsWith;

constexpr const char* kNotAnIntegerError = "-ERR value is not an integer or out of range";

using StringCommandsTest = ServerTest;

TEST_F(StringCommandsTest, GetAndSet) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("get a"), "nil");
  EXPECT_EQ(redis("set a 1"), "OK");
  EXPECT_EQ(redis("GET a"), "\"1\"");
  EXPECT_EQ(redis("get a b"), "-ERR wrong number of arguments for 'get' command");
  EXPECT_EQ(redis.Call({"set", std::string("\0\r\n", 3), std::string("\0v", 2)}), "OK");
  EXPECT_EQ(redis.Call({"get", std::string("\0\r\n", 3)}), std::string("\"\0v\"", 4));
  EXPECT_EQ(redis.Call({"set", "", ""}), "OK");
  EXPECT_EQ(redis.Call({"get", ""}), "\"\"");
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(redis.Call({"set", "large", large}), "OK");
  EXPECT_EQ(redis.Call({"get", "large"}), '"' + large + '"');
}

TEST_F(StringCommandsTest, OptionsOfSet) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("set a 1 xx"), "nil");
  EXPECT_EQ(redis("set a 1 nx"), "OK");
  EXPECT_EQ(redis("set a 2 nx"), "nil");
  EXPECT_EQ(redis("set a 2 xx get"), "\"1\"");
  EXPECT_EQ(redis("set b 2 get"), "nil");
  EXPECT_EQ(redis("set a 3 nx xx"), "-ERR syntax error");
  EXPECT_EQ(redis("set a 3 ex"), "-ERR syntax error");
  EXPECT_EQ(redis("set a 3 ex 10 px 10"), "-ERR syntax error");
  EXPECT_EQ(redis("set a 3 ex 10 keepttl"), "-ERR syntax error");
  EXPECT_EQ(redis("set a 3 ex x"), kNotAnIntegerError);
  EXPECT_EQ(redis("set a 3 ex 0"), "-ERR invalid expire time in 'set' command");
  EXPECT_EQ(redis("set a 3 ex 9223372036854775807"), "-ERR invalid expire time in 'set' command");
  EXPECT_EQ(redis("get a"), "\"2\"");
  EXPECT_EQ(redis("set a 3 ex 100"), "OK");
  EXPECT_EQ(redis("ttl a"), "(100)");
  EXPECT_EQ(redis("set a 4 keepttl"), "OK");
  EXPECT_EQ(redis("ttl a"), "(100)");
  EXPECT_EQ(redis("set a 4"), "OK");
  EXPECT_EQ(redis("ttl a"), "(-1)");
  EXPECT_EQ(redis("setex a 50 v"), "OK");
  EXPECT_EQ(redis("ttl a"), "(50)");
  EXPECT_EQ(redis("setex a 0 v"), "-ERR invalid expire time in 'setex' command");
  EXPECT_EQ(redis("psetex a 50000 v"), "OK");
  EXPECT_EQ(redis("ttl a"), "(50)");
  EXPECT_EQ(redis("setnx a w"), "(0)");
  EXPECT_EQ(redis("setnx new w"), "(1)");
}

// Fails if a reader finds a key that has expired, or one is lost before.
TEST_F(StringCommandsTest, KeysExpire) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("set a 1 px 50"), "OK");
  EXPECT_EQ(redis("set b 1 px 100000"), "OK");
  EXPECT_EQ(redis("get a"), "\"1\"");
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(redis("get a"), "nil");
  EXPECT_EQ(redis("exists a b"), "(1)");
  EXPECT_EQ(redis("ttl a"), "(-2)");
  EXPECT_EQ(redis("dbsize"), "(1)");
  EXPECT_EQ(redis("keys *"), "[\"b\"]");
  EXPECT_EQ(redis("incr a"), "(1)");
  EXPECT_EQ(redis("ttl a"), "(-1)");
}

TEST_F(StringCommandsTest, GetAndChange) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("getset a 1"), "nil");
  EXPECT_EQ(redis("getset a 2"), "\"1\"");
  EXPECT_EQ(redis("getdel a"), "\"2\"");
  EXPECT_EQ(redis("getdel a"), "nil");
  redis("set a 1");
  EXPECT_EQ(redis("getex a ex 10"), "\"1\"");
  EXPECT_EQ(redis("ttl a"), "(10)");
  EXPECT_EQ(redis("getex a persist"), "\"1\"");
  EXPECT_EQ(redis("ttl a"), "(-1)");
  EXPECT_EQ(redis("getex a ex"), "-ERR syntax error");
  EXPECT_EQ(redis("getex a pxat 1"), "\"1\"");
  EXPECT_EQ(redis("get a"), "nil");
}

TEST_F(StringCommandsTest, SeveralKeys) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("mset a 1 b 2 a 3"), "OK");
  EXPECT_EQ(redis("mget a x b"), "[\"3\", nil, \"2\"]");
  EXPECT_EQ(redis("mset a"), "-ERR wrong number of arguments for 'mset' command");
  EXPECT_EQ(redis("mset a 1 b"), "-ERR wrong number of arguments for 'mset' command");
  EXPECT_EQ(redis("msetnx c 1 a 1"), "(0)");
  EXPECT_EQ(redis("get c"), "nil");
  EXPECT_EQ(redis("msetnx c 1 d 1"), "(1)");
}

TEST_F(StringCommandsTest, Parts) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("append a Hello"), "(5)");
  EXPECT_EQ(redis("append a World"), "(10)");
  EXPECT_EQ(redis("strlen a"), "(10)");
  EXPECT_EQ(redis("strlen x"), "(0)");
  EXPECT_EQ(redis("getrange a 0 4"), "\"Hello\"");
  EXPECT_EQ(redis("getrange a -5 -1"), "\"World\"");
  EXPECT_EQ(redis("getrange a -1 -5"), "\"\"");
  EXPECT_EQ(redis("getrange a 8 100"), "\"ld\"");
  EXPECT_EQ(redis("getrange a -100 1"), "\"He\"");
  EXPECT_EQ(redis("getrange x 0 -1"), "\"\"");
  EXPECT_EQ(redis("getrange a x 1"), kNotAnIntegerError);
  EXPECT_EQ(redis("setrange a 5 Redis"), "(10)");
  EXPECT_EQ(redis("get a"), "\"HelloRedis\"");
  EXPECT_EQ(redis("setrange b 2 x"), "(3)");
  EXPECT_EQ(redis.Call({"get", "b"}), std::string("\"\0\0x\"", 5));
  EXPECT_EQ(redis("setrange c 2 \"\""), "(0)");
  EXPECT_EQ(redis("exists c"), "(0)");
  EXPECT_EQ(redis("setrange a -1 x"), "-ERR offset is out of range");
  EXPECT_THAT(redis("setrange a 536870912 x"), StartsWith("-ERR string exceeds maximum"));
}

TEST_F(StringCommandsTest, Numbers) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("incr a"), "(1)");
  EXPECT_EQ(redis("incrby a 41"), "(42)");
  EXPECT_EQ(redis("decr a"), "(41)");
  EXPECT_EQ(redis("decrby a 50"), "(-9)");
  EXPECT_EQ(redis("incrby a x"), kNotAnIntegerError);
  redis("set b 9223372036854775807");
  EXPECT_EQ(redis("incr b"), "-ERR increment or decrement would overflow");
  EXPECT_EQ(redis("decrby b -9223372036854775808"), "-ERR decrement would overflow");
  for (const char* text : {"\" 1\"", "1x", "01", "+1", "\"\"", "9223372036854775808", "1.5"}) {
    redis(std::string("set c ") + text);
    EXPECT_EQ(redis("incr c"), kNotAnIntegerError) << text;
  }
  EXPECT_EQ(redis("incrbyfloat d 10.5"), "\"10.5\"");
  EXPECT_EQ(redis("incrbyfloat d 0.1"), "\"10.6\"");
  EXPECT_EQ(redis("incrbyfloat d -10.6"), "\"0\"");
  EXPECT_EQ(redis("incrbyfloat d 3e2"), "\"300\"");
  EXPECT_EQ(redis("incrbyfloat d x"), "-ERR value is not a valid float");
  EXPECT_EQ(redis("incrbyfloat d inf"), "-ERR increment would produce NaN or Infinity");
}

}  // namespace
}  // namespace dlsm::serve
