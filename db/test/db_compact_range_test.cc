// CompactRange beside merges from above, which write anew, where they lie, tables that it is about.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "port/sync_point.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {
namespace {

// Holds merges up before they are sent to the memory node: those of the thread that compacts, or
// all others.
class MergeGates {
 public:
  class Gate {
   public:
    // From now on, until Open().
    void Close() {
      came_ = 0;
      closed_ = true;
    }
    void Open() { closed_ = false; }
    // Since it was closed, and were held.
    int came() const { return came_; }

    void Pass() {
      if (!closed_) return;
      ++came_;
      EXPECT_TRUE(Eventually([this] { return !closed_; })) << "a merge was held for too long";
    }

   private:
    std::atomic<bool> closed_{false};
    std::atomic<int> came_{0};
  };

  Gate& of_compaction() { return of_compaction_; }
  Gate& of_others() { return of_others_; }
  // Of the calling thread.
  static void NoteCompacts() { compacts_ = true; }

  std::shared_ptr<NodeConnector> Connector() {
    return std::make_shared<WatchedConnector>([this](uint16_t, Method method, const Slice&) {
      if (method == Method::kMerge) (compacts_ ? of_compaction_ : of_others_).Pass();
      return Status::OK();
    });
  }

 private:
  static inline thread_local bool compacts_ = false;
  Gate of_compaction_;
  Gate of_others_;
};

// While there is one, counts how often the compaction has looked for merges. One at a time.
class CountedLooks {
 public:
  CountedLooks() {
    by_compaction_ = 0;
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::strcmp(place, "compaction: picked") == 0) ++by_compaction_;
    };
  }
  ~CountedLooks() { port::SyncPointHookOfProcess() = nullptr; }
  CountedLooks(const CountedLooks&) = delete;
  CountedLooks& operator=(const CountedLooks&) = delete;

  int by_compaction() const { return by_compaction_; }

 private:
  static inline std::atomic<int> by_compaction_{0};
};

class CompactRangeTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 6000;

  // All keys in level 2, and two tables in level 1 that hide some of them: those from `first` on,
  // and those from `second` on. Level 0 is merged as soon as it has two tables.
  void Open(CompactionStyle style, uint64_t first, uint64_t second) {
    options_ = TinyOptions();
    options_.compaction_style = style;
    options_.max_bytes_for_level_base = uint64_t{1} << 20;
    options_.max_subcompactions = 1;  // A merge runs in the thread that has picked it.
    node_ = NodeServing("tcp", &options_);
    options_.node_connector = gates_.Connector();
    db_ = OpenOrDie(options_, "compacted");
    Write(0, kKeys);
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    ASSERT_OK(db_->WaitForBackgroundWork());
    ASSERT_EQ(TablesAt(0) + TablesAt(1), 0u);
    ASSERT_GT(TablesAt(2), 0u);
    Write(first, 20);
    Write(second, 20);
    ASSERT_OK(db_->WaitForBackgroundWork());
    ASSERT_EQ(TablesAt(0), 0u);
    ASSERT_GT(TablesAt(1), 0u);
  }
  void Close() {
    CloseAndDestroy(&db_, options_, "compacted");
    node_.reset();
  }

  // One memtable, unless there are many.
  void Write(uint64_t first, uint64_t count) {
    for (uint64_t i = first; i < first + count; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), std::string(250, 'v')));
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
  }

  uint64_t TablesAt(int level) {
    return NumberProperty(db_.get(), "dlsm.num-files-at-level" + std::to_string(level));
  }

  // In a thread of its own, until Join().
  void StartCompactRange(uint64_t first, uint64_t last) {
    compaction_ = std::thread([this, first, last] {
      MergeGates::NoteCompacts();
      const std::string begin = NumberedKey(first);
      const std::string end = NumberedKey(last);
      const Slice begin_key = begin;
      const Slice end_key = end;
      EXPECT_OK(db_->CompactRange(&begin_key, &end_key));
    });
  }

  Options options_;
  MergeGates gates_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> db_;
  std::thread compaction_;
};

// A merge out of level 0 is under way that takes along what is asked for, though nothing of level 0
// is. Fails if its output does not count as asked for, so that nothing goes down: old versions
// would stay, and in two levels.
TEST_F(CompactRangeTest, TakesFurtherDownWhatAnotherMergeHasWrittenAnew) {
  for (const CompactionStyle style : {CompactionStyle::kLeveled, CompactionStyle::kFullLeveling}) {
    SCOPED_TRACE(static_cast<int>(style));
    ASSERT_NO_FATAL_FAILURE(Open(style, 3000, 3020));
    const CountedLooks looks;
    gates_.of_others().Close();
    Write(0, 10);
    Write(kKeys - 10, 10);
    const bool others_merge = Eventually([this] { return gates_.of_others().came() > 0; });
    StartCompactRange(3000, 3039);
    // It has found nothing in level 0, and in level 1 what it must wait for.
    const bool waits = Eventually([&looks] { return looks.by_compaction() >= 2; });
    gates_.of_others().Open();
    compaction_.join();
    EXPECT_TRUE(others_merge && waits);
    ASSERT_OK(db_->WaitForBackgroundWork());
    EXPECT_EQ(TablesAt(0) + TablesAt(1), 0u);
    EXPECT_EQ(NumberProperty(db_.get(), "dlsm.entries"), kKeys);
    Close();
  }
}

// While one table of level 1 is taken down, the other one is merged with what comes from above.
// Fails if the compaction leaves that, or goes after it for as long as somebody writes.
TEST_F(CompactRangeTest, FollowsMergesFromAboveButNotForEver) {
  for (const int merges : {2, 12}) {
    SCOPED_TRACE(merges);
    ASSERT_NO_FATAL_FAILURE(Open(CompactionStyle::kLeveled, 1000, 3000));
    gates_.of_compaction().Close();
    StartCompactRange(0, kKeys);
    bool as_meant = Eventually([this] { return gates_.of_compaction().came() > 0; });
    for (int i = 0; i < merges; ++i) {
      Write(3000, 10);
      Write(3005, 10);
      as_meant = as_meant && Eventually([this] { return TablesAt(0) == 0; });
    }
    const uint64_t tables_before = TablesAt(1);
    gates_.of_compaction().Open();
    compaction_.join();
    EXPECT_TRUE(as_meant);
    EXPECT_EQ(tables_before, 2u);
    EXPECT_EQ(TablesAt(1), merges == 2 ? 0u : 1u);
    Close();
  }
}

}  // namespace
}  // namespace dlsm
