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

// Answers merges as it is told.
class FakeAnswerer final : public RpcClient {
 public:
  Status Call(Method method, const Slice& request, std::string* reply,
              Deadline /*deadline*/) override {
    EXPECT_EQ(method, Method::kMerge);
    EXPECT_OK(asked.Decode(request));
    return answer(reply);
  }

  MergeRequest asked;  // Last.
  std::function<Status(std::string* reply)> answer;
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

// Fails if a merge without an answer that is of use does not count as lost, or one with it does; or
// if merges have numbers that are not their own.
TEST(MergeJobTest, MergesWithoutAnAnswerCountAsLost) {
  MergeScheduler scheduler{MergeSchedulerOptions()};
  MergeLoadMonitor load(MergeLoadMonitor::Config(), &scheduler);
  FakeAnswerer rpc;
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
  const std::function<uint64_t()> number = [] { return uint64_t{7}; };
  const std::atomic<bool> cancelled{false};
  const auto run = [&] {
    MergeOutcome outcome;
    return RunMerge(pick, MergeJobConfig(), {}, store, {node}, number, cancelled, &scheduler,
                    &outcome);
  };
  rpc.answer = [](std::string* reply) {
    *reply = MergeReply().Encode();
    return Status::OK();
  };
  ASSERT_OK(run());
  EXPECT_EQ(rpc.asked.number.own, 1u);
  EXPECT_EQ(rpc.asked.number.answers.awaited, std::vector<uint64_t>{1});
  EXPECT_TRUE(node.numbers->Answers().lost.empty());

  rpc.answer = [](std::string*) { return Status::TimedOut("the test gives no answer"); };
  EXPECT_TRUE(run().IsTimedOut());
  EXPECT_EQ(rpc.asked.number.own, 2u);
  EXPECT_EQ(node.numbers->Answers().lost, std::vector<uint64_t>{2});

  rpc.answer = [](std::string* reply) {
    *reply = "none that can be read";
    return Status::OK();
  };
  EXPECT_TRUE(run().IsCorruption());
  MergeReply foreign;
  foreign.outputs.push_back(pick.inputs.front()->meta());
  foreign.outputs.back().image.node = NodeId{77};
  rpc.answer = [&foreign](std::string* reply) {
    *reply = foreign.Encode();
    return Status::OK();
  };
  EXPECT_TRUE(run().IsCorruption());
  EXPECT_EQ(rpc.asked.number.own, 4u);
  EXPECT_EQ(rpc.asked.number.answers.lost, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(node.numbers->Answers().lost, (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_TRUE(node.numbers->Answers().awaited.empty());
}

}  // namespace
}  // namespace dlsm
