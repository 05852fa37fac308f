// Children of a process that has databases open.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/c.h"
#include "dLSM/cache.h"
#include "dLSM/db.h"
#include "dLSM/get_pipeline.h"
#include "dLSM/iterator.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/c/c_testing.h"
#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "port/thread_sanitizer.h"
#include "util/child_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kForkKeys = 2000;
const std::string kForkValue(100, 'v');

// ThreadSanitizer ends a child that starts threads.
#ifdef DLSM_THREAD_SANITIZER
constexpr bool kChildrenMayStartThreads = false;
#else
constexpr bool kChildrenMayStartThreads = true;
#endif

// A child of AddressSanitizer's that allocates waits for ever where a thread of its parent held the
// allocator's lock.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kChildrenMayAllocate = false;
#elif defined(__has_feature)
constexpr bool kChildrenMayAllocate = !__has_feature(address_sanitizer);
#else
constexpr bool kChildrenMayAllocate = true;
#endif

// Of a process that runs the test: a handle that exit() destroys.
std::unique_ptr<DB> static_handle;
std::unique_ptr<Cache> static_cache;

// Calls the handle in a loop, so that a child is made while it is in the middle of something.
class BusyCallers {
 public:
  explicit BusyCallers(DB* db) {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this, db, i] {
        for (uint64_t n = 0; !stop_.load(); ++n) {
          const std::string key = NumberedKey(n % kForkKeys);
          std::string value;
          if (i == 0) {
            EXPECT_OK(db->Put(WriteOptions(), key, kForkValue));
          } else {
            EXPECT_OK(db->Get(ReadOptions(), key, &value));
            EXPECT_EQ(value, kForkValue);
          }
        }
      });
    }
  }
  ~BusyCallers() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// Whether it is what a child is told of a handle of its parent.
void ExpectRefused(const Status& status) {
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_NE(status.ToString().find(std::to_string(getppid())), std::string::npos)
      << status.ToString();
  EXPECT_NE(status.ToString().find("fork()"), std::string::npos) << status.ToString();
}

void ExpectReadsRefused(DB* db) {
  std::string value;
  PinnableSlice pinned;
  ExpectRefused(db->Get(ReadOptions(), NumberedKey(1), &value));
  ExpectRefused(db->Get(ReadOptions(), NumberedKey(1), &pinned));
  const std::array<Slice, 2> keys = {Slice("a"), Slice("b")};
  std::vector<std::string> values;
  for (const Status& status : db->MultiGet(ReadOptions(), {keys.begin(), keys.end()}, &values)) {
    ExpectRefused(status);
  }
  std::array<PinnableSlice, 2> pins;
  std::array<Status, 2> statuses;
  db->MultiGet(ReadOptions(), keys.size(), keys.data(), pins.data(), statuses.data());
  for (const Status& status : statuses) ExpectRefused(status);
  ExpectRefused(db->NewGetPipeline(ReadOptions(), 4)->Submit("a", 1));
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  iterator->SeekToFirst();
  EXPECT_FALSE(iterator->Valid());
  ExpectRefused(iterator->status());
  EXPECT_EQ(db->GetSnapshot(), nullptr);
  EXPECT_FALSE(db->GetProperty("dlsm.stats", &value));
  uint64_t number = 0;
  EXPECT_FALSE(db->GetIntProperty("dlsm.entries", &number));
  const Range all("", "z");
  number = 1;
  db->GetApproximateSizes(&all, 1, &number);
  EXPECT_EQ(number, 0u);
  ExpectRefused(db->WaitForBackgroundWork());
  ExpectRefused(db->TryCatchUp());
}

void ExpectWritesRefused(DB* db) {
  ExpectRefused(db->Put(WriteOptions(), "a", "b"));
  ExpectRefused(db->Delete(WriteOptions(), "a"));
  WriteBatch batch;
  batch.Put("a", "b");
  ExpectRefused(db->Write(WriteOptions(), &batch));
  ExpectRefused(db->CompactRange(nullptr, nullptr));
  ExpectRefused(db->Flush(FlushOptions()));
  ExpectRefused(db->SetOptions({{"merge_scheduler", "fair"}}));
}

// What a user may have of a handle when it forks.
struct Taken {
  explicit Taken(DB* from) : db(from) {
    EXPECT_OK(db->Get(ReadOptions(), NumberedKey(1), &pinned));
    iterator.reset(db->NewIterator(ReadOptions()));
    iterator->SeekToFirst();
    EXPECT_TRUE(iterator->Valid());
    pipeline = db->NewGetPipeline(ReadOptions(), 8);
    for (uint64_t i = 0; i < 4; ++i) EXPECT_OK(pipeline->Submit(NumberedKey(i), i));
    snapshot = db->GetSnapshot();
  }
  ~Taken() {
    iterator.reset();
    pipeline.reset();
    db->ReleaseSnapshot(snapshot);
  }

  // In a child: each is refused, and goes without a trace.
  void ExpectRefusedAndGive() {
    for (const bool moved : {false, true}) {
      EXPECT_FALSE(iterator->Valid());
      ExpectRefused(iterator->status());
      if (!moved) iterator->Next();
    }
    iterator->Seek("a");
    iterator->SeekToLast();
    iterator->SeekForPrev("a");
    EXPECT_FALSE(iterator->Valid());
    iterator.reset();
    ExpectRefused(pipeline->Submit("a", 5));
    GetPipeline::Answer answer;
    for (uint64_t i = 0; pipeline->Next(&answer); ++i) {
      EXPECT_EQ(answer.tag, i);
      ExpectRefused(answer.status);
    }
    EXPECT_EQ(pipeline->outstanding(), 0u);
    pipeline.reset();
    db->ReleaseSnapshot(snapshot);
    snapshot = nullptr;
    PinnableSlice moved(std::move(pinned));
    moved.Reset();
    EXPECT_FALSE(moved.IsPinned());
  }

  DB* const db;
  PinnableSlice pinned;
  std::unique_ptr<Iterator> iterator;
  std::unique_ptr<GetPipeline> pipeline;
  const Snapshot* snapshot = nullptr;
};

class ForkTest : public testing::TestWithParam<std::string> {
 protected:
  ForkTest() : options_(TinyOptions()), node_(NodeServing(GetParam(), &options_)) {}

  void SetUp() override {
    if (!kChildrenMayAllocate) GTEST_SKIP() << "a child of AddressSanitizer's may not allocate";
  }

  std::unique_ptr<DB> OpenFilled(const std::string& name) {
    std::unique_ptr<DB> db = OpenOrDie(options_, name);
    for (uint64_t i = 0; i < kForkKeys; ++i) {
      EXPECT_OK(db->Put(WriteOptions(), NumberedKey(i), kForkValue));
    }
    EXPECT_OK(db->Flush(FlushOptions()));
    return db;
  }

  Options options_;
  const std::unique_ptr<TestNode> node_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, ForkTest, testing::Values("", "shm", "tcp"),
                         [](const auto& instance) {
                           return instance.param.empty() ? "embedded" : instance.param;
                         });

// Fails if a child can do anything with a handle of its parent, or hangs or crashes with it; or if
// that disturbs the parent, which shares connections with it.
TEST_P(ForkTest, AChildIsRefusedAndItsParentGoesOn) {
  std::unique_ptr<DB> db = OpenFilled("a");
  {
    const BusyCallers busy(db.get());
    for (int i = 0; i < 3; ++i) {
      Taken taken(db.get());
      InChild([&db, &taken] {
        ExpectReadsRefused(db.get());
        ExpectWritesRefused(db.get());
        taken.ExpectRefusedAndGive();
        ExpectRefused(db->Close());
        db.reset();
      });
      EXPECT_TRUE(taken.iterator->Valid());
      GetPipeline::Answer answer;
      EXPECT_TRUE(taken.pipeline->Next(&answer));
      EXPECT_OK(answer.status);
    }
  }
  CloseAndDestroy(&db, options_, "a");
}

// Fails if exit() hangs, crashes or tells memory nodes something, in a child that has inherited a
// static handle.
TEST_P(ForkTest, AChildMayExit) {
  static_handle = OpenFilled("a");
  {
    const BusyCallers busy(static_handle.get());
    for (int i = 0; i < 3; ++i) InChildThatExits([] {});
  }
  CloseAndDestroy(&static_handle, options_, "a");
}

// Fails if a child cannot use databases of its own because of what its parent had open, held locked
// or cached.
TEST_P(ForkTest, AChildHasDatabasesOfItsOwn) {
  if (!kChildrenMayStartThreads) GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
  static_cache.reset(NewLRUCache(size_t{1} << 20));
  options_.block_cache = static_cache.get();
  options_.table_format = TableFormat::kBlockBased;
  options_.statistics = CreateStatistics();
  std::unique_ptr<DB> db = OpenFilled("a");
  {
    const BusyCallers busy(db.get());
    InChildThatExits([this] {
      Options existing = options_;
      existing.create_if_missing = false;
      std::unique_ptr<DB> own;
      // The embedded memory node of its parent has it.
      if (GetParam().empty()) {
        EXPECT_TRUE(DB::Open(existing, "a", &own).IsInvalidArgument());
      }
      own = OpenFilled("b");
      EXPECT_EQ(GetOr(own.get(), NumberedKey(1)), kForkValue);
      EXPECT_OK(own->CompactRange(nullptr, nullptr));
      CloseAndDestroy(&own, options_, "b");
      static_handle = OpenFilled("c");  // exit() closes it.
    });
  }
  CloseAndDestroy(&db, options_, "a");
  EXPECT_OK(DestroyDB("c", options_));
  static_cache.reset();
}

// Fails if a child of a daemon, or of another child, takes the handle for its own; or if a process
// that goes on as a child of the one that had the database open cannot open it.
TEST_P(ForkTest, ADaemonOpensWhatItsParentHasClosed) {
  if (!kChildrenMayStartThreads) GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads";
  std::unique_ptr<DB> db = OpenFilled("a");
  EXPECT_OK(db->Close());
  InChild([this, &db] {
    db.reset();
    std::unique_ptr<DB> again;
    const Status status = DB::Open(options_, "a", &again);
    ASSERT_OK(status);
    // The embedded memory node is its parent's: the child has an empty one.
    EXPECT_EQ(GetOr(again.get(), NumberedKey(1)), GetParam().empty() ? "(none)" : kForkValue);
    InChild([&again] {
      ExpectWritesRefused(again.get());
      again.reset();
    });
    EXPECT_OK(again->Close());
  });
  db.reset();
  EXPECT_OK(DestroyDB("a", options_));
}

// Fails if a child can read through a follower of its parent, or hangs with it.
TEST(ForkFollowerTest, AChildIsRefused) {
  if (!kChildrenMayAllocate) GTEST_SKIP() << "a child of AddressSanitizer's may not allocate";
  Options options = OwnerOptions();
  const std::unique_ptr<TestNode> node = NodeServing("tcp", &options);
  std::unique_ptr<DB> owner = OpenOrDie(options, "a");
  for (uint64_t i = 0; i < kForkKeys; ++i) {
    ASSERT_OK(owner->Put(WriteOptions(), NumberedKey(i), kForkValue));
  }
  Options follow = node->With(FollowerOptions(), "tcp");
  std::unique_ptr<DB> follower = FollowOrDie(follow, "a");
  CatchUpWith(owner.get(), follower.get());
  static_handle = FollowOrDie(follow, "a");
  {
    Taken taken(follower.get());
    InChildThatExits([&follower, &taken] {
      ExpectReadsRefused(follower.get());
      taken.ExpectRefusedAndGive();
      ExpectRefused(follower->Close());
      follower.reset();
    });
  }
  static_handle.reset();
  EXPECT_EQ(GetOr(follower.get(), NumberedKey(1)), kForkValue);
  EXPECT_OK(owner->Put(WriteOptions(), "after", kForkValue));
}

using ForkCTest = CTest;

// Fails if a function of the C interface hangs or crashes in a child, or seems to succeed there.
TEST_F(ForkCTest, AChildIsRefused) {
  if (!kChildrenMayAllocate) GTEST_SKIP() << "a child of AddressSanitizer's may not allocate";
  Open();
  Put("a", "1");
  dlsm_iterator_t* const iterator = dlsm_create_iterator(db_, read_);
  dlsm_iter_seek_to_first(iterator);
  const dlsm_snapshot_t* const snapshot = dlsm_create_snapshot(db_);
  InChild([this, iterator, snapshot] {
    const auto expect_refused = [](const std::function<void(char**)>& call) {
      Error error;
      call(error.out());
      EXPECT_NE(error.text().find("fork()"), std::string::npos) << error.text();
    };
    size_t bytes = 0;
    expect_refused([&](char** e) { dlsm_put(db_, write_, "a", 1, "b", 1, e); });
    expect_refused([&](char** e) { dlsm_delete(db_, write_, "a", 1, e); });
    expect_refused([&](char** e) { EXPECT_EQ(dlsm_get(db_, read_, "a", 1, &bytes, e), nullptr); });
    expect_refused([&](char** e) { dlsm_flush(db_, e); });
    expect_refused([&](char** e) { dlsm_wait_for_background_work(db_, e); });
    expect_refused([&](char** e) { dlsm_flush_log(db_, 1, e); });
    expect_refused([&](char** e) { dlsm_wait_durable(db_, 0, e); });
    expect_refused([&](char** e) { dlsm_try_catch_up(db_, e); });
    expect_refused([&](char** e) { dlsm_compact_range_checked(db_, "", 0, "", 0, e); });
    dlsm_compact_range(db_, nullptr, 0, nullptr, 0);
    EXPECT_EQ(dlsm_iter_valid(iterator), 0);
    dlsm_iter_seek_to_last(iterator);
    expect_refused([&](char** e) { dlsm_iter_get_error(iterator, e); });
    dlsm_iter_destroy(iterator);
    dlsm_iterator_t* const another = dlsm_create_iterator(db_, read_);
    expect_refused([&](char** e) { dlsm_iter_get_error(another, e); });
    dlsm_iter_destroy(another);
    dlsm_release_snapshot(db_, snapshot);
    EXPECT_EQ(dlsm_property_value(db_, "dlsm.stats"), nullptr);
    expect_refused([&](char** e) { dlsm_close_checked(db_, e); });
    dlsm_cache_destroy(cache_);
  });
  EXPECT_EQ(dlsm_iter_valid(iterator), 1);
  dlsm_iter_destroy(iterator);
  dlsm_release_snapshot(db_, snapshot);
  EXPECT_EQ(Get("a"), "1");
}

}  // namespace
}  // namespace dlsm
