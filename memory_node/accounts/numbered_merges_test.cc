// Merges that are given up before, while and after they run, and messages in any order.
#include "memory_node/accounts/numbered_merges.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

ByteRanges OutputOf(uint64_t number) {
  ByteRanges output;
  output.Add(ByteRange{number * 128, number * 128 + 64});
  return output;
}

// A client and a memory node, and between them a network that keeps messages back, lets them
// overtake each other, delivers some of them twice and loses answers.
class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {}

  void Step() {
    switch (random_.Uniform(6)) {
      case 0:
        return Ask();
      case 1:
        return SendHeartbeat();
      case 2:
        return EndOne();
      case 3:
        return GiveUpOne();
      default:
        return Deliver();
    }
  }

  // The network heals; nothing that was lost may be left, and nothing else may be missing.
  void Finish() {
    while (!awaited_.empty()) GiveUp(*awaited_.begin());
    while (!network_.empty()) Deliver();
    while (!running_.empty()) EndOne();
    Hear(Answers());
    EXPECT_EQ(held_, arrived_);
    EXPECT_TRUE(node_.outputs().empty());
    for (uint64_t number = 1; number < next_; ++number) {
      EXPECT_TRUE(node_.Begin(number).IsAborted()) << number;
    }
  }

  size_t lost_after_the_end() const { return lost_after_the_end_; }
  size_t came_too_late() const { return came_too_late_; }

 private:
  struct Message {
    MergeAnswers answers;
    uint64_t number = 0;  // Of the merge that it asks for; 0: it is a heartbeat.
  };

  MergeAnswers Answers() const {
    MergeAnswers answers;
    answers.next = next_;
    answers.awaited.assign(awaited_.begin(), awaited_.end());
    answers.lost.assign(untold_.begin(), untold_.end());
    return answers;
  }
  void Ask() {
    const uint64_t number = next_++;
    awaited_.insert(number);
    network_.push_back({Answers(), number});
  }
  void SendHeartbeat() { network_.push_back({Answers(), 0}); }

  void Deliver() {
    if (network_.empty()) return;
    const size_t at = random_.Uniform(network_.size());
    const Message message = network_[at];
    if (!random_.OneIn(4)) network_.erase(network_.begin() + static_cast<ptrdiff_t>(at));
    Hear(message.answers);
    if (message.number == 0) {
      if (random_.OneIn(2)) return;  // The answer is lost.
      for (const uint64_t number : message.answers.lost) untold_.erase(number);
      return;
    }
    const Status begun = node_.Begin(message.number);
    if (begun.ok()) {
      EXPECT_TRUE(ever_begun_.insert(message.number).second) << message.number;
      running_.insert(message.number);
    } else {
      EXPECT_TRUE(begun.IsAborted()) << begun.ToString();
      if (!ever_begun_.contains(message.number)) ++came_too_late_;
    }
  }

  // At the memory node.
  void Hear(const MergeAnswers& answers) {
    NumberedMerges::Settlement settlement = node_.SettlementOf(answers);
    const ByteRanges freed = settlement.lost;
    node_.Settle(std::move(settlement));
    for (const auto& [begin, end] : freed.ranges()) {
      const uint64_t number = begin / 128;
      EXPECT_EQ(end, begin + 64);
      EXPECT_TRUE(lost_.contains(number)) << number;
      EXPECT_EQ(held_.erase(number), 1u) << number;
    }
  }
  void EndOne() {
    if (running_.empty()) return;
    const uint64_t number = *running_.begin();
    running_.erase(running_.begin());
    if (!node_.IsAwaited(number)) {
      EXPECT_TRUE(lost_.contains(number)) << number;
      return;
    }
    node_.Kept(number, OutputOf(number));
    held_.insert(number);
    if (!awaited_.contains(number)) return;  // It has been given up.
    if (random_.OneIn(3)) {
      ++lost_after_the_end_;
      GiveUp(number);
    } else {
      awaited_.erase(number);
      arrived_.insert(number);
    }
  }
  void GiveUpOne() {
    if (awaited_.empty()) return;
    const auto at = static_cast<ptrdiff_t>(random_.Uniform(awaited_.size()));
    GiveUp(*std::next(awaited_.begin(), at));
  }
  void GiveUp(uint64_t number) {
    awaited_.erase(number);
    lost_.insert(number);
    untold_.insert(number);
  }

  Random random_;
  // The client.
  uint64_t next_ = 1;
  std::set<uint64_t> awaited_;
  std::set<uint64_t> arrived_;
  std::set<uint64_t> lost_;
  std::set<uint64_t> untold_;  // Of these, as far as the client knows.
  // What is on its way.
  std::vector<Message> network_;
  // The memory node.
  NumberedMerges node_;
  std::set<uint64_t> ever_begun_;
  std::set<uint64_t> running_;
  std::set<uint64_t> held_;  // Whose outputs are the session's.

  size_t lost_after_the_end_ = 0;
  size_t came_too_late_ = 0;
};

// Fails if there is an order of messages in which a merge is carried out twice, or after it was
// given up for good; in which what it has made stays though its answer was lost, or goes though it
// has arrived.
TEST(NumberedMergesTest, AnyOrderOfMessagesComesToTheSame) {
  size_t lost_after_the_end = 0;
  size_t came_too_late = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Simulation simulation(seed);
    for (int step = 0; step < 300; ++step) simulation.Step();
    simulation.Finish();
    if (testing::Test::HasFailure()) return;
    lost_after_the_end += simulation.lost_after_the_end();
    came_too_late += simulation.came_too_late();
  }
  EXPECT_GT(lost_after_the_end, 100u);
  EXPECT_GT(came_too_late, 100u);
}

}  // namespace
}  // namespace dlsm
