#include "util/thread_number.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "port/failing_allocations_testing.h"

namespace dlsm {
namespace {

uint32_t NumberOfAnother() {
  uint32_t number = 0;
  std::thread([&number] { number = ThreadNumber::Current(); }).join();
  return number;
}

TEST(ThreadNumberTest, LivingThreadsHaveNumbersOfTheirOwn) {
  constexpr int kThreads = 20;
  std::vector<uint32_t> numbers(kThreads);
  std::atomic<int> started{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&numbers, &started, i] {
      numbers[static_cast<size_t>(i)] = ThreadNumber::Current();
      ++started;
      while (started.load() < kThreads) std::this_thread::yield();
      EXPECT_EQ(ThreadNumber::Current(), numbers[static_cast<size_t>(i)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), size_t{kThreads});
}

TEST(ThreadNumberTest, NumbersAreGivenOutAgain) {
  const uint32_t first = NumberOfAnother();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(NumberOfAnother(), first);
}

// Fails if the process ends with a thread whose number there is no memory to keep, or if the next
// number is one that a thread has.
TEST(ThreadNumberTest, ThreadsEndWithoutMemory) {
  const uint32_t own = ThreadNumber::Current();
  uint32_t not_kept = 0;
  {
    const port::FailingAllocationsAt failing("thread number");
    not_kept = NumberOfAnother();
    EXPECT_EQ(failing.failed(), 1u);
  }
  const uint32_t next = NumberOfAnother();
  EXPECT_NE(next, not_kept);
  EXPECT_NE(next, own);
  EXPECT_EQ(NumberOfAnother(), next);
}

struct Late {
  ~Late() {
    if (mine == nullptr) return;
    *mine = ThreadNumber::Current();
    *others = NumberOfAnother();
  }
  uint32_t* mine = nullptr;
  uint32_t* others = nullptr;
};

// Fails if a number is given back while objects that the thread keeps for itself may still use it:
// those that were made before it had a number are destroyed after what was made for the number.
TEST(ThreadNumberTest, IsTheThreadsToItsVeryEnd) {
  uint32_t at_first = 0;
  uint32_t at_last = 0;
  uint32_t others = 0;
  std::thread([&] {
    thread_local Late late;
    late.mine = &at_last;
    late.others = &others;
    at_first = ThreadNumber::Current();
  }).join();
  EXPECT_EQ(at_last, at_first);
  EXPECT_NE(others, at_first);
}

TEST(PerThreadTest, EachThreadHasItsOwn) {
  PerThread<std::atomic<int>> counts;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&counts] {
      for (int n = 0; n < 1000; ++n) ++counts.Local();
    });
  }
  for (std::thread& thread : threads) thread.join();
  int sum = 0;
  counts.ForEach([&sum](std::atomic<int>& count) {
    sum += count.load();
    return true;
  });
  EXPECT_EQ(sum, 4000);
}

}  // namespace
}  // namespace dlsm
