#include "util/fabric/adaptive_poll.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dlsm {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kMostPolled{50};

class AdaptivePollTest : public testing::Test {
 protected:
  // A wait that is answered while it polls, if it does; returns whether it did.
  bool Answered(AdaptivePoll& poll) {
    now_ += milliseconds(1);
    poll.Begin(now_);
    const bool polls = poll.MayPoll(now_);
    poll.End();
    return polls;
  }
  // One that is answered too late for that.
  bool Missed(AdaptivePoll& poll) {
    now_ += milliseconds(1);
    poll.Begin(now_);
    const bool polls = poll.MayPoll(now_);
    EXPECT_FALSE(poll.MayPoll(now_ + kMostPolled));
    poll.End();
    return polls;
  }

  PollGroup group_{kMostPolled, 2};
  AdaptivePoll::TimePoint now_{hours(1)};
};

// Fails if waits stop to poll while that pays, or poll beyond their time, or are counted wrongly.
TEST_F(AdaptivePollTest, PollsForItsTimeWhileThatPays) {
  AdaptivePoll poll(group_);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Answered(poll)) << i;
  EXPECT_EQ(group_.Counts().polled, 100u);
  EXPECT_EQ(group_.Counts().slept, 0u);
  poll.Begin(now_);
  EXPECT_TRUE(poll.MayPoll(now_ + kMostPolled - microseconds(1)));
  EXPECT_FALSE(poll.MayPoll(now_ + kMostPolled));
  EXPECT_FALSE(poll.MayPoll(now_));  // It sleeps now.
  poll.End();
  EXPECT_EQ(group_.Counts().slept, 1u);
}

// Fails if a thread whose answers always come late goes on paying for polling, or never tries again
// when they come in time.
TEST_F(AdaptivePollTest, SleepsWhileAnswersComeLateAndComesBack) {
  AdaptivePoll poll(group_);
  constexpr int kWaits = 100'000;
  int polled = 0;
  for (int i = 0; i < kWaits; ++i) polled += Missed(poll);
  EXPECT_GT(polled, kWaits / 2000);
  EXPECT_LT(polled, kWaits / 500);
  EXPECT_EQ(group_.Counts().slept, static_cast<uint64_t>(kWaits));

  int waits = 0;
  while (!Answered(poll)) ASSERT_LE(++waits, static_cast<int>(AdaptivePoll::kSkippedMax));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Answered(poll)) << i;
  // One late answer among many costs little.
  EXPECT_TRUE(Missed(poll));
  EXPECT_FALSE(Answered(poll));
  EXPECT_TRUE(Answered(poll));
}

// Fails if threads go on to give up the processor to a program that keeps it: each of their waits
// would then last as long as that computes at a time.
TEST_F(AdaptivePollTest, TheGroupSleepsAfterTheProcessorCameBackLate) {
  AdaptivePoll poll(group_);
  AdaptivePoll other(group_);
  poll.Begin(now_);
  ASSERT_TRUE(poll.MayPoll(now_));
  poll.GaveUpProcessor(now_, now_ + AdaptivePoll::kTurnMax);
  EXPECT_TRUE(poll.MayPoll(now_));  // That was in time.
  constexpr milliseconds kLate{3};
  poll.GaveUpProcessor(now_, now_ + kLate);
  EXPECT_FALSE(poll.MayPoll(now_));
  poll.End();
  const auto rested = now_ + kLate + AdaptivePoll::kRestShare * kLate;
  for (AdaptivePoll* each : {&poll, &other}) {
    for (int i = 0; i < 10; ++i) {
      each->Begin(rested - microseconds(1));
      EXPECT_FALSE(each->MayPoll(now_));
      each->End();
    }
  }
  other.Begin(rested);
  EXPECT_TRUE(other.MayPoll(rested));
  other.End();
}

// Fails if a process that was stopped for long, or whose machine was, sleeps for many times as long
// when it goes on.
TEST_F(AdaptivePollTest, AfterALongPauseTheGroupPollsSoon) {
  AdaptivePoll poll(group_);
  poll.Begin(now_);
  ASSERT_TRUE(poll.MayPoll(now_));
  const auto back = now_ + hours(1);
  poll.GaveUpProcessor(now_, back);
  EXPECT_FALSE(poll.MayPoll(back));
  poll.End();
  now_ = back + AdaptivePoll::kRestMax - milliseconds(2);
  EXPECT_FALSE(Answered(poll));
  EXPECT_TRUE(Answered(poll));
}

// Fails if a limit of looks is not one, holds for the next wait, too, or a wait that has used it up
// is not one that was not answered.
TEST_F(AdaptivePollTest, LooksMayBeLimited) {
  AdaptivePoll poll(group_);
  poll.Begin(now_);
  poll.LookAtMost(2);
  EXPECT_TRUE(poll.MayPoll(now_));
  EXPECT_TRUE(poll.MayPoll(now_));
  EXPECT_FALSE(poll.MayPoll(now_));
  poll.End();
  EXPECT_EQ(group_.Counts().slept, 1u);
  EXPECT_FALSE(Answered(poll));
  poll.Begin(now_);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(poll.MayPoll(now_));
  poll.End();
}

// Fails if more threads poll than there are processors, or if one that may not counts as a miss.
TEST_F(AdaptivePollTest, NoMoreThreadsPollThanThereAreProcessors) {
  AdaptivePoll first(group_);
  AdaptivePoll second(group_);
  AdaptivePoll third(group_);
  for (AdaptivePoll* each : {&first, &second, &third}) each->Begin(now_);
  EXPECT_TRUE(first.MayPoll(now_));
  EXPECT_TRUE(second.MayPoll(now_));
  EXPECT_FALSE(third.MayPoll(now_));
  for (AdaptivePoll* each : {&first, &second, &third}) each->End();
  EXPECT_TRUE(Answered(third));
}

TEST_F(AdaptivePollTest, NeverPollsWithoutTime) {
  PollGroup group(std::chrono::nanoseconds(0), 2);
  AdaptivePoll poll(group);
  for (int i = 0; i < 10; ++i) {
    poll.Begin();
    EXPECT_FALSE(poll.Again());
    poll.End();
  }
  EXPECT_EQ(group.Counts().polled, 0u);
  EXPECT_EQ(group.Counts().slept, 10u);
}

// Fails if a thread that sleeps until somebody wants something of it keeps others from polling, or
// counts twice when it is over.
TEST_F(AdaptivePollTest, WhoHasLeftDoesNotCount) {
  AdaptivePoll idle[2] = {AdaptivePoll(group_), AdaptivePoll(group_)};
  for (AdaptivePoll& poll : idle) poll.Begin(now_);
  AdaptivePoll poll(group_);
  EXPECT_FALSE(Answered(poll)) << "two wait already";
  idle[0].Leave();
  idle[0].Leave();
  EXPECT_TRUE(Answered(poll));
  for (AdaptivePoll& each : idle) each.End();
  AdaptivePoll others[2] = {AdaptivePoll(group_), AdaptivePoll(group_)};
  for (AdaptivePoll& each : others) each.Begin(now_);
  EXPECT_FALSE(Answered(poll)) << "two wait again";
  for (AdaptivePoll& each : others) each.End();
}

}  // namespace
}  // namespace dlsm
