// When what reads visit is merged.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/read_merge_pacer.h"
#include "db/test_database_testing.h"
#include "db/watched_calls_testing.h"
#include "port/mutex.h"
#include "table/merge_messages.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages.h"
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

// Twice there is something to merge for reads, one soon after the other. Fails if merges take more
// than a tenth of the time where others, such as these readers, want the processors of the memory
// node, or no more than that where nobody does.
TEST(MergesForReadsTest, RestWhereOthersWantTheProcessors) {
  constexpr uint64_t kKeys = 4000;
  for (const bool wanted : {true, false}) {
    // Where the second one is to begin before it would have to, there is time for what comes first.
    SlowNode slow(wanted ? 0 : 0.5, std::chrono::seconds(wanted ? 1 : 3));
    Options options = TinyOptions();
    const auto node = NodeServing("tcp", &options);
    options.compaction_style = CompactionStyle::kGuards;
    options.write_buffer_size = options.max_file_size = size_t{16} << 20;
    options.level0_file_num_compaction_trigger = 8;
    options.level0_stop_writes_trigger = 16;
    options.idle_size_amplification_percent = 0;
    options.node_connector = slow.Connector();
    auto db = OpenOrDie(options, "reads");
    ASSERT_TRUE(Eventually([&] { return slow.has_reported(); }));
    const auto merged_for_reads = [&db] {
      return db->GetStatistics()->Get(Ticker::kMergesForReads) +
             db->GetStatistics()->Get(Ticker::kMergesDownForReads);
    };
    for (size_t merges = 1; merges <= 2; ++merges) {
      for (const char* const value : {"old", "new"}) {
        for (uint64_t i = 0; i < kKeys; ++i) {
          ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value));
        }
        ASSERT_OK(db->Flush(FlushOptions()));
      }
      uint64_t key = 0;
      while (slow.merges().size() < merges) {
        for (int i = 0; i < 1000; ++i, ++key) {
          ASSERT_EQ(GetOr(db.get(), NumberedKey(key % kKeys)), "new");
        }
      }
      ASSERT_TRUE(Eventually([&] { return merged_for_reads() == slow.merges().size(); }));
    }
    const std::vector<SlowNode::Merge> merges = slow.merges();
    EXPECT_EQ(merges[1].begun - merges[0].begun >= PaidFor(merges[0]), wanted);
    CloseAndDestroy(&db, options, "reads");
  }
}

// Fails if somebody who waits until nothing is due waits for the rests of what is.
TEST(MergesForReadsTest, DoNotRestWhileSomebodyWaitsForThem) {
  // So that the rest is longer than all that is done here, on a busy machine, too.
  SlowNode slow(0, std::chrono::seconds(3));
  Options options = TinyOptions();
  const auto node = NodeServing("tcp", &options);
  options.compaction_style = CompactionStyle::kGuards;
  options.write_buffer_size = options.max_file_size = size_t{16} << 20;
  options.level0_file_num_compaction_trigger = 8;
  options.level0_stop_writes_trigger = 16;
  options.idle_size_amplification_percent = 0;
  options.node_connector = slow.Connector();
  auto db = OpenOrDie(options, "reads");
  ASSERT_TRUE(Eventually([&] { return slow.has_reported(); }));
  for (size_t merges = 1; merges <= 2; ++merges) {
    for (int run = 0; run < 2; ++run) {
      for (uint64_t i = 0; i < 4000; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), ""));
      ASSERT_OK(db->Flush(FlushOptions()));
    }
    // Twice as many as have both runs merged while nobody writes.
    for (uint64_t i = 0; i < 8000; ++i) GetOr(db.get(), NumberedKey(i % 4000));
    ASSERT_OK(db->WaitForBackgroundWork());
    EXPECT_GE(slow.merges().size(), merges);
  }
  const std::vector<SlowNode::Merge> merges = slow.merges();
  EXPECT_LT(merges[1].begun - merges[0].begun, PaidFor(merges[0]));
  CloseAndDestroy(&db, options, "reads");
}

}  // namespace
}  // namespace dlsm
