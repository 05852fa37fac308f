#include "db/merge/merge_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/nodes/placed_memory.h"
#include "db/test/fake_table_testing.h"
#include "table/node_queue_pairs.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

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

// One memory node, which merges everything to nothing unless a test has it answer otherwise.
class MergeJobTest : public testing::Test {
 protected:
  MergeJobTest() {
    PlacedMemory::Node place;
    place.rpc = &rpc_;
    place.capacity_bytes = uint64_t{1} << 30;
    const auto memory = std::make_shared<PlacedMemory>(
        PlacedMemory::Config(), std::vector<PlacedMemory::Node>{place}, &statistics_);
    store_.emplace(TableStore::Config(), &queue_pairs_, memory, &statistics_);
    node_.rpc = &rpc_;
    node_.load = &load_;
    pick_.target_level = 1;
    pick_.inputs = MakeFakeTables({{1, "a", "m", 20, 29}});
    rpc_.answer = [](std::string* reply) {
      *reply = MergeReply().Encode();
      return Status::OK();
    };
  }

  Status Run(MergeOutcome* outcome) {
    const MergeJobConfig config{};
    std::vector<MergeNode> nodes = {node_};
    nodes.insert(nodes.end(), others_.begin(), others_.end());
    const std::function<uint64_t()> number = [] { return uint64_t{7}; };
    const std::atomic<bool> cancelled{false};
    const MergeContext context{.config = config,
                               .store = *store_,
                               .nodes = nodes,
                               .new_table_number = number,
                               .cancelled = cancelled,
                               .scheduler = &scheduler_};
    return RunMerge(context, pick_, /*tombstones=*/nullptr, snapshots_, outcome);
  }
  Status Run() {
    MergeOutcome outcome;
    return Run(&outcome);
  }

  MergeScheduler scheduler_{MergeSchedulerOptions()};
  MergeLoadMonitor load_{MergeLoadMonitor::Config(), &scheduler_};
  FakeAnswerer rpc_;
  Statistics statistics_;
  NodeQueuePairs queue_pairs_;
  std::optional<TableStore> store_;
  MergeNode node_;
  std::vector<MergeNode> others_;
  MergePick pick_;
  std::vector<SequenceNumber> snapshots_;
};

// Fails if what was sent while a merge was under way, of which its report may not know, counts as
// known: then everything would be sent to a memory node that was idle once.
TEST_F(MergeJobTest, ReportsAreNotTakenToKnowWhatWasSentMeanwhile) {
  constexpr uint64_t kSentMeanwhile = 1'000'000;
  rpc_.answer = [this](std::string* reply) {
    load_.NoteSent(kSentMeanwhile);
    MergeReply made;
    made.load.workers = 1;
    *reply = made.Encode();
    return Status::OK();
  };
  pick_.target_inputs = MakeFakeTables({{2, "c", "z", 10, 19}});
  MergeOutcome outcome;
  ASSERT_OK(Run(&outcome));
  EXPECT_TRUE(outcome.remote);
  EXPECT_EQ(load_.sent_bytes(), pick_.input_bytes() + kSentMeanwhile);
  EXPECT_THAT(load_.Describe(), HasSubstr("memory-node-bytes-sent-since 1000000\n"));
}

// Fails if a merge without an answer that is of use does not count as lost, or one with it does; or
// if merges have numbers that are not their own.
TEST_F(MergeJobTest, MergesWithoutAnAnswerCountAsLost) {
  ASSERT_OK(Run());
  EXPECT_EQ(rpc_.asked.number.own, 1u);
  EXPECT_EQ(rpc_.asked.number.answers.awaited, std::vector<uint64_t>{1});
  EXPECT_TRUE(node_.numbers->Answers().lost.empty());

  rpc_.answer = [](std::string*) { return Status::TimedOut("the test gives no answer"); };
  EXPECT_TRUE(Run().IsTimedOut());
  EXPECT_EQ(rpc_.asked.number.own, 2u);
  EXPECT_EQ(node_.numbers->Answers().lost, std::vector<uint64_t>{2});

  rpc_.answer = [](std::string* reply) {
    *reply = "none that can be read";
    return Status::OK();
  };
  EXPECT_TRUE(Run().IsCorruption());
  MergeReply foreign;
  foreign.outputs.push_back(pick_.inputs.front()->meta());
  foreign.outputs.back().image.node = NodeId{77};
  rpc_.answer = [&foreign](std::string* reply) {
    *reply = foreign.Encode();
    return Status::OK();
  };
  EXPECT_TRUE(Run().IsCorruption());
  EXPECT_EQ(rpc_.asked.number.own, 4u);
  EXPECT_EQ(rpc_.asked.number.answers.lost, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(node_.numbers->Answers().lost, (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_TRUE(node_.numbers->Answers().awaited.empty());
}

// Fails if an answer that has been given up is used when it comes: what it names the memory node
// lets go of. Or if merges are asked for beyond that.
TEST_F(MergeJobTest, AnAnswerThatWasGivenUpIsNotUsed) {
  rpc_.answer = [this](std::string* reply) {
    node_.numbers->GiveUp();
    *reply = MergeReply().Encode();
    return Status::OK();
  };
  EXPECT_TRUE(Run().IsAborted());
  EXPECT_EQ(node_.numbers->Answers().lost, std::vector<uint64_t>{1});
  rpc_.answer = [](std::string*) {
    ADD_FAILURE() << "another merge is asked for";
    return Status::IOError("the test gives no answer");
  };
  EXPECT_TRUE(Run().IsAborted());
}

// Fails if a request names snapshots that decide nothing, of which there may be very many; or if
// one is missing that keeps a version, or, as the last one before all of them, a deletion.
TEST_F(MergeJobTest, OnlySnapshotsThatDecideAreNamed) {
  snapshots_ = {3, 5, 9, 10, 19, 20, 28, 29, 30, 1000};
  ASSERT_OK(Run());  // Of the versions 20 to 29.
  EXPECT_EQ(rpc_.asked.options.snapshots, (std::vector<SequenceNumber>{19, 20, 28}));
  pick_.target_inputs = MakeFakeTables({{2, "c", "z", 10, 19}});
  ASSERT_OK(Run());
  EXPECT_EQ(rpc_.asked.options.snapshots, (std::vector<SequenceNumber>{9, 10, 19, 20, 28}));
  snapshots_ = {29};
  ASSERT_OK(Run());
  EXPECT_TRUE(rpc_.asked.options.snapshots.empty());
}

// More snapshots live between the versions than a request can name. Fails if it is sent all the
// same, which the memory node would find malformed, time after time.
TEST_F(MergeJobTest, WhatNoRequestCanSayIsMergedHere) {
  constexpr SequenceNumber kFirst = 1000;
  constexpr SequenceNumber kSnapshots = (SequenceNumber{1} << 20) + 1;
  pick_.inputs = MakeFakeTables({{1, "a", "m", kFirst, kFirst + kSnapshots}});
  for (SequenceNumber i = 0; i < kSnapshots; ++i) snapshots_.push_back(kFirst + i);
  rpc_.answer = [](std::string*) {
    ADD_FAILURE() << "the memory node is asked";
    return Status::IOError("the test gives no answer");
  };
  MergeOutcome outcome;
  ASSERT_OK(Run(&outcome));
  EXPECT_FALSE(outcome.remote);
  EXPECT_EQ(statistics_.Get(Ticker::kPlacedRefused), 1u);
}

// The inputs are on more memory nodes than a request can name. Fails if it is sent all the same.
TEST_F(MergeJobTest, InputsOnTooManyNodesAreMergedHere) {
  constexpr uint32_t kNodes = kMergePeersMax + 2;
  std::vector<PlacedMemory::Node> places(kNodes);
  pick_.inputs.clear();
  for (uint32_t i = 0; i < kNodes; ++i) {
    places[i].id = NodeId{i};
    places[i].rpc = &rpc_;
    places[i].capacity_bytes = uint64_t{1} << 30;
    if (i > 0) {
      MergeNode& other = others_.emplace_back();
      other.rpc = &rpc_;
      other.load = &load_;
      other.as_peer.node = NodeId{i};
    }
    const std::string key = std::to_string(kNodes + i);
    TableMeta meta = FakeMeta({.number = i + 1, .smallest = key, .largest = key});
    meta.image.node = NodeId{i};
    pick_.inputs.push_back(
        std::make_shared<const Table>(std::make_unique<FakeTableReader>(meta), nullptr));
  }
  store_.emplace(TableStore::Config(), &queue_pairs_,
                 std::make_shared<PlacedMemory>(PlacedMemory::Config(), places, &statistics_),
                 &statistics_);
  rpc_.answer = [](std::string*) {
    ADD_FAILURE() << "a memory node is asked";
    return Status::IOError("the test gives no answer");
  };
  MergeOutcome outcome;
  ASSERT_OK(Run(&outcome));
  EXPECT_FALSE(outcome.remote);
  EXPECT_EQ(statistics_.Get(Ticker::kPlacedRefused), 1u);
}

}  // namespace
}  // namespace dlsm
