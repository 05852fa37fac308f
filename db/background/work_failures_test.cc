#include "db/background/work_failures.h"

#include <gtest/gtest.h>

#include <chrono>

#include "port/manual_clock_testing.h"

namespace dlsm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

Status Failure() { return Status::IOError("cable cut"); }

class WorkFailuresTest : public testing::Test {
 protected:
  void Fail(int times) {
    for (int i = 0; i < times; ++i) failures_.Note(Failure());
  }
  // After one more failure, until it is tried again.
  milliseconds NextPause() {
    Fail(1);
    return std::chrono::duration_cast<milliseconds>(failures_.retry_at() - clock_.Now());
  }

  port::ManualClock clock_;
  WorkFailures failures_;
};

// Fails if failures are not counted since the last success, or the first of them is not told apart
// from those that follow, which nobody needs to hear of again.
TEST_F(WorkFailuresTest, CountsThemSinceTheLastSuccess) {
  EXPECT_FALSE(failures_.any());
  EXPECT_TRUE(failures_.last().ok());
  const auto first = clock_.Now();
  EXPECT_TRUE(failures_.Note(Failure()));
  clock_.Advance(seconds(1));
  EXPECT_FALSE(failures_.Note(Status::TimedOut("late")));
  EXPECT_TRUE(failures_.any());
  EXPECT_EQ(failures_.count(), 2);
  EXPECT_TRUE(failures_.since() == first) << "not when the last one was";
  EXPECT_TRUE(failures_.last().IsTimedOut());

  EXPECT_FALSE(failures_.Note(Status::OK()));
  EXPECT_FALSE(failures_.any());
  EXPECT_TRUE(failures_.last().ok());
  EXPECT_TRUE(failures_.Note(Failure()));
  EXPECT_EQ(failures_.count(), 1);
  EXPECT_TRUE(failures_.since() == clock_.Now());
}

// Fails if work that goes on failing is tried as often as at first, or ever more rarely without a
// bound; or if what has succeeded meanwhile has to wait as if it had not.
TEST_F(WorkFailuresTest, PausesGrowToABoundAndBeginAnewAfterASuccess) {
  for (const int expected_ms : {50, 100, 200, 400, 800, 1600, 2000, 2000}) {
    EXPECT_EQ(NextPause().count(), expected_ms);
  }
  Fail(100);
  EXPECT_EQ(NextPause().count(), 2000);
  failures_.Note(Status::OK());
  EXPECT_EQ(NextPause().count(), 50);
}

// Fails if work is tried too early, or not when it is time; or rests without having failed.
TEST_F(WorkFailuresTest, RestsUntilItIsTimeToTryAgain) {
  EXPECT_FALSE(failures_.rests());
  Fail(1);
  EXPECT_TRUE(failures_.rests());
  clock_.Advance(milliseconds(49));
  EXPECT_TRUE(failures_.rests());
  clock_.Advance(milliseconds(1));
  EXPECT_FALSE(failures_.rests());
  EXPECT_TRUE(failures_.any()) << "it has not been tried yet";

  Fail(1);
  failures_.Note(Status::OK());
  EXPECT_FALSE(failures_.rests());
  Fail(1);
  failures_.Forgive();
  EXPECT_FALSE(failures_.rests());
}

// Fails if who waits is told of what may pass, or of the third failure in a row not yet; or if he
// is told of those that are forgiven. What went wrong last is known all the same.
TEST_F(WorkFailuresTest, TwoAreTolerableUntilForgiven) {
  EXPECT_TRUE(failures_.tolerable());
  Fail(2);
  EXPECT_TRUE(failures_.tolerable());
  Fail(1);
  EXPECT_FALSE(failures_.tolerable());
  failures_.Forgive();
  EXPECT_TRUE(failures_.tolerable());
  EXPECT_FALSE(failures_.any());
  EXPECT_TRUE(failures_.last().IsIOError());
  clock_.Advance(seconds(1));
  EXPECT_TRUE(failures_.Note(Failure())) << "the first one since";
  EXPECT_TRUE(failures_.since() == clock_.Now());
}

// Fails if after many failures one more does not tell; or if one of few tells that had not.
TEST_F(WorkFailuresTest, OneMoreTellsAfterManyButNotAfterFew) {
  Fail(5);
  failures_.LetOneMoreTell();
  EXPECT_TRUE(failures_.tolerable());
  Fail(1);
  EXPECT_FALSE(failures_.tolerable());

  failures_.Note(Status::OK());
  Fail(1);
  failures_.LetOneMoreTell();
  EXPECT_EQ(failures_.count(), 1);
  Fail(1);
  EXPECT_TRUE(failures_.tolerable());
}

// Fails if news of room, or somebody who waits, puts off what would have been tried sooner, or does
// not bring it forward; or if that forgives a failure.
TEST_F(WorkFailuresTest, IsTriedSoonerNeverLater) {
  Fail(3);
  const auto now = clock_.Now();
  failures_.RetryBy(now + milliseconds(10));
  EXPECT_TRUE(failures_.retry_at() == now + milliseconds(10));
  failures_.RetryBy(now + hours(1));
  EXPECT_TRUE(failures_.retry_at() == now + milliseconds(10));
  EXPECT_TRUE(failures_.rests());
  failures_.RetryNow();
  EXPECT_TRUE(failures_.retry_at() == now);
  EXPECT_FALSE(failures_.rests());
  EXPECT_EQ(failures_.count(), 3);
}

class IdleWorkFailuresTest : public testing::Test {
 protected:
  // The same of work that nobody has asked for.
  seconds NextPause() {
    failures_.Note(Failure());
    return std::chrono::duration_cast<seconds>(failures_.retry_at() - clock_.Now());
  }

  port::ManualClock clock_;
  IdleWorkFailures failures_;
};

// Fails if what nobody has asked for takes its turn again and again though it fails, is as good as
// given up, or waits that long again after it has succeeded.
TEST_F(IdleWorkFailuresTest, PausesDoubleToABoundAndBeginAnewAfterASuccess) {
  for (const int expected_s : {1, 2, 4, 8, 16, 32, 64, 64}) {
    EXPECT_EQ(NextPause().count(), expected_s);
  }
  for (int i = 0; i < 100; ++i) failures_.Note(Failure());
  EXPECT_EQ(NextPause().count(), 64);
  failures_.Note(Status::OK());
  EXPECT_EQ(NextPause().count(), 1);
}

// Fails if it is tried too early, or not when it is time; or rests without having failed.
TEST_F(IdleWorkFailuresTest, RestsUntilItIsTimeToTryAgain) {
  EXPECT_FALSE(failures_.rests());
  failures_.Note(Failure());
  clock_.Advance(milliseconds(999));
  EXPECT_TRUE(failures_.rests());
  clock_.Advance(milliseconds(1));
  EXPECT_FALSE(failures_.rests());
}

}  // namespace
}  // namespace dlsm
