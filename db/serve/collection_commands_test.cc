#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/iterator.h"
#include "db/serve/records.h"
#include "db/serve/server_testing.h"
#include "util/eventually_testing.h"

namespace dlsm::serve {
namespace {

constexpr const char* kWrongTypeError =
    "-WRONGTYPE Operation against a key holding the wrong kind of value";

using CollectionCommandsTest = ServerTest;

TEST(RecordsTest, DoublesAreInOrder) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> ascending = {-infinity, -1e300, -2, -1.5, -1e-300, 0,
                                         1e-300,    0.5,    1,  2,    1e300,   infinity};
  std::string before;
  for (const double number : ascending) {
    std::string bytes;
    PutOrderedDouble(&bytes, number);
    EXPECT_LT(before, bytes) << number;
    EXPECT_EQ(OrderedDouble(bytes.data()), number);
    before = bytes;
  }
  std::string zero;
  std::string minus_zero;
  PutOrderedDouble(&zero, 0.0);
  PutOrderedDouble(&minus_zero, -0.0);
  EXPECT_EQ(zero, minus_zero);
}

TEST_F(CollectionCommandsTest, Hashes) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("hset h a 1 b 2"), "(2)");
  EXPECT_EQ(redis("hset h a 3 c 4"), "(1)");
  EXPECT_EQ(redis("hset h a"), "-ERR wrong number of arguments for 'hset' command");
  EXPECT_EQ(redis("hget h a"), "\"3\"");
  EXPECT_EQ(redis("hget h x"), "nil");
  EXPECT_EQ(redis("hmget h a x c"), "[\"3\", nil, \"4\"]");
  EXPECT_EQ(redis("hgetall h"), "[\"a\", \"3\", \"b\", \"2\", \"c\", \"4\"]");
  EXPECT_EQ(redis("hlen h"), "(3)");
  EXPECT_EQ(redis("hexists h b"), "(1)");
  EXPECT_EQ(redis("hkeys h"), "[\"a\", \"b\", \"c\"]");
  EXPECT_EQ(redis("hvals h"), "[\"3\", \"2\", \"4\"]");
  EXPECT_EQ(redis("hsetnx h b 9"), "(0)");
  EXPECT_EQ(redis("hsetnx h d 9"), "(1)");
  EXPECT_EQ(redis("hincrby h d -10"), "(-1)");
  EXPECT_EQ(redis("hincrby h new 5"), "(5)");
  EXPECT_EQ(redis("hincrbyfloat h d 0.5"), "\"-0.5\"");
  EXPECT_EQ(redis("hincrby h d 1"), "-ERR hash value is not an integer");
  EXPECT_EQ(redis("hstrlen h d"), "(4)");
  EXPECT_EQ(redis("hdel h a x a b"), "(2)");
  EXPECT_EQ(redis("hscan h 0 match d"), "[\"0\", [\"d\", \"-0.5\"]]");
  EXPECT_EQ(redis("hdel h c d new"), "(3)");
  EXPECT_EQ(redis("exists h"), "(0)");
  EXPECT_EQ(redis("hmset h a 1"), "OK");
  EXPECT_EQ(redis("type h"), "hash");
  EXPECT_EQ(redis("get h"), kWrongTypeError);
  EXPECT_EQ(redis("incr h"), kWrongTypeError);
  redis("set s 1");
  EXPECT_EQ(redis("hget s a"), kWrongTypeError);
  EXPECT_EQ(redis("hset s a 1"), kWrongTypeError);
}

TEST_F(CollectionCommandsTest, Sets) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("sadd s a b a"), "(2)");
  EXPECT_EQ(redis("sadd s b c"), "(1)");
  EXPECT_EQ(redis("smembers s"), "[\"a\", \"b\", \"c\"]");
  EXPECT_EQ(redis("scard s"), "(3)");
  EXPECT_EQ(redis("sismember s a"), "(1)");
  EXPECT_EQ(redis("smismember s a x"), "[(1), (0)]");
  EXPECT_EQ(redis("srem s a x"), "(1)");
  EXPECT_EQ(redis("sscan s 0"), "[\"0\", [\"b\", \"c\"]]");
  EXPECT_EQ(redis("srandmember s 5").size(), std::string("[\"b\", \"c\"]").size());
  EXPECT_EQ(redis("srandmember s -3").size(), std::string("[\"b\", \"b\", \"b\"]").size());
  EXPECT_EQ(redis("spop s 0"), "[]");
  EXPECT_EQ(redis("spop s 7").size(), std::string("[\"b\", \"c\"]").size());
  EXPECT_EQ(redis("exists s"), "(0)");
  EXPECT_EQ(redis("spop s"), "nil");
  EXPECT_EQ(redis("spop s -1"), "-ERR value is out of range, must be positive");
}

TEST_F(CollectionCommandsTest, SortedSets) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("zadd z 1 a 2 b 3 c"), "(3)");
  EXPECT_EQ(redis("zadd z 5 a"), "(0)");
  EXPECT_EQ(redis("zadd z ch 1 a 4 d"), "(2)");
  EXPECT_EQ(redis("zadd z nx 9 a 9 e"), "(1)");
  EXPECT_EQ(redis("zadd z xx 9 f"), "(0)");
  EXPECT_EQ(redis("zadd z gt ch 0 a"), "(0)");
  EXPECT_EQ(redis("zadd z lt ch 0 a"), "(1)");
  EXPECT_EQ(redis("zadd z incr 1.5 a"), "\"1.5\"");
  EXPECT_EQ(redis("zadd z nx incr 1 a"), "nil");
  EXPECT_EQ(redis("zadd z nx xx 1 a"),
            "-ERR XX and NX options at the same time are not compatible");
  EXPECT_EQ(redis("zadd z x a"), "-ERR value is not a valid float");
  EXPECT_EQ(redis("zadd z nan a"), "-ERR value is not a valid float");
  EXPECT_EQ(redis("zadd z 1"), "-ERR wrong number of arguments for 'zadd' command");
  EXPECT_EQ(redis("zscore z a"), "\"1.5\"");
  EXPECT_EQ(redis("zmscore z a x"), "[\"1.5\", nil]");
  EXPECT_EQ(redis("zcard z"), "(5)");
  EXPECT_EQ(redis("zrange z 0 -1"), "[\"a\", \"b\", \"c\", \"d\", \"e\"]");
  EXPECT_EQ(redis("zrange z -2 -1 withscores"), "[\"d\", \"4\", \"e\", \"9\"]");
  EXPECT_EQ(redis("zrange z 0 1 rev"), "[\"e\", \"d\"]");
  EXPECT_EQ(redis("zrange z (1.5 3 byscore"), "[\"b\", \"c\"]");
  EXPECT_EQ(redis("zrange z +inf (2 byscore rev limit 1 2"), "[\"d\", \"c\"]");
  EXPECT_EQ(redis("zrangebyscore z -inf 2 withscores"), "[\"a\", \"1.5\", \"b\", \"2\"]");
  EXPECT_EQ(redis("zrevrangebyscore z 9 4"), "[\"e\", \"d\"]");
  EXPECT_EQ(
      redis("zrange z 0 1 limit 0 1"),
      "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
  EXPECT_EQ(redis("zrangebyscore z x 2"), "-ERR min or max is not a float");
  EXPECT_EQ(redis("zcount z 2 4"), "(3)");
  EXPECT_EQ(redis("zrank z c"), "(2)");
  EXPECT_EQ(redis("zrevrank z c"), "(2)");
  EXPECT_EQ(redis("zrank z x"), "nil");
  EXPECT_EQ(redis("zincrby z 10 b"), "\"12\"");
  EXPECT_EQ(redis("zpopmax z"), "[\"b\", \"12\"]");
  EXPECT_EQ(redis("zpopmin z 2"), "[\"a\", \"1.5\", \"c\", \"3\"]");
  EXPECT_EQ(redis("zremrangebyscore z 4 4"), "(1)");
  EXPECT_EQ(redis("zrem z e x"), "(1)");
  EXPECT_EQ(redis("exists z"), "(0)");
  redis("zadd lex 0 a 0 b 0 c 0 d");
  EXPECT_EQ(redis("zrange lex [b (d bylex"), "[\"b\", \"c\"]");
  EXPECT_EQ(redis("zrangebylex lex - + limit 1 2"), "[\"b\", \"c\"]");
  EXPECT_EQ(redis("zrangebylex lex b +"), "-ERR min or max not valid string range item");
  EXPECT_EQ(redis("zlexcount lex - (c"), "(2)");
  EXPECT_EQ(redis("zremrangebylex lex (a [c"), "(2)");
  EXPECT_EQ(redis("zremrangebyrank lex 0 0"), "(1)");
  EXPECT_EQ(redis("zscan lex 0"), "[\"0\", [\"d\", \"0\"]]");
  redis("hello 3");
  EXPECT_EQ(redis("zrange lex 0 -1 withscores"), "[[\"d\", 0]]");
}

// Fails if a range whose end comes before its begin is gone through beyond its end: what the round
// has changed ends somewhere.
TEST_F(CollectionCommandsTest, RangesThatEndBeforeTheyBeginAreEmpty) {
  Start();
  TestClient redis = NewClient();
  redis("multi");
  redis("zadd z 1 a 2 b 3 c");
  redis("set x 1");
  redis("set y 1");
  redis("zrangebyscore z 3 1");
  redis("zrevrangebyscore z 1 3");
  redis("zcount z 9 1");
  redis("zremrangebyscore z 3 2");
  redis("zrangebylex z [c [a");
  redis("dlsm.range y x");
  redis("dlsm.range y x rev");
  redis("dlsm.delrange y x");
  EXPECT_EQ(redis("exec"), "[(3), OK, OK, [], [], (0), (0), [], [], [], (0)]");
}

TEST_F(CollectionCommandsTest, Lists) {
  Start();
  TestClient redis = NewClient();
  EXPECT_EQ(redis("rpush l b c"), "(2)");
  EXPECT_EQ(redis("lpush l a z"), "(4)");
  EXPECT_EQ(redis("lrange l 0 -1"), "[\"z\", \"a\", \"b\", \"c\"]");
  EXPECT_EQ(redis("lrange l -2 100"), "[\"b\", \"c\"]");
  EXPECT_EQ(redis("lrange l 3 1"), "[]");
  EXPECT_EQ(redis("llen l"), "(4)");
  EXPECT_EQ(redis("lindex l 1"), "\"a\"");
  EXPECT_EQ(redis("lindex l -1"), "\"c\"");
  EXPECT_EQ(redis("lindex l 9"), "nil");
  EXPECT_EQ(redis("lset l 0 y"), "OK");
  EXPECT_EQ(redis("lset l 9 y"), "-ERR index out of range");
  EXPECT_EQ(redis("lset x 0 y"), "-ERR no such key");
  EXPECT_EQ(redis("lpop l"), "\"y\"");
  EXPECT_EQ(redis("rpop l 2"), "[\"c\", \"b\"]");
  EXPECT_EQ(redis("lpushx x a"), "(0)");
  EXPECT_EQ(redis("rpush l 1 2 3 4"), "(5)");
  EXPECT_EQ(redis("ltrim l 1 -2"), "OK");
  EXPECT_EQ(redis("lrange l 0 -1"), "[\"1\", \"2\", \"3\"]");
  EXPECT_EQ(redis("ltrim l 5 9"), "OK");
  EXPECT_EQ(redis("exists l"), "(0)");
  EXPECT_EQ(redis("lpop l"), "nil");
  EXPECT_EQ(redis("lpop l 2"), "nil");
}

// Fails if a command that cannot read what it needs changes something, so that a collection has
// another number of elements than it says, or if a client reads what was not written.
TEST_F(CollectionCommandsTest, ACommandThatFailsChangesNothing) {
  injector_ = std::make_shared<FaultInjector>(1);
  injector_->HarmAll(true);
  Start();
  TestClient redis = NewClient();
  for (int i = 0; i < 20; ++i) redis("hset h field" + std::to_string(i) + " 1");
  ASSERT_OK(db_->Flush(FlushOptions()));
  redis("set s 1");
  injector_->SetProbability(FaultKind::kFail, 1);
  // In one round.
  redis.SendBytes(TestClient::Encode({"set", "s", "2"}) +
                  TestClient::Encode({"hset", "h", "field1", "2", "new", "3"}) +
                  TestClient::Encode({"get", "s"}) + TestClient::Encode({"ping"}));
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(redis.Receive(), testing::StartsWith("-ERR IO error")) << i;
  EXPECT_EQ(redis.Receive(), "PONG");
  injector_->Clear();
  EXPECT_EQ(redis("get s"), "\"1\"");
  EXPECT_EQ(redis("hlen h"), "(20)");
  EXPECT_EQ(redis("hget h new"), "nil");
  EXPECT_EQ(redis("hget h field1"), "\"1\"");
}

// Fails if elements of a key that was deleted, written over, renamed or that has expired are found
// again, or are never cleared away.
TEST_F(CollectionCommandsTest, NothingIsFoundAgain) {
  Start();
  TestClient redis = NewClient();
  for (const char* end : {"del h", "set h 1", "rename s h", "expire h 0", "getset x 1"}) {
    redis("del h");
    redis("hset h a 1 b 2");
    redis("set s 1");
    redis(end);
    redis("del h");
    EXPECT_EQ(redis("hset h c 3"), "(1)") << end;
    EXPECT_EQ(redis("hgetall h"), "[\"c\", \"3\"]") << end;
  }
  redis("del h");
  redis("hset h a 1");
  EXPECT_EQ(redis("copy h i"), "(1)");
  redis("hset h a 2");
  EXPECT_EQ(redis("hget i a"), "\"1\"");
  EXPECT_EQ(redis("rename i j"), "OK");
  EXPECT_EQ(redis("hget j a"), "\"1\"");
  EXPECT_EQ(redis("flushall"), "OK");
  EXPECT_EQ(redis("hget j a"), "nil");
  redis("multi");
  redis("hset h a 1");
  redis("hgetall h");
  redis("del h");
  redis("hset h b 2");
  redis("hgetall h");
  EXPECT_EQ(redis("exec"), "[(1), [\"a\", \"1\"], (1), (1), [\"b\", \"2\"]]");
}

// Without a client that asks for them.
TEST_F(CollectionCommandsTest, ExpiredOnesAreDeleted) {
  Start();
  TestClient redis = NewClient();
  for (int i = 0; i < 400; ++i) redis("sadd large " + std::to_string(i));
  redis("hset small f v");
  redis("rpush later 1");
  redis("zadd kept 1 a");
  for (const char* key : {"large", "small", "later", "kept"}) {
    EXPECT_EQ(redis(std::string("pexpire ") + key + " 30"), "(1)");
  }
  EXPECT_EQ(redis("persist kept"), "(1)");
  EXPECT_EQ(redis("pexpire later 100000000"), "(1)");
  EXPECT_EQ(redis("rename small renamed"), "OK");
  const auto is_left = [this](char kind) {
    const std::string end(1, static_cast<char>(kind + 1));
    const std::unique_ptr<Iterator> entries(db_->NewIterator(ReadOptions()));
    entries->Seek(Slice(&kind, 1));
    return entries->Valid() && entries->key().compare(end) < 0;
  };
  const auto elements = [this] {
    size_t count = 0;
    const std::unique_ptr<Iterator> entries(db_->NewIterator(ReadOptions()));
    for (entries->Seek("e"); entries->Valid() && entries->key().starts_with("e"); entries->Next()) {
      ++count;
    }
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return elements() <= 3 && !is_left('g'); }));
  EXPECT_EQ(redis("exists large small renamed"), "(0)");
  EXPECT_EQ(redis("lrange later 0 -1"), "[\"1\"]");
  EXPECT_EQ(redis("zscore kept a"), "\"1\"");
  EXPECT_TRUE(is_left('x')) << "of the one that expires later";
  EXPECT_EQ(redis("del later kept"), "(2)");
}

}  // namespace
}  // namespace dlsm::serve
