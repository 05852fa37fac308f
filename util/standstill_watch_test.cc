#include "util/standstill_watch.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

class StandstillWatchTest : public testing::Test {
 protected:
  nanoseconds LookAfter(milliseconds pause) { return watch_.Look(now_ += pause); }

  StandstillWatch::Clock::time_point now_ = StandstillWatch::Clock::now();
  StandstillWatch watch_{now_};
};

// Fails if looks that come late are taken for standstills, or add up to one: then nothing that is
// counted by them ever ends.
TEST_F(StandstillWatchTest, LateLooksAreNone) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(LookAfter(milliseconds(999)), nanoseconds(0));
}

// Fails if a standstill counts in part only, if the next look counts it again, or if one before the
// first look is not seen.
TEST_F(StandstillWatchTest, EachIsToldWholeAndOnce) {
  EXPECT_EQ(LookAfter(seconds(3)), seconds(3));
  EXPECT_EQ(LookAfter(milliseconds(200)), nanoseconds(0));
  EXPECT_EQ(LookAfter(seconds(1)), seconds(1));
  EXPECT_EQ(LookAfter(seconds(60)), seconds(60));
  EXPECT_EQ(LookAfter(milliseconds(0)), nanoseconds(0));
}

}  // namespace
}  // namespace dlsm
