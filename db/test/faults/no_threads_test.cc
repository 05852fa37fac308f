// The system makes no more threads: the Nth, or all from there on, for N from 1 until the operation
// is through untouched. Errors are Statuses that name the remedy; what was made so far goes again.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>

#include "db/test/faults/fault_world_testing.h"
#include "port/thread_sanitizer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(DLSM_THREAD_SANITIZER)
#define DLSM_OWN_THREADS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DLSM_OWN_THREADS 0
#endif
#endif
#ifndef DLSM_OWN_THREADS
#define DLSM_OWN_THREADS 1
#endif

namespace dlsm {
namespace {

std::atomic<int64_t> threads_left{-1};  // Negative: no limit.

class ThreadLimit {
 public:
  explicit ThreadLimit(int64_t threads) { threads_left = threads; }
  ~ThreadLimit() { Lift(); }
  // Whether there was one thread too many.
  bool Lift() { return threads_left.exchange(-1) == 0; }
};

}  // namespace
}  // namespace dlsm

#if DLSM_OWN_THREADS
// In place of the C library's, in this program. The sanitizers have one of their own.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  int64_t left = dlsm::threads_left;
  while (left > 0 && !dlsm::threads_left.compare_exchange_weak(left, left - 1)) {
  }
  return left == 0 ? EAGAIN : create(thread, attributes, run, argument);
}
#endif

namespace dlsm {
namespace {

// Opens a database with one thread more permitted each time, until that goes, and uses it then.
// Returns how often it was its own thread that was missing, and said so. (The memory node's, for
// connections, come from the same process: without one, it is the memory node that does not
// answer.)
int64_t OpenWithMoreAndMore(const std::function<Status(int64_t, std::unique_ptr<DB>*)>& open,
                            const std::function<void(DB*)>& use) {
  int64_t failed = 0;
  bool opened = false;
  for (int64_t threads = 0; !opened && threads < 100; ++threads) {
    SCOPED_TRACE(threads);
    std::unique_ptr<DB> db;
    ThreadLimit limit(threads);
    const Status status = open(threads, &db);
    opened = status.ok();
    if (!opened && !status.IsTimedOut() && !status.IsBusy()) {
      EXPECT_TRUE(status.IsIOError()) << status.ToString();
      failed += status.ToString().find("ulimit -u") != std::string::npos ? 1 : 0;
    }
    limit.Lift();
    if (opened) {
      use(db.get());
      EXPECT_OK(db->Close());
    }
  }
  EXPECT_TRUE(opened);
  return failed;
}

class NoThreadsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!DLSM_OWN_THREADS) GTEST_SKIP() << "the sanitizer makes the threads";
  }

  static void ExpectRemedy(const Status& status) {
    EXPECT_NE(status.ToString().find("ulimit -u"), std::string::npos) << status.ToString();
  }

  static NodeServerOptions NodeOptions() {
    NodeServerOptions options;
    options.bytes = uint64_t{16} << 20;
    options.huge_pages = false;
    options.node.node = NodeId{1};
    options.fabric_threads = 2;
    return options;
  }
};

// Fails if any part of a memory node lets std::system_error out, or is destroyed with threads that
// nobody has joined: both end the process.
TEST_F(NoThreadsTest, StartOfAMemoryNode) {
  const ProcessUse before = ProcessUse::Now();
  int64_t threads = 0;
  for (bool limited = true; limited && threads < 100; ++threads) {
    SCOPED_TRACE(threads);
    std::unique_ptr<NodeServer> server;
    ThreadLimit limit(threads);
    const Status status = NodeServer::Start(NodeOptions(), &server);
    limited = !status.ok();
    if (limited) ExpectRemedy(status);
  }
  EXPECT_GT(threads, 5);
  EXPECT_LT(threads, 100);
  before.ExpectAgain();
}

TEST_F(NoThreadsTest, OpenOfADatabase) {
  TestNode node;
  Options options = node.With(TinyOptions(), "tcp");
  options.publish_interval_ms = 1000;
  options.open_timeout_ms = 200;
  const ProcessUse before = ProcessUse::Now();
  const int64_t failed = OpenWithMoreAndMore(
      [&](int64_t threads, std::unique_ptr<DB>* db) {
        return DB::Open(options, "db" + std::to_string(threads), db);
      },
      [](DB* db) { EXPECT_OK(db->Put(WriteOptions(), "k", "v")); });
  EXPECT_GT(failed, 2) << "of the database's own threads";
  before.ExpectAgain();
}

// Two shards on two memory nodes, so that the follower learns of one of them, and of more to read
// at the other, from the publication. Fails if std::system_error is let out, or if a reader is left
// at a memory node, which keeps for it what the owner gives back. The threads that are missing are
// the memory nodes': the follower has those that the process has for the owner.
TEST_F(NoThreadsTest, OpenOfAFollower) {
  TestNodes nodes(2, "tcp");
  Options options = nodes.With(TinyOptions());
  options.shards = 2;
  options.shard_boundaries = {NumberedKey(500)};
  options.publish_interval_ms = 1;
  auto owner = OpenOrDie(options, "db");
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_OK(owner->Put(WriteOptions(), NumberedKey(i), "v"));
  ASSERT_OK(owner->Flush(FlushOptions()));
  ASSERT_OK(owner->WaitForBackgroundWork());
  // After the first publication the owner makes no connections any more.
  std::unique_ptr<DB> first;
  ASSERT_OK(DB::OpenFollower(options, "db", &first));
  ASSERT_OK(first->Close());
  Options following = options;
  following.open_timeout_ms = 200;
  const ProcessUse before = ProcessUse::Now();
  const int64_t failed = OpenWithMoreAndMore(
      [&](int64_t, std::unique_ptr<DB>* follower) {
        return DB::OpenFollower(following, "db", follower);
      },
      [](DB* follower) { EXPECT_EQ(GetOr(follower, NumberedKey(0)), "v"); });
  EXPECT_EQ(failed, 0) << "it has no threads of its own";
  before.ExpectAgain();
  CloseAndDestroy(&owner, options, "db");
  for (size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i].used_bytes(), 0u) << i;
}

// A merge in parts goes on with the threads that there are.
TEST_F(NoThreadsTest, PartsOfMerges) {
  TestNode node;
  Options options = node.With(TinyOptions(), "shm");
  options.max_subcompactions = 4;
  options.compaction_place = CompactionPlace::kComputeNode;
  auto db = OpenOrDie(options, "db");
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 500; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(static_cast<uint64_t>(i)),
                        std::string(500, static_cast<char>('a' + round))));
    }
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  {
    ThreadLimit limit(0);
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    ASSERT_OK(db->WaitForBackgroundWork());
  }
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(GetOr(db.get(), NumberedKey(static_cast<uint64_t>(i))), std::string(500, 'c'));
  }
  CloseAndDestroy(&db, options, "db");
}

// A client that a memory node has no thread for fails, and the next one is served.
TEST_F(NoThreadsTest, NewConnections) {
  TestNode node;
  Options options = node.With(TinyOptions(), "tcp");
  options.open_timeout_ms = 100;
  options.operation_timeout_ms = 500;
  std::unique_ptr<DB> db;
  {
    ThreadLimit limit(0);
    EXPECT_FALSE(DB::Open(options, "db", &db).ok());
  }
  options.open_timeout_ms = options.operation_timeout_ms = 20000;
  ASSERT_OK(DB::Open(options, "db", &db));
  CloseAndDestroy(&db, options, "db");
}

}  // namespace
}  // namespace dlsm
