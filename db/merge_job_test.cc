#include "db/merge_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "db/fake_table_testing.h"
#include "db/placed_memory.h"
#include "table/node_queue_pairs.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

// Merges everything to nothing, and does something else meanwhile.
class FakeMerger final : public RpcClient {
 public:
  explicit FakeMerger(std::function<void()> meanwhile) : meanwhile_(std::move(meanwhile)) {}

  Status Call(Method method, const Slice& /*request*/, std::string* reply,
              Deadline /*deadline*/) override {
    if (method != Method::kMerge) return Status::NotSupported("it only merges");
    meanwhile_();
    MergeReply made;
    made.load.workers = 1;
    *reply = made.Encode();
    return Status::OK();
  }

 private:
  const std::function<void()> meanwhile_;
};

// Fails if what was sent while a merge was under way, of which its report may not know, counts as
// known: then everything would be sent to a memory node that was idle once.
TEST(MergeJobTest, ReportsAreNotTakenToKnowWhatWasSentMeanwhile) {
  constexpr uint64_t kSentMeanwhile = 1'000'000;
  MergeScheduler scheduler{MergeSchedulerOptions()};
  MergeLoadMonitor load(MergeLoadMonitor::Config(), &scheduler);
  FakeMerger rpc([&] { load.NoteSent(kSentMeanwhile); });
  Statistics statistics;
  PlacedMemory::Node place;
  place.rpc = &rpc;
  place.capacity_bytes = uint64_t{1} << 30;
  const auto memory = std::make_shared<PlacedMemory>(
      PlacedMemory::Config(), std::vector<PlacedMemory::Node>{place}, &statistics);
  NodeQueuePairs queue_pairs;
  const TableStore store(TableStore::Config(), &queue_pairs, memory, &statistics);
  MergeNode node;
  node.rpc = &rpc;
  node.load = &load;
  MergePick pick;
  pick.target_level = 1;
  pick.inputs = MakeFakeTables({{1, "a", "m", 20, 29}});
  pick.target_inputs = MakeFakeTables({{2, "c", "z", 10, 19}});
  const std::function<uint64_t()> number = [] { return uint64_t{7}; };
  const std::atomic<bool> cancelled{false};
  MergeOutcome outcome;
  ASSERT_OK(
      RunMerge(pick, MergeJobConfig(), {}, store, {node}, number, cancelled, &scheduler, &outcome));
  EXPECT_TRUE(outcome.remote);
  EXPECT_EQ(load.sent_bytes(), pick.input_bytes() + kSentMeanwhile);
  EXPECT_THAT(load.Describe(), HasSubstr("memory-node-bytes-sent-since 1000000\n"));
}

}  // namespace
}  // namespace dlsm
