#include "table/merge_scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

// Merges of given sizes, each in its thread, a byte at a time; tells in which order the bytes were
// merged. With one running at a time the order is exact.
class MergeSchedulerTest : public testing::Test {
 protected:
  // `sizes` arrive together.
  std::vector<size_t> Run(MergeSchedule schedule, const std::vector<uint64_t>& sizes) {
    return Run(schedule, sizes, sizes);
  }
  // The same of merges that are said to have `said` bytes.
  std::vector<size_t> Run(MergeSchedule schedule, const std::vector<uint64_t>& sizes,
                          const std::vector<uint64_t>& said) {
    MergeSchedulerOptions options;
    options.schedule = schedule;
    options.running_max = 1;
    MergeScheduler scheduler(options);
    std::vector<size_t> order;  // Only the chosen merge appends.
    std::vector<std::unique_ptr<MergeScheduler::Turn>> turns;
    for (const uint64_t size : said) {
      turns.push_back(std::make_unique<MergeScheduler::Turn>(&scheduler, size, never_));
    }
    std::vector<std::thread> threads;
    port::Mutex mutex;
    for (size_t i = 0; i < sizes.size(); ++i) {
      threads.emplace_back([&, i] {
        for (uint64_t done = 0; done < sizes[i]; ++done) {
          EXPECT_TRUE(turns[i]->Proceed(done == 0 ? 0 : 1).ok());
          port::MutexLock lock(mutex);
          order.push_back(i);
        }
        turns[i].reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return order;
  }
  const std::atomic<bool> never_{false};
};

TEST_F(MergeSchedulerTest, SingleFinishesTheOldestFirst) {
  EXPECT_EQ(Run(MergeSchedule::kSingle, {3, 1, 2}), (std::vector<size_t>{0, 0, 0, 1, 2, 2}));
}

TEST_F(MergeSchedulerTest, GreedyFinishesTheSmallestFirst) {
  EXPECT_EQ(Run(MergeSchedule::kGreedy, {3, 1, 2}), (std::vector<size_t>{1, 2, 2, 0, 0, 0}));
}

// Whether no merge gets ahead of another by more than a slice while both have work left.
void ExpectEqualShares(const std::vector<size_t>& order, size_t merges) {
  std::vector<int> done(merges);
  for (const size_t merge : order) {
    ++done[merge];
    const auto [least, most] = std::minmax_element(done.begin(), done.end());
    ASSERT_LE(*most - *least, 2);
  }
}

// Fails if one does.
TEST_F(MergeSchedulerTest, FairGivesEveryMergeTheSame) {
  ExpectEqualShares(Run(MergeSchedule::kFair, {50, 50, 50}), 3);
}

// Fails if a merge that was said to be small, or whose bytes were compressed, goes before all
// others from there on.
TEST_F(MergeSchedulerTest, FairGoesByWhatIsReadAndNotByWhatWasSaid) {
  ExpectEqualShares(Run(MergeSchedule::kFair, {50, 50, 50}, {50, 1, 50}), 3);
}

// Fails if progress is not measured as a part of the whole.
TEST_F(MergeSchedulerTest, SpringAndGearKeepsAllEquallyComplete) {
  const std::vector<uint64_t> sizes = {100, 10};
  const std::vector<size_t> order = Run(MergeSchedule::kSpringAndGear, sizes);
  std::vector<double> done(2);
  for (const size_t merge : order) {
    done[merge] += 1.0 / static_cast<double>(sizes[merge]);
    ASSERT_LT(std::abs(done[0] - done[1]), 0.25);
  }
}

// Fails if a merge that is paused is not resumed when the one it waits for ends, or if a smaller
// one that comes later does not go before it.
TEST_F(MergeSchedulerTest, ALaterSmallerMergePausesALargerOne) {
  MergeSchedulerOptions options;
  options.running_max = 1;
  MergeScheduler scheduler(options);
  MergeScheduler::Turn large(&scheduler, 1000, never_);
  ASSERT_TRUE(large.Proceed(1).ok());
  auto small = std::make_unique<MergeScheduler::Turn>(&scheduler, 10, never_);
  std::atomic<bool> resumed{false};
  std::thread thread([&] {
    EXPECT_TRUE(large.Proceed(1).ok());
    resumed = true;
  });
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(small->Proceed(1).ok());
    EXPECT_FALSE(resumed);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  small.reset();
  thread.join();
  EXPECT_TRUE(resumed);
  EXPECT_GE(scheduler.counters().pauses, 1u);
  EXPECT_GE(scheduler.counters().paused_micros, 1000u);
}

TEST_F(MergeSchedulerTest, SeveralRunAtATime) {
  MergeSchedulerOptions options;
  options.running_max = 2;
  MergeScheduler scheduler(options);
  MergeScheduler::Turn a(&scheduler, 10, never_);
  MergeScheduler::Turn b(&scheduler, 20, never_);
  EXPECT_TRUE(a.Proceed(1).ok());
  EXPECT_TRUE(b.Proceed(1).ok());
  EXPECT_EQ(scheduler.counters().pauses, 0u);
}

TEST_F(MergeSchedulerTest, CancelledMergesDoNotWait) {
  MergeSchedulerOptions options;
  options.running_max = 1;
  MergeScheduler scheduler(options);
  MergeScheduler::Turn first(&scheduler, 1, never_);
  std::atomic<bool> cancelled{false};
  MergeScheduler::Turn second(&scheduler, 100, cancelled);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    cancelled = true;
  });
  EXPECT_TRUE(second.Proceed(1).IsAborted());
  canceller.join();
}

// Fails if the budget is not kept over time, or if it is kept for each merge and not for all.
TEST_F(MergeSchedulerTest, MergesShareTheBudget) {
  MergeSchedulerOptions options;
  options.bytes_per_second = 10'000'000;
  MergeScheduler scheduler(options);
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      MergeScheduler::Turn turn(&scheduler, 3'000'000, never_);
      for (int slice = 0; slice < 30; ++slice) EXPECT_TRUE(turn.Proceed(100'000).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = Clock::now() - start;
  EXPECT_GE(took.count(), 0.6 - 0.1 - 0.02);  // Less the burst, and the last slice.
}

// Fails if a change of schedule waits for the merges under way.
TEST_F(MergeSchedulerTest, ANewScheduleAppliesAtOnce) {
  MergeSchedulerOptions options;
  options.running_max = 1;
  MergeScheduler scheduler(options);  // Greedy: the small one is chosen, and never ends.
  MergeScheduler::Turn small(&scheduler, 10, never_);
  MergeScheduler::Turn large(&scheduler, 1000, never_);
  ASSERT_TRUE(small.Proceed(1).ok());
  std::thread thread([&] { EXPECT_TRUE(large.Proceed(0).ok()); });
  scheduler.SetSchedule(MergeSchedule::kFair);
  thread.join();
  EXPECT_EQ(scheduler.options().schedule, MergeSchedule::kFair);
}

// Fails if who waits for the budget waits on when there is none any more.
TEST_F(MergeSchedulerTest, ANewBudgetAppliesAtOnce) {
  MergeSchedulerOptions options;
  options.bytes_per_second = 1;
  MergeScheduler scheduler(options);
  MergeScheduler::Turn turn(&scheduler, 2000, never_);
  std::thread thread([&] {
    EXPECT_TRUE(turn.Proceed(1000).ok());  // A quarter of an hour.
    EXPECT_TRUE(turn.Proceed(1000).ok());
  });
  while (scheduler.load().bytes_left == 2000) std::this_thread::yield();
  scheduler.SetBudget(0);
  thread.join();
  EXPECT_EQ(scheduler.options().bytes_per_second, 0u);
}

// Fails if a merge that waits for the budget seems to stand still.
TEST_F(MergeSchedulerTest, PayingForASliceIsProgress) {
  MergeSchedulerOptions options;
  options.bytes_per_second = 1'000'000;
  MergeScheduler scheduler(options);
  MergeScheduler::Turn turn(&scheduler, 2'000'000, never_);
  std::thread thread([&] { EXPECT_TRUE(turn.Proceed(500'000).ok()); });
  uint64_t merged = 0;
  int steps = 0;
  while (merged < 500'000) {
    const MergeScheduler::Load load = scheduler.load();
    EXPECT_GE(load.bytes_merged, merged);
    if (load.bytes_merged > merged) ++steps;
    merged = load.bytes_merged;
    EXPECT_EQ(load.bytes_left + load.bytes_merged, 2'000'000u);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GT(steps, 2);
  thread.join();
}

// Fails if what is left is not told, or if the rate counts the time that a merge was paused.
TEST_F(MergeSchedulerTest, TellsItsLoad) {
  MergeSchedulerOptions options;
  options.running_max = 1;
  MergeScheduler scheduler(options);
  EXPECT_EQ(scheduler.load().bytes_per_second, 0u);
  {
    MergeScheduler::Turn first(&scheduler, 1000, never_);
    MergeScheduler::Turn second(&scheduler, 50'000, never_);
    ASSERT_TRUE(first.Proceed(0).ok());
    EXPECT_EQ(scheduler.load().merges, 2u);
    EXPECT_EQ(scheduler.load().bytes_left, 51'000u);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_TRUE(first.Proceed(400).ok());
    EXPECT_EQ(scheduler.load().bytes_left, 50'600u);
    first.Finished(700);
    EXPECT_EQ(scheduler.load().bytes_left, 50'000u);
    EXPECT_EQ(scheduler.load().bytes_merged, 700u);
  }
  EXPECT_EQ(scheduler.load().merges, 0u);
  EXPECT_EQ(scheduler.load().bytes_left, 0u);
  EXPECT_GT(scheduler.load().bytes_per_second, 0u);
  EXPECT_LE(scheduler.load().bytes_per_second, 700 / 0.002);

  const uint64_t before = scheduler.load().bytes_per_second;
  scheduler.SetBudget(1'000'000);
  MergeScheduler::Turn slow(&scheduler, 300'000, never_);
  ASSERT_TRUE(slow.Proceed(300'000).ok());  // 0.2 s, before any work.
  EXPECT_GE(scheduler.load().bytes_per_second, before / 2);
}

TEST(MergeScheduleTest, NamesComeBack) {
  for (const MergeSchedule schedule : {MergeSchedule::kSingle, MergeSchedule::kFair,
                                       MergeSchedule::kGreedy, MergeSchedule::kSpringAndGear}) {
    EXPECT_EQ(MergeScheduleFromName(MergeScheduleName(schedule)), schedule);
  }
  EXPECT_FALSE(MergeScheduleFromName("lazy").has_value());
  const Status unknown = UnknownMergeSchedule("lazy");
  EXPECT_TRUE(unknown.IsInvalidArgument());
  EXPECT_NE(unknown.ToString().find("lazy"), std::string::npos);
  EXPECT_NE(unknown.ToString().find("spring_and_gear"), std::string::npos);
}

}  // namespace
}  // namespace dlsm
