// Options::listeners: what an application is told about the work in the background.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/event_listener.h"
#include "db/test/held_flushes_testing.h"
#include "db/test/test_database_testing.h"
#include "port/mutex.h"
#include "util/eventually_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {
namespace {

constexpr char kListenedName[] = "listened to";

// Notes what it is told.
class Notes final : public EventListener {
 public:
  // Reads in each call: fails, by hanging, if a lock of the database is held then.
  void ReadFrom(DB* db) { db_ = db; }

  void OnFlushBegin(const FlushEvent& event) override {
    const port::MutexLock lock(mutex_);
    flush_begins_.push_back(event);
  }
  void OnFlushCompleted(const FlushEvent& event) override {
    if (db_ != nullptr) {
      std::string text;
      EXPECT_TRUE(db_.load()->GetProperty("dlsm.stats", &text));
      EXPECT_EQ(GetOr(db_, "no such key"), "(none)");
    }
    const port::MutexLock lock(mutex_);
    flushes_.push_back(event);
  }
  void OnCompactionBegin(const CompactionEvent& event) override {
    const port::MutexLock lock(mutex_);
    merge_begins_.push_back(event);
  }
  void OnCompactionCompleted(const CompactionEvent& event) override {
    const port::MutexLock lock(mutex_);
    merges_.push_back(event);
  }
  void OnStallConditionsChanged(const StallEvent& event) override {
    const port::MutexLock lock(mutex_);
    stalls_.push_back(event);
  }
  void OnBackgroundError(const BackgroundErrorEvent& event) override {
    const port::MutexLock lock(mutex_);
    errors_.push_back(event);
  }
  void OnDatabaseClosing(const std::string& db_name) override {
    const port::MutexLock lock(mutex_);
    EXPECT_EQ(db_name, kListenedName);
    ++closings_;
  }

  template <typename Event>
  std::vector<Event> Copy(std::vector<Event> Notes::*events) {
    const port::MutexLock lock(mutex_);
    return this->*events;
  }
  int closings() {
    const port::MutexLock lock(mutex_);
    return closings_;
  }

  // Guarded by mutex_.
  std::vector<FlushEvent> flush_begins_, flushes_;
  std::vector<CompactionEvent> merge_begins_, merges_;
  std::vector<StallEvent> stalls_;
  std::vector<BackgroundErrorEvent> errors_;

 private:
  std::atomic<DB*> db_{nullptr};
  port::Mutex mutex_;
  int closings_ GUARDED_BY(mutex_) = 0;
};

// Whether merges run on the memory node.
class EventListenerTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    options_ = node_.With(TinyOptions(), "shm");
    options_.compaction_place =
        GetParam() ? CompactionPlace::kMemoryNode : CompactionPlace::kComputeNode;
    options_.listeners = {notes_, nullptr};
    options_.fault_injector = std::make_shared<FaultInjector>();
    db_ = OpenOrDie(options_, kListenedName);
  }
  void TearDown() override {
    notes_->ReadFrom(nullptr);
    CloseAndDestroy(&db_, options_, kListenedName);
  }
  void Put(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), std::string(100, 'v')));
    }
  }

  TestNode node_;
  const std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
  Options options_;
  std::unique_ptr<DB> db_;
};

// Fails if a flush or a merge is not told, is told twice, or is told with other numbers than the
// counters have.
TEST_P(EventListenerTest, FlushesAndMerges) {
  notes_->ReadFrom(db_.get());
  for (int round = 0; round < 6; ++round) {
    ASSERT_NO_FATAL_FAILURE(Put(0, 500));
    ASSERT_OK(db_->Flush(FlushOptions()));
  }
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_OK(db_->WaitForBackgroundWork());
  const std::shared_ptr<Statistics> counts = db_->GetStatistics();
  const auto flushes = notes_->Copy(&Notes::flushes_);
  EXPECT_EQ(flushes.size(), counts->Get(Ticker::kFlushes));
  EXPECT_EQ(notes_->Copy(&Notes::flush_begins_).size(), flushes.size());
  uint64_t bytes = 0;
  for (const FlushEvent& event : flushes) {
    EXPECT_EQ(event.db_name, kListenedName);
    EXPECT_EQ(event.shard, 0u);
    EXPECT_OK(event.status);
    EXPECT_EQ(event.tables > 0, event.bytes > 0);
    bytes += event.bytes;
  }
  EXPECT_EQ(bytes, counts->Get(Ticker::kFlushBytes));
  EXPECT_GT(bytes, 0u);
  const auto merges = notes_->Copy(&Notes::merges_);
  EXPECT_EQ(notes_->Copy(&Notes::merge_begins_).size(), merges.size());
  uint64_t merged = 0, written = 0;
  for (const CompactionEvent& event : merges) {
    EXPECT_OK(event.status);
    EXPECT_GT(event.inputs, 0u);
    EXPECT_GE(event.target_level, event.level);
    if (event.trivial_move) continue;
    ++merged;
    written += event.bytes_written;
    EXPECT_EQ(event.place, GetParam() ? EventPlace::kMemoryNode : EventPlace::kComputeNode);
    EXPECT_GT(event.outputs, 0u);
    EXPECT_GT(event.input_bytes, 0u);
  }
  EXPECT_GT(merged, 0u);
  EXPECT_EQ(merged, counts->Get(Ticker::kMergesRemote) + counts->Get(Ticker::kMergesLocal));
  EXPECT_EQ(written, counts->Get(Ticker::kMergeBytesWritten));
  EXPECT_TRUE(notes_->Copy(&Notes::errors_).empty());
}

// Fails if an error of a flush is not told, or the flush that has failed has no end.
TEST_P(EventListenerTest, Errors) {
  ASSERT_NO_FATAL_FAILURE(Put(0, 100));
  options_.fault_injector->OnlyPurpose(Purpose::kFlush);
  options_.fault_injector->SetProbability(FaultKind::kFail, 1);
  FlushOptions at_once;
  at_once.wait = false;
  ASSERT_OK(db_->Flush(at_once));
  ASSERT_TRUE(Eventually([this] { return !notes_->Copy(&Notes::errors_).empty(); }));
  options_.fault_injector->Clear();
  ASSERT_OK(db_->Flush(FlushOptions()));
  const BackgroundErrorEvent error = notes_->Copy(&Notes::errors_).front();
  EXPECT_EQ(error.kind, BackgroundWorkKind::kFlush);
  EXPECT_TRUE(error.status.IsIOError()) << error.status.ToString();
  EXPECT_EQ(error.db_name, kListenedName);
  const auto flushes = notes_->Copy(&Notes::flushes_);
  EXPECT_EQ(notes_->Copy(&Notes::flush_begins_).size(), flushes.size());
  EXPECT_TRUE(std::ranges::any_of(flushes, [](const auto& each) { return !each.status.ok(); }));
  EXPECT_TRUE(std::ranges::any_of(flushes, [](const auto& each) { return each.status.ok(); }));
}

// Fails if it is not told that writers stop, or that they go on.
TEST_P(EventListenerTest, Stalls) {
  {
    const HeldFlushes held;
    WriteOptions at_once;
    at_once.no_slowdown = true;
    Status status;
    for (uint64_t i = 0; status.ok(); ++i) {
      status = db_->Put(at_once, NumberedKey(i), std::string(1000, 'v'));
    }
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
  }
  ASSERT_OK(db_->WaitForBackgroundWork());
  const auto stalls = notes_->Copy(&Notes::stalls_);
  ASSERT_GE(stalls.size(), 2u);
  EXPECT_EQ(stalls.front().previous, StallCondition::kNormal);
  EXPECT_EQ(stalls.front().current, StallCondition::kStopped);
  EXPECT_EQ(stalls.back().current, StallCondition::kNormal);
}

// Fails if closing is not told, is told again, or comes before what it does.
TEST_P(EventListenerTest, Closing) {
  ASSERT_NO_FATAL_FAILURE(Put(0, 100));
  EXPECT_EQ(notes_->closings(), 0);
  ASSERT_OK(db_->Close());
  EXPECT_EQ(notes_->closings(), 1);
  EXPECT_FALSE(notes_->Copy(&Notes::flushes_).empty()) << "by the work of closing";
  db_.reset();
  EXPECT_EQ(notes_->closings(), 1);
  EXPECT_OK(DestroyDB(kListenedName, options_));
}

INSTANTIATE_TEST_SUITE_P(Places, EventListenerTest, testing::Bool(), [](const auto& place) {
  return std::string(place.param ? "MemoryNode" : "ComputeNode");
});

// Fails if a listener's exception leaves the call that it was made in.
TEST(EventListenerDeathTest, AListenerThatThrowsEndsTheProcess) {
  class Throws final : public EventListener {
    void OnDatabaseClosing(const std::string&) override { throw 1; }
  };
  const auto close_one = [] {
    Options options = TinyOptions();
    options.listeners = {std::make_shared<Throws>()};
    const std::unique_ptr<DB> db = OpenOrDie(options, "throws");
    db->Close().PermitUncheckedError();
  };
  EXPECT_DEATH(close_one(), "");
}

}  // namespace
}  // namespace dlsm
