#include "db/background/quiet_watch.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

using std::chrono::milliseconds;

class QuietWatchTest : public testing::Test {
 protected:
  bool IsQuietAfter(milliseconds pause, uint64_t keys_written, uint64_t flushes,
                    bool awaited = false) {
    now_ += pause;
    watch_.Note(now_, keys_written, flushes);
    return watch_.IsQuiet(now_, awaited);
  }

  QuietWatch watch_;
  QuietWatch::Clock::time_point now_ = QuietWatch::Clock::now();
};

// Fails if reads after a load wait for longer than they must.
TEST_F(QuietWatchTest, SoonAfterTheLastWriteAndItsFlush) {
  EXPECT_FALSE(IsQuietAfter(milliseconds(0), 1000, 1));
  EXPECT_FALSE(IsQuietAfter(milliseconds(99), 1000, 1));
  EXPECT_TRUE(IsQuietAfter(milliseconds(1), 1000, 1));
  EXPECT_FALSE(IsQuietAfter(milliseconds(0), 1000, 2));
  EXPECT_TRUE(IsQuietAfter(milliseconds(100), 1000, 2));
}

// Fails if a load whose flushes are further apart than a moment counts as quiet between them.
TEST_F(QuietWatchTest, NotBetweenTheFlushesOfALoad) {
  uint64_t keys = 0;
  for (uint64_t flushes = 1; flushes < 4; ++flushes) {
    for (int i = 0; i < 9; ++i) EXPECT_FALSE(IsQuietAfter(milliseconds(100), ++keys, flushes));
  }
}

// Fails if a writer that fills no memtable keeps reads from having their tables merged.
TEST_F(QuietWatchTest, ATrickleOfWritesIsQuiet) {
  uint64_t keys = 0;
  EXPECT_FALSE(IsQuietAfter(milliseconds(0), ++keys, 1));
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(IsQuietAfter(milliseconds(100), ++keys, 1));
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(IsQuietAfter(milliseconds(100), ++keys, 1));
}

// Fails if who waits for background work waits for what he has written to be long ago, or if
// others' writes count as none.
TEST_F(QuietWatchTest, WhoWaitsHasWritten) {
  EXPECT_FALSE(IsQuietAfter(milliseconds(0), 1000, 1));
  watch_.BeginAwaited();
  EXPECT_TRUE(IsQuietAfter(milliseconds(0), 1000, 1, /*awaited=*/true));
  EXPECT_TRUE(IsQuietAfter(milliseconds(5), 1000, 2, /*awaited=*/true)) << "his memtable's flush";
  EXPECT_FALSE(IsQuietAfter(milliseconds(5), 1001, 2, /*awaited=*/true));
  EXPECT_FALSE(IsQuietAfter(milliseconds(9), 1001, 2, /*awaited=*/true));
  EXPECT_FALSE(IsQuietAfter(milliseconds(1), 1002, 2, /*awaited=*/true));
  EXPECT_TRUE(IsQuietAfter(milliseconds(10), 1002, 2, /*awaited=*/true));
}

}  // namespace
}  // namespace dlsm
