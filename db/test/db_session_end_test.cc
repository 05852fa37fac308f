// A handle whose session has ended at the home of one of its shards, and which does not know it
// yet.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/filter_policy.h"
#include "dLSM/get_pipeline.h"
#include "db/nodes/memory_node_link.h"
#include "db/nodes/shard_map.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

class SessionEndTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string why_not = TestNode::WhyNot(GetParam());
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    TestNode::Config first = TestNode::Serving(GetParam());
    first.clock = [this] {
      if (leaps_) ahead_ += 100;
      return Clock::now() + seconds(ahead_.load());
    };
    TestNode::Config second = TestNode::Serving(GetParam());
    first.refuse_extent = second.refuse_extent = [this] { return full_.load(); };
    nodes_ = std::make_unique<TestNodes>(std::vector<TestNode::Config>{first, second}, GetParam());
  }
  Options TwoShards() const {
    Options options = nodes_->With(TinyOptions());
    options.shard_boundaries = {"m"};
    options.write_stall_timeout_ms = 3'600'000;
    return options;
  }
  // Of what is written to the first shard; OK: there was none in half a minute.
  Status FirstError(DB* db) {
    const auto until = Clock::now() + seconds(30);
    while (Clock::now() < until) {
      const Status status = db->Put(WriteOptions(), "a" + NumberedKey(++next_), "v");
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  std::unique_ptr<DB> OpenOneShard() {
    Options options = nodes_->With(TinyOptions(), 1);
    options.write_stall_timeout_ms = 3'600'000;
    return OpenOrDie(options, "db");
  }
  // Puts "b" until the handle knows that its only session has ended.
  void LoseTheSession(DB* db) {
    leaps_ = true;
    EXPECT_TRUE(Eventually([db] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // The memtable is not to fill.
      return db->Put(WriteOptions(), "b", "not flushed").IsIOError();
    }));
  }
  // "a" has been flushed and "b" has not when the only session ends; returns once the handle knows.
  std::unique_ptr<DB> OpenAndLoseTheSession() {
    std::unique_ptr<DB> db = OpenOneShard();
    EXPECT_OK(db->Put(WriteOptions(), "a", "flushed"));
    EXPECT_OK(db->Flush(FlushOptions()));
    EXPECT_OK(db->Put(WriteOptions(), "b", "not flushed"));
    LoseTheSession(db.get());
    return db;
  }
  static void ExpectToldOfTheEnd(const Status& status) {
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_NE(status.ToString().find("session at memory node 1 has ended"), std::string::npos)
        << status.ToString();
  }

  uint64_t next_ = 0;
  // Of the first memory node's clock. It leaps with each look at it: after a single leap a
  // heartbeat could come before the look that ends the session.
  std::atomic<bool> leaps_{false};
  std::atomic<int64_t> ahead_{0};  // Seconds.
  std::atomic<bool> full_{false};  // Both of them.
  std::unique_ptr<TestNodes> nodes_;
};

// Fails if writers wait out write_stall_timeout_ms before they hear of it, or if the other shard,
// which has lost nothing, may be written no more.
TEST_P(SessionEndTest, WritersHearAtOnceAndOtherShardsGoOn) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  ASSERT_OK(db->Put(WriteOptions(), "a", "flushed"));
  ASSERT_OK(db->Put(WriteOptions(), "z", "flushed"));
  ASSERT_OK(db->Flush(FlushOptions()));
  leaps_ = true;
  const Status status = FirstError(db.get());
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_NE(status.ToString().find("session at memory node 1 has ended"), std::string::npos)
      << status.ToString();
  EXPECT_NE(status.ToString().find("open the database again"), std::string::npos)
      << status.ToString();
  for (int i = 0; i < 5000; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), "z" + NumberedKey(i), std::string(100, 'v')));
  }
  EXPECT_FALSE(db->Close().ok()) << "what was written to the first shard is not flushed";
  leaps_ = false;
  db = OpenOrDie(TwoShards(), "db");
  EXPECT_EQ(GetOr(db.get(), "a"), "flushed");
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(GetOr(db.get(), "z" + NumberedKey(i)), std::string(100, 'v')) << i;
  }
  EXPECT_OK(db->Put(WriteOptions(), "a", "again"));
  EXPECT_OK(db->Close());
}

// Fails if writers wait for memory that is lost: the home has other contents.
TEST_P(SessionEndTest, WritersHearAtOnceOfARestart) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  ASSERT_OK(db->Put(WriteOptions(), "a", "v"));
  (*nodes_)[0].Restart();
  const Status status = FirstError(db.get());
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_NE(status.ToString().find("memory is lost"), std::string::npos) << status.ToString();
  ASSERT_OK(db->Put(WriteOptions(), "z", "v"));
  EXPECT_FALSE(db->Close().ok());
}

// Fails if Flush is well as long as nobody has written since the session has ended.
TEST_P(SessionEndTest, FlushSaysSoWhereThereIsNothingToFlush) {
  std::unique_ptr<DB> db = OpenOrDie(TwoShards(), "db");
  ASSERT_OK(db->Put(WriteOptions(), "a", "flushed"));
  ASSERT_OK(db->Flush(FlushOptions()));
  leaps_ = true;
  const auto until = Clock::now() + seconds(30);
  Status flushed;
  while (flushed.ok() && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    flushed = db->Flush(FlushOptions());
  }
  EXPECT_TRUE(flushed.IsIOError()) << flushed.ToString();
  EXPECT_FALSE(db->Close().ok());
}

// What the memory node had granted may be others' by then, and where it is mapped nothing is taken
// away. Fails if the handle goes on trying to flush into it.
TEST_P(SessionEndTest, NothingIsWrittenIntoMemoryThatIsLost) {
  std::unique_ptr<DB> db = OpenAndLoseTheSession();
  const uint64_t written = FieldOfProperty(db.get(), "dlsm.wire", "flush");
  EXPECT_GT(written, 0u);
  const auto retries = [&db] { return db->GetStatistics()->Get(Ticker::kRetries); };
  const uint64_t before = retries();
  EXPECT_TRUE(db->Flush(FlushOptions()).IsIOError());
  EXPECT_TRUE(Eventually([&] { return retries() >= before + 3; }));
  EXPECT_EQ(FieldOfProperty(db.get(), "dlsm.wire", "flush"), written);
  EXPECT_FALSE(db->Close().ok());
  leaps_ = false;
  db = OpenOrDie(nodes_->With(TinyOptions(), 1), "db");
  EXPECT_EQ(GetOr(db.get(), "a"), "flushed");
  EXPECT_EQ(GetOr(db.get(), "b"), "(none)");
  EXPECT_OK(db->Close());
}

// The same of reads: who has the database next may have merged its tables away. Fails if the handle
// goes on answering by what lies in their places.
TEST_P(SessionEndTest, NothingIsReadFromMemoryThatIsLost) {
  std::unique_ptr<DB> db = OpenAndLoseTheSession();
  for (const bool verify : {false, true}) {
    ReadOptions options;
    options.verify_checksums = verify;
    std::string value;
    ExpectToldOfTheEnd(db->Get(options, "a", &value));
    std::vector<std::string> values;
    const std::vector<Status> statuses = db->MultiGet(options, {"a"}, &values);
    ASSERT_EQ(statuses.size(), 1u);
    ExpectToldOfTheEnd(statuses[0]);
    const std::unique_ptr<Iterator> entries(db->NewIterator(options));
    for (entries->SeekToFirst(); entries->Valid();) entries->Next();
    ExpectToldOfTheEnd(entries->status());
  }
  EXPECT_EQ(GetOr(db.get(), "b"), "not flushed") << "that is in a memtable";
  EXPECT_FALSE(db->Close().ok());
}

// Where memory nodes' memory is mapped, and reads find what they are looking for where it lies.
class SessionEndInPlaceTest : public SessionEndTest {};

// The same of gets that had found their records before the session ended, and look at them when
// their answers are taken. Fails if they look at what is there by then: it may be another key's.
TEST_P(SessionEndInPlaceTest, GetsUnderWayAreToldAsWell) {
  std::unique_ptr<DB> db = OpenOneShard();
  ASSERT_OK(db->Put(WriteOptions(), "a", "flushed"));
  ASSERT_OK(db->Flush(FlushOptions()));
  std::unique_ptr<GetPipeline> pipeline = db->NewGetPipeline(ReadOptions(), 1);
  ASSERT_OK(pipeline->Submit("a", 0));
  LoseTheSession(db.get());
  GetPipeline::Answer answer;
  ASSERT_TRUE(pipeline->Next(&answer));
  ExpectToldOfTheEnd(answer.status);
  pipeline.reset();
  EXPECT_FALSE(db->Close().ok());
}

// Denies nothing, and calls a function when it is asked for "c" next.
class CallingFilter final : public FilterPolicy {
 public:
  const char* Name() const override { return "test.calling"; }
  void CreateFilter(const Slice*, int, std::string* filter) const override { filter->append("."); }
  bool KeyMayMatch(const Slice& key, const Slice&) const override {
    if (key == Slice("c") && call) std::exchange(call, nullptr)();
    return true;
  }

  mutable std::function<void()> call;  // Only the test's thread looks for keys.
};

// The same of a MultiGet's first key, while it looks for the second one: an index that has to be
// loaded may take long. Fails if the record is looked at where it lies, or copied from there.
TEST_P(SessionEndInPlaceTest, KeysBeforeOneThatTakesLongAreToldAsWell) {
  CallingFilter filter;
  Options options = nodes_->With(TinyOptions(), 1);
  options.filter_policy = &filter;
  std::unique_ptr<DB> db = OpenOrDie(options, "db");
  for (const char* const key : {"a", "c"}) ASSERT_OK(db->Put(WriteOptions(), key, "flushed"));
  ASSERT_OK(db->Flush(FlushOptions()));
  for (const bool verify : {false, true}) {
    ReadOptions reads;
    reads.verify_checksums = verify;
    filter.call = [&] { LoseTheSession(db.get()); };
    std::vector<std::string> values;
    for (const Status& status : db->MultiGet(reads, {"a", "c"}, &values)) {
      ExpectToldOfTheEnd(status);
    }
    EXPECT_FALSE(filter.call) << "it was not asked";
    EXPECT_FALSE(db->Close().ok());
    leaps_ = false;
    db = OpenOrDie(options, "db");
  }
  EXPECT_OK(db->Close());
}

// The same of iterators that stand somewhere when the session ends: whatever comes next is in the
// table, for one of them behind an entry of a memtable. Fails if one shows what it finds there.
TEST_P(SessionEndInPlaceTest, IteratorsAreToldAsWell) {
  std::unique_ptr<DB> db = OpenOneShard();
  for (const char* const key : {"a", "c", "e"}) ASSERT_OK(db->Put(WriteOptions(), key, "flushed"));
  ASSERT_OK(db->Flush(FlushOptions()));
  const auto new_iterator = [&db] {
    return std::unique_ptr<Iterator>(db->NewIterator(ReadOptions()));
  };
  std::unique_ptr<Iterator> forward = new_iterator();
  forward->SeekToFirst();
  std::unique_ptr<Iterator> at_last = new_iterator();
  at_last->Seek("e");
  std::unique_ptr<Iterator> backward = new_iterator();
  backward->SeekToLast();
  std::unique_ptr<Iterator> before_first = new_iterator();
  before_first->SeekToLast();
  before_first->Prev();
  ASSERT_OK(db->Put(WriteOptions(), "b", "not flushed"));
  std::unique_ptr<Iterator> merging = new_iterator();
  merging->SeekToFirst();
  merging->Next();
  for (const auto* each : {&forward, &at_last, &backward, &before_first, &merging}) {
    ASSERT_TRUE((*each)->Valid());
  }
  EXPECT_EQ(before_first->key().ToString(), "c");
  EXPECT_EQ(merging->key().ToString(), "b");
  LoseTheSession(db.get());
  forward->Next();
  at_last->Next();
  backward->Prev();
  before_first->Prev();
  merging->Next();
  for (auto* each : {&forward, &at_last, &backward, &before_first, &merging}) {
    EXPECT_FALSE((*each)->Valid());
    ExpectToldOfTheEnd((*each)->status());
    each->reset();
  }
  EXPECT_FALSE(db->Close().ok());
}

// Fails if who waits for a flush, or closes, waits for room that cannot come: without its home
// nothing of the shard is durable, whatever other memory nodes have room for.
TEST_P(SessionEndTest, FlushAndCloseHearAtOnceWhereTablesAreOnSeveralNodes) {
  Options options = nodes_->With(TinyOptions());
  options.placement = TablePlacement::kPowerOfD;
  options.write_stall_timeout_ms = 3'600'000;
  for (const bool full : {false, true}) {
    std::unique_ptr<DB> db = OpenOrDie(options, "db");
    ASSERT_OK(db->Put(WriteOptions(), "a", "flushed"));
    ASSERT_OK(db->Flush(FlushOptions()));
    full_ = full;
    Status refused;
    std::thread writer([&] { refused = FirstError(db.get()); });
    if (full) std::this_thread::sleep_for(seconds(1));  // Until it waits for room,
    // which deletions need not, unless memtables have to be waited for as well.
    std::thread deleter([&] { db->Delete(WriteOptions(), "b").PermitUncheckedError(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    leaps_ = true;
    writer.join();
    deleter.join();
    EXPECT_TRUE(refused.IsIOError()) << refused.ToString();
    const auto start = Clock::now();
    const Status flushed = db->Flush(FlushOptions());
    EXPECT_TRUE(flushed.IsIOError()) << flushed.ToString();
    EXPECT_FALSE(db->Close().ok());
    EXPECT_LT(Clock::now() - start, seconds(60));
    db.reset();
    leaps_ = false;
    full_ = false;
    db = OpenOrDie(options, "db");
    EXPECT_EQ(GetOr(db.get(), "a"), "flushed");
    EXPECT_OK(db->Close());
  }
}

// The second shard is held by a process that has died, for longer than the first one's lease. Fails
// if nobody sends heartbeats of sessions that are open while the next one is waited for: then what
// has been opened could not be written.
TEST_P(SessionEndTest, SessionsLastWhileOthersAreWaitedFor) {
  TestNode::Config first = TestNode::Serving(GetParam());
  first.lease = seconds(3);
  TestNode::Config second = TestNode::Serving(GetParam());
  second.grace = seconds(8);
  nodes_ = std::make_unique<TestNodes>(std::vector<TestNode::Config>{first, second}, GetParam());
  OpenOrDie(TwoShards(), "db").reset();
  {
    std::unique_ptr<NodeConnection> dies;
    ASSERT_OK(ConnectToMemoryNode(TwoShards(), (*nodes_)[1].address(), &dies));
    OpenDatabaseRequest request;
    request.name = ShardName("db", 1);
    std::string reply;
    ASSERT_OK(dies->rpc().Call(Method::kOpenDatabase, request.Encode(), &reply,
                               Deadline::In(seconds(5))));
  }
  const auto start = Clock::now();
  Options options = TwoShards();
  options.open_timeout_ms = 60'000;
  std::unique_ptr<DB> db = OpenOrDie(options, "db");
  EXPECT_GT(Clock::now() - start, seconds(5)) << "nothing was waited for";
  EXPECT_OK(db->Put(WriteOptions(), "a", "v"));
  EXPECT_OK(db->Put(WriteOptions(), "z", "v"));
  EXPECT_OK(db->Flush(FlushOptions()));
  EXPECT_OK(db->Close());
}

// The first shard's ends while the handle is being opened, before it asks for the second one. Fails
// if Open calls that by another name than handles that are open do.
TEST_P(SessionEndTest, OpenIsToldAsWell) {
  ASSERT_OK(OpenOrDie(TwoShards(), "db")->Close());
  const uint16_t second = (*nodes_)[1].server().port();
  const auto connector = std::make_shared<WatchedConnector>(
      [this, second](uint16_t port, Method method, const Slice&) {
        if (port == second && method == Method::kOpenDatabase) leaps_ = true;
        return Status::OK();
      });
  connector->GoOver(FabricKindFromName(GetParam()).value());
  Options options = TwoShards();
  options.node_connector = connector;
  std::unique_ptr<DB> db;
  ExpectToldOfTheEnd(DB::Open(options, "db", &db));
  leaps_ = false;
  db = OpenOrDie(TwoShards(), "db");
  EXPECT_OK(db->Close());
}

// -------- One session of several over the same connection

// Of one of two shards at a memory node no heartbeat gets there, and its session ends alone. Over
// shm the other one reads on. Fails if gets that are under way together, and share their way, fail
// for the other shard as well; or if MultiGet does not tell the two apart.
TEST(SessionEndOfOneShardTest, TheOtherShardIsReadOn) {
  TestNode::Config config;
  config.lease = seconds(3);
  TestNode node(config);
  std::atomic<bool> silent{false};
  std::atomic<uint64_t> unheard{0};
  const auto connector = std::make_shared<WatchedConnector>(
      [&](uint16_t, Method method, const Slice& bytes) -> Status {
        if (!silent || method != Method::kHeartbeat) return Status::OK();
        HeartbeatRequest request;
        DLSM_RETURN_IF_ERROR(request.Decode(bytes));
        const auto session = static_cast<uint64_t>(request.session);
        if (unheard == 0) unheard = session;
        return session == unheard ? Status::IOError("the test has lost this call") : Status::OK();
      });
  connector->GoOver(FabricKind::kShm);
  Options options = node.With(TinyOptions(), "shm");
  options.shard_boundaries = {"m"};
  options.node_connector = connector;
  const std::vector<std::string> keys = {"a", "z"};
  const std::unique_ptr<DB> db = OpenOrDie(options, "db");
  for (const std::string& key : keys) ASSERT_OK(db->Put(WriteOptions(), key, "flushed"));
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  ReadOptions fetching;
  fetching.verify_checksums = true;  // Nothing is read in place.
  const std::unique_ptr<GetPipeline> pipeline = db->NewGetPipeline(fetching, 4);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_OK(pipeline->Submit(keys[i % 2], i));

  silent = true;
  EXPECT_TRUE(Eventually([&] { return node.server().node().Statistics().sessions == 1; }));
  silent = false;
  size_t lost = keys.size();
  ASSERT_TRUE(Eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // No memtable is to fill.
    for (size_t i = 0; i < keys.size(); ++i) {
      if (db->Put(WriteOptions(), keys[i] + "0", "not flushed").IsIOError()) lost = i;
    }
    return lost < keys.size();
  }));
  const auto expect_of = [&](size_t key, const Status& status, const std::string& value) {
    SCOPED_TRACE(keys[key]);
    if (key == lost) {
      EXPECT_NE(status.ToString().find("session at memory node 7 has ended"), std::string::npos)
          << status.ToString();
    } else {
      EXPECT_OK(status);
      EXPECT_EQ(value, "flushed");
    }
  };
  GetPipeline::Answer answer;
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(pipeline->Next(&answer));
    expect_of(i % 2, answer.status, answer.value);
  }
  for (const bool verify : {false, true}) {
    ReadOptions reads;
    reads.verify_checksums = verify;
    std::vector<std::string> values;
    const std::vector<Status> statuses = db->MultiGet(reads, {"a", "z"}, &values);
    ASSERT_EQ(statuses.size(), keys.size());
    for (size_t i = 0; i < keys.size(); ++i) expect_of(i, statuses[i], values[i]);
  }
  EXPECT_FALSE(db->Close().ok());
}

INSTANTIATE_TEST_SUITE_P(Shm, SessionEndInPlaceTest, testing::Values("shm"),
                         [](const auto& each) { return each.param; });
INSTANTIATE_TEST_SUITE_P(EveryFabric, SessionEndTest, testing::Values("tcp", "shm", "verbs"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace dlsm
