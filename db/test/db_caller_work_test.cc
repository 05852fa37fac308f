// What a caller waits for is done by its own thread where it calls the application's code: a
// comparator or filter policy may take a lock that the caller holds, as the lock of an interpreter
// whose functions they are.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dLSM/filter_policy.h"
#include "dLSM/statistics.h"
#include "db/test/test_database_testing.h"
#include "port/sync_point.h"
#include "util/watchdog_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kCallerKeys = 400;

// The lock, and how often somebody took it who was not its holder.
struct InterpreterLock {
  void Take() const {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    if (std::this_thread::get_id() != owner.load()) ++taken_by_others;
  }

  mutable std::recursive_mutex mutex;
  std::atomic<std::thread::id> owner;
  mutable std::atomic<uint64_t> taken_by_others{0};
};

class LockingComparator final : public Comparator {
 public:
  explicit LockingComparator(const InterpreterLock* lock) : lock_(lock) {}
  int Compare(const Slice& a, const Slice& b) const override {
    lock_->Take();
    return a.compare(b);
  }
  const char* Name() const override { return "test.Locking"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {
    lock_->Take();
  }
  void FindShortSuccessor(std::string* /*key*/) const override {}

 private:
  const InterpreterLock* const lock_;
};

class LockingFilterPolicy final : public FilterPolicy {
 public:
  explicit LockingFilterPolicy(const InterpreterLock* lock) : lock_(lock) {}
  const char* Name() const override { return "test.LockingFilter"; }
  void CreateFilter(const Slice* /*keys*/, int n, std::string* filter) const override {
    lock_->Take();
    filter->append(static_cast<size_t>(n), 'x');
  }
  bool KeyMayMatch(const Slice& /*key*/, const Slice& /*filter*/) const override {
    lock_->Take();
    return true;
  }

 private:
  const InterpreterLock* const lock_;
};

enum class Own { kComparator, kFilterPolicy };

struct CallerShape {
  const char* name;
  Own own;
  TableFormat format = TableFormat::kByteAddressable;
  CompactionStyle style = CompactionStyle::kGuards;
  int shards = 1;
};
void PrintTo(const CallerShape& shape, std::ostream* out) { *out << shape.name; }

class CallerWorkTest : public testing::TestWithParam<CallerShape> {
 protected:
  // Nothing is due by itself: a thread that the application's code keeps has begun before.
  void SetUp() override {
    options_ = TinyOptions();
    options_.write_buffer_size = size_t{4} << 20;
    options_.level0_file_num_compaction_trigger = 100;
    options_.level0_stop_writes_trigger = 200;
    options_.max_tables_per_guard = 100;
    options_.max_bytes_for_level_base = uint64_t{64} << 20;
    options_.idle_size_amplification_percent = 0;
    options_.max_subcompactions = 4;
    options_.table_format = GetParam().format;
    options_.compaction_style = GetParam().style;
    for (int i = 1; i < GetParam().shards; ++i) {
      options_.shard_boundaries.push_back(NumberedKey(kCallerKeys * static_cast<uint64_t>(i) /
                                                      static_cast<uint64_t>(GetParam().shards)));
    }
    options_.shards = GetParam().shards;
    if (GetParam().own == Own::kComparator) options_.comparator = &comparator_;
    if (GetParam().own == Own::kFilterPolicy) options_.filter_policy = &policy_;
    lock_.owner = std::this_thread::get_id();
  }
  // Of several tables when they are merged, so that merges have several parts.
  static std::string Padded(const std::string& value) { return value + std::string(1000, '.'); }
  void PutAll(const char* value) {
    for (uint64_t i = 0; i < kCallerKeys; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), Padded(value)));
    }
  }
  void CheckAll(const char* value) {
    for (uint64_t i = 0; i < kCallerKeys; i += 13) {
      ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), Padded(value));
    }
  }

  static constexpr char kName[] = "caller work";
  InterpreterLock lock_;
  const LockingComparator comparator_{&lock_};
  const LockingFilterPolicy policy_{&lock_};
  Options options_;
  std::unique_ptr<DB> db_;
};

INSTANTIATE_TEST_SUITE_P(
    Shapes, CallerWorkTest,
    testing::Values(CallerShape{"Comparator", Own::kComparator},
                    CallerShape{"ComparatorBlocks", Own::kComparator, TableFormat::kBlockBased},
                    CallerShape{"ComparatorLeveled", Own::kComparator,
                                TableFormat::kByteAddressable, CompactionStyle::kLeveled},
                    CallerShape{"ComparatorTiered", Own::kComparator, TableFormat::kByteAddressable,
                                CompactionStyle::kTiered},
                    CallerShape{"ComparatorSizeTiered", Own::kComparator,
                                TableFormat::kByteAddressable, CompactionStyle::kSizeTiered},
                    CallerShape{"ComparatorShards", Own::kComparator, TableFormat::kByteAddressable,
                                CompactionStyle::kGuards, 3},
                    CallerShape{"FilterPolicy", Own::kFilterPolicy},
                    CallerShape{"FilterPolicyShards", Own::kFilterPolicy,
                                TableFormat::kByteAddressable, CompactionStyle::kGuards, 3}),
    [](const auto& shape) { return std::string(shape.param.name); });

// Hangs if a caller that holds the lock waits for another thread that needs it. Fails if that
// thread comes by when the lock is free.
TEST_P(CallerWorkTest, ACallerThatHoldsALockOfTheObjectsGetsOn) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const std::lock_guard<std::recursive_mutex> held(lock_.mutex);
  WriteOptions synced;
  synced.sync = true;
  for (const bool calls_close : {true, false}) {
    db_ = OpenOrDie(options_, kName);
    PutAll("first");
    ASSERT_OK(db_->Flush(FlushOptions()));
    PutAll("second");
    ASSERT_OK(db_->Put(synced, NumberedKey(0), Padded("second")));
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    CheckAll("second");
    PutAll("third");
    if (calls_close) {
      ASSERT_OK(db_->Close());
    }
    db_.reset();
    db_ = OpenOrDie(options_, kName);
    CheckAll("third");
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    EXPECT_GT(db_->GetStatistics()->Get(Ticker::kMergesLocal), 0u);
    CloseAndDestroy(&db_, options_, kName);
  }
  EXPECT_EQ(lock_.taken_by_others, 0u);
}

// A merge becomes due while the caller holds the lock: by what CompactRange() flushes, and by what
// Close() does. Hangs if a thread begins it then, at the latest between Close()'s steps.
TEST_P(CallerWorkTest, WhatBecomesDueMeanwhileIsNotBegun) {
  const Watchdog watchdog(std::chrono::seconds(60));
  port::SyncPointHookOfProcess() = [](const char* place) {
    if (place != std::string_view("close: flushed")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Time to look for work.
  };
  options_.compaction_style = CompactionStyle::kLeveled;
  options_.level0_file_num_compaction_trigger = 2;
  {
    const std::lock_guard<std::recursive_mutex> held(lock_.mutex);
    db_ = OpenOrDie(options_, kName);
    PutAll("first");
    ASSERT_OK(db_->Flush(FlushOptions()));
    PutAll("second");
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    PutAll("third");
    ASSERT_OK(db_->Flush(FlushOptions()));
    PutAll("fourth");
    ASSERT_OK(db_->Close());
  }
  port::SyncPointHookOfProcess() = nullptr;
  db_ = OpenOrDie(options_, kName);
  CheckAll("fourth");
  ASSERT_OK(db_->WaitForBackgroundWork());
  EXPECT_EQ(NumberProperty(db_.get(), "dlsm.num-files-at-level0"), 0u);
  CheckAll("fourth");
  CloseAndDestroy(&db_, options_, kName);
}

// Fails if the threads, which hold mutexes meanwhile, call the application's code to find out that
// there is nothing to do: a caller that holds the lock would wait for them.
TEST_P(CallerWorkTest, ThreadsWithoutWorkNeedNoObjects) {
  db_ = OpenOrDie(options_, kName);
  for (const char* value : {"first", "second", "third"}) {
    PutAll(value);
    ASSERT_OK(db_->Flush(FlushOptions()));
    if (value == std::string("second")) {
      ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    }
  }
  ASSERT_OK(db_->WaitForBackgroundWork());  // They look for work many times.
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, kName);
  CheckAll("third");
  ASSERT_OK(db_->WaitForBackgroundWork());
  EXPECT_EQ(lock_.taken_by_others, 0u);
  CloseAndDestroy(&db_, options_, kName);
}

// Many threads write and flush while merges are due all the time. Fails if what is left to callers
// is done by nobody, or twice.
TEST_P(CallerWorkTest, CallersAndThreadsShareTheWork) {
  const Watchdog watchdog(std::chrono::seconds(120));
  options_.level0_file_num_compaction_trigger = 2;
  options_.level0_stop_writes_trigger = 4;
  options_.max_tables_per_guard = 2;
  options_.write_buffer_size = size_t{256} << 10;
  db_ = OpenOrDie(options_, kName);
  constexpr uint64_t kThreads = 4;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      WriteOptions synced;
      synced.sync = true;
      for (uint64_t round = 0; round < 12; ++round) {
        for (uint64_t i = t; i < kCallerKeys; i += kThreads) {
          ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), Padded(std::to_string(round))));
        }
        ASSERT_OK(db_->Put(synced, NumberedKey(t), Padded(std::to_string(round))));
        if (round % 4 == t) {
          ASSERT_OK(db_->CompactRange(nullptr, nullptr));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CheckAll("11");
  ASSERT_OK(db_->WaitForBackgroundWork());
  EXPECT_GT(db_->GetStatistics()->Get(Ticker::kMergesLocal), 0u);
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, kName);
  CheckAll("11");
  CloseAndDestroy(&db_, options_, kName);
}

}  // namespace
}  // namespace dlsm
