// How many reads have what they visit merged.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "db/test_database_testing.h"
#include "db/watched_calls_testing.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// To memory nodes that say that nothing merges there, and that so much of their processors is idle.
std::shared_ptr<NodeConnector> SaysIdle(const std::atomic<double>& share) {
  return std::make_shared<WatchedConnector>(
      [](uint16_t, Method, const Slice&) { return Status::OK(); }, std::function<bool()>(),
      [&share](Method method, const WatchedConnector::Send& send, std::string* reply,
               Deadline deadline) -> Status {
        DLSM_RETURN_IF_ERROR(send(reply, deadline));
        if (method != Method::kHeartbeat) return Status::OK();
        HeartbeatReply heartbeat;
        DLSM_RETURN_IF_ERROR(heartbeat.Decode(*reply));
        heartbeat.merges.running = heartbeat.merges.queued = 0;
        heartbeat.merges.cpu_idle = share.load();
        *reply = heartbeat.Encode();
        return Status::OK();
      });
}

// Two runs of the same keys lie in level 0. While nobody writes, an eighth of what their merge
// costs is enough, for it takes nothing from anybody; a quarter where others, such as these
// readers, want the memory node's processors. Fails if what lies between is enough there, or is not
// elsewhere.
TEST(MergesForReadsTest, TakeMoreReadsWhereProcessorsAreWanted) {
  constexpr uint64_t kKeys = 20000;
  // To merge a record of either run counts as four looks, and each read counts for both.
  constexpr uint64_t kEighth = 2 * kKeys * 4 / 2 / 8;
  constexpr auto kReportsCome = std::chrono::milliseconds(2500);
  std::atomic<double> idle{0};
  Options options = TinyOptions();
  const auto node = NodeServing("tcp", &options);
  options.compaction_style = CompactionStyle::kGuards;
  options.write_buffer_size = options.max_file_size = size_t{16} << 20;
  options.idle_size_amplification_percent = 0;
  options.node_connector = SaysIdle(idle);
  auto db = OpenOrDie(options, "reads");
  for (int run = 0; run < 2; ++run) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), std::to_string(run)));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
  }
  ASSERT_EQ(NumberProperty(db.get(), "dlsm.num-files-at-level0"), 2u);
  std::this_thread::sleep_for(kReportsCome);
  for (uint64_t i = 0; i < kEighth * 3 / 2; ++i) {
    ASSERT_EQ(GetOr(db.get(), NumberedKey(i % kKeys)), "1");
  }
  const auto merges = [&db] {
    return db->GetStatistics()->Get(Ticker::kMergesForReads) +
           db->GetStatistics()->Get(Ticker::kMergesDownForReads);
  };
  std::this_thread::sleep_for(kReportsCome);
  EXPECT_EQ(merges(), 0u);
  idle = 0.5;
  // Only where there are reads is it looked at again.
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(GetOr(db.get(), NumberedKey(0)), "1");
    return merges() > 0;
  }));
  CloseAndDestroy(&db, options, "reads");
}

}  // namespace
}  // namespace dlsm
