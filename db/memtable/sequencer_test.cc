#include "db/memtable/sequencer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

namespace dlsm {
namespace {

std::chrono::nanoseconds CpuTimeOfThisThread() {
  timespec time{};
  EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Fails if who waits for a batch that takes long does so at the full cost of a processor, comes
// back before it has ended, or long after.
TEST(SequencerTest, WhoWaitsForALargeBatchSleeps) {
  constexpr auto kBatch = std::chrono::milliseconds(500);
  Sequencer sequencer(0);
  std::atomic<bool> ended{false};
  std::chrono::nanoseconds used{};
  std::thread waiter;
  {
    const Sequencer::Write batch(sequencer, 1000);
    waiter = std::thread([&] {
      const auto before = CpuTimeOfThisThread();
      sequencer.WaitSettled(sequencer.Now().next - 1);
      EXPECT_TRUE(ended);
      used = CpuTimeOfThisThread() - before;
    });
    std::this_thread::sleep_for(kBatch);
    ended = true;
  }
  const auto at_end = std::chrono::steady_clock::now();
  waiter.join();
  EXPECT_LT(std::chrono::steady_clock::now() - at_end, std::chrono::seconds(5));
  EXPECT_LT(used, kBatch / 2);
}

}  // namespace
}  // namespace dlsm
