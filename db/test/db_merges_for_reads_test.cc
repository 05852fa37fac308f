// When what reads visit is merged.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/background/read_merge_pacer.h"
#include "db/test/test_database_testing.h"
#include "db/test/watched_calls_testing.h"
#include "port/mutex.h"
#include "table/merge_messages.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

// A memory node that says that so much of its processors is idle, and whose merges take so long.
class SlowNode {
 public:
  struct Merge {
    Clock::time_point begun;
    Clock::time_point ended;
  };

  SlowNode(double idle, std::chrono::seconds takes) : idle_(idle), takes_(takes) {}

  std::shared_ptr<NodeConnector> Connector() {
    return std::make_shared<WatchedConnector>(
        [](uint16_t, Method, const Slice&) { return Status::OK(); }, std::function<bool()>(),
        [this](Method method, const WatchedConnector::Send& send, std::string* reply,
               Deadline deadline) {
          if (method == Method::kHeartbeat) return Heartbeat(send, reply, deadline);
          if (method == Method::kMerge) return RunMerge(send, reply, deadline);
          return send(reply, deadline);
        });
  }

  // That have been answered.
  std::vector<Merge> merges() const LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    return merges_;
  }
  bool has_reported() const LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    return has_reported_;
  }

 private:
  Status Heartbeat(const WatchedConnector::Send& send, std::string* reply, Deadline deadline)
      LOCKS_EXCLUDED(mutex_) {
    DLSM_RETURN_IF_ERROR(send(reply, deadline));
    HeartbeatReply heartbeat;
    DLSM_RETURN_IF_ERROR(heartbeat.Decode(*reply));
    Report(&heartbeat.merges);
    *reply = heartbeat.Encode();
    port::MutexLock lock(mutex_);
    has_reported_ = true;
    return Status::OK();
  }

  Status RunMerge(const WatchedConnector::Send& send, std::string* reply, Deadline deadline)
      LOCKS_EXCLUDED(mutex_) {
    Merge merge;
    merge.begun = Clock::now();
    std::this_thread::sleep_for(takes_);
    DLSM_RETURN_IF_ERROR(send(reply, deadline));
    MergeReply answer;
    DLSM_RETURN_IF_ERROR(answer.Decode(*reply));
    Report(&answer.load);
    *reply = answer.Encode();
    merge.ended = Clock::now();
    port::MutexLock lock(mutex_);
    merges_.push_back(merge);
    return Status::OK();
  }

  void Report(MergeLoad* load) const {
    load->running = load->queued = 0;
    load->cpu_idle = idle_;
  }

  const double idle_;
  const std::chrono::seconds takes_;
  mutable port::Mutex mutex_;
  std::vector<Merge> merges_ GUARDED_BY(mutex_);
  bool has_reported_ GUARDED_BY(mutex_) = false;
};

// When the next one may begin, if the merge was the first for a while: so long after its begin.
Clock::duration PaidFor(const SlowNode::Merge& merge) {
  return ReadMergePacer::kTimes * (merge.ended - merge.begun - ReadMergePacer::kBurst);
}

class MergesForReadsTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 4000;

  // A database in which nothing is merged but what reads ask for. `slow`, which outlives it, has
  // reported then.
  void Open(SlowNode* slow) {
    options_ = TinyOptions();
    node_ = NodeServing("tcp", &options_);
    options_.compaction_style = CompactionStyle::kGuards;
    options_.write_buffer_size = options_.max_file_size = size_t{16} << 20;
    options_.level0_file_num_compaction_trigger = 8;
    options_.level0_stop_writes_trigger = 16;
    options_.idle_size_amplification_percent = 0;
    options_.node_connector = slow->Connector();
    db_ = OpenOrDie(options_, "reads");
    ASSERT_TRUE(Eventually([&] { return slow->has_reported(); }));
  }
  void Close() { CloseAndDestroy(&db_, options_, "reads"); }

  // Two runs of all keys.
  void WriteTwice() {
    for (const char* const value : {"old", "new"}) {
      for (uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), value));
      }
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
  }
  void Read(uint64_t reads) {
    for (uint64_t i = 0; i < reads; ++i) {
      ASSERT_EQ(GetOr(db_.get(), NumberedKey(next_++ % kKeys)), "new");
    }
  }

  Options options_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> db_;
  uint64_t next_ = 0;
};

// Twice there is something to merge for reads, one soon after the other. Fails if merges take more
// than a tenth of the time where others, such as these readers, want the processors of the memory
// node, or no more than that where nobody does.
TEST_F(MergesForReadsTest, RestWhereOthersWantTheProcessors) {
  for (const bool wanted : {true, false}) {
    // Where the second one is to begin before it would have to, there is time for what comes first.
    SlowNode slow(wanted ? 0 : 0.5, std::chrono::seconds(wanted ? 1 : 3));
    ASSERT_NO_FATAL_FAILURE(Open(&slow));
    const auto merged_for_reads = [this] {
      return db_->GetStatistics()->Get(Ticker::kMergesForReads) +
             db_->GetStatistics()->Get(Ticker::kMergesDownForReads);
    };
    for (size_t merges = 1; merges <= 2; ++merges) {
      ASSERT_NO_FATAL_FAILURE(WriteTwice());
      while (slow.merges().size() < merges) ASSERT_NO_FATAL_FAILURE(Read(1000));
      ASSERT_TRUE(Eventually([&] { return merged_for_reads() == slow.merges().size(); }));
    }
    const std::vector<SlowNode::Merge> merges = slow.merges();
    EXPECT_EQ(merges[1].begun - merges[0].begun >= PaidFor(merges[0]), wanted);
    Close();
  }
}

// Fails if somebody who waits until nothing is due waits for the rests of what is.
TEST_F(MergesForReadsTest, DoNotRestWhileSomebodyWaitsForThem) {
  // So that the rest is longer than all that is done here, on a busy machine, too.
  SlowNode slow(0, std::chrono::seconds(3));
  ASSERT_NO_FATAL_FAILURE(Open(&slow));
  for (size_t merges = 1; merges <= 2; ++merges) {
    ASSERT_NO_FATAL_FAILURE(WriteTwice());
    // Twice as many as have both runs merged while nobody writes.
    ASSERT_NO_FATAL_FAILURE(Read(2 * kKeys));
    ASSERT_OK(db_->WaitForBackgroundWork());
    ASSERT_GE(slow.merges().size(), merges);
  }
  const std::vector<SlowNode::Merge> merges = slow.merges();
  EXPECT_LT(merges[1].begun - merges[0].begun, PaidFor(merges[0]));
  Close();
}

}  // namespace
}  // namespace dlsm
