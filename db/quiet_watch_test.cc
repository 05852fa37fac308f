#include "db/quiet_watch.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

using std::chrono::milliseconds;

class QuietWatchTest : public testing::Test {
 protected:
  bool IsQuietAfter(milliseconds pause, uint64_t keys_written, uint64_t flushes) {
    now_ += pause;
    return watch_.IsQuiet(now_, keys_written, flushes);
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

}  // namespace
}  // namespace dlsm
