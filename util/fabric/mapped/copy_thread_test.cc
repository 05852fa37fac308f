#include "util/fabric/mapped/copy_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace dlsm {
namespace {

using Copy = CopyThread::Copy;

// It sleeps after a while without work.
void LetSleep() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(CopyThreadTest, WhoSubmitsToASleeperCopiesByItself) {
  CopyThread thread(UINT64_MAX);
  LetSleep();
  const std::string from = "bytes";
  std::string to(from.size(), '?');
  std::atomic<uint64_t> done{0};
  const std::vector<Copy> copies{{to.data(), from.data(), from.size(), &done, 1}};
  while (thread.Submit(copies)) LetSleep();  // A slow machine may have let it fall asleep late.
  CopyThread::Make(copies);
  EXPECT_EQ(done.load(), 1u);
  EXPECT_EQ(to, from);
}

// Fails if copies are lost, made out of order or said to be done before they are: what the number
// promises is looked at as soon as it is there.
TEST(CopyThreadTest, CopiesOfSeveralSubmittersKeepTheirOrder) {
  CopyThread thread(UINT64_MAX);
  constexpr uint64_t kAside = 200;  // So many are to be made by the thread.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  constexpr size_t kBytes = 3000;
  const auto submit = [&](uint64_t seed) {
    std::string from(kBytes, '\0');
    std::string to(kBytes, '\0');
    std::atomic<uint64_t> done{0};
    uint64_t aside = 0;
    for (uint64_t round = 1; aside < kAside; ++round) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      from.assign(kBytes, static_cast<char>(seed * 7 + round));
      // Two halves: the second number says that both are there.
      const std::vector<Copy> copies{
          {to.data(), from.data(), kBytes / 2, &done, 2 * round - 1},
          {to.data() + kBytes / 2, from.data() + kBytes / 2, kBytes / 2, &done, 2 * round}};
      if (thread.Submit(copies)) {
        ++aside;
      } else {
        CopyThread::Make(copies);
      }
      while (done.load(std::memory_order_acquire) < 2 * round) std::this_thread::yield();
      ASSERT_EQ(to, from);
    }
  };
  std::thread other([&] { submit(1); });
  submit(2);
  other.join();
}

// Fails if what was handed over to a sleeper is overtaken by what is too little to be.
TEST(CopyThreadTest, NobodyOvertakesWhatASleeperWasGiven) {
  constexpr size_t kBytes = 1 << 20;
  CopyThread thread(kBytes);
  const std::string before(kBytes, 'b');
  const std::string after = "after";
  for (int round = 0; round < 20; ++round) {
    LetSleep();
    std::string to(kBytes, '?');
    std::atomic<uint64_t> done{0};
    ASSERT_TRUE(thread.Submit(std::vector<Copy>{{to.data(), before.data(), kBytes, &done, 1}}));
    const std::vector<Copy> small{
        {to.data() + kBytes - after.size(), after.data(), after.size(), &done, 2}};
    if (!thread.Submit(small)) CopyThread::Make(small);
    while (done.load(std::memory_order_acquire) < 2) std::this_thread::yield();
    ASSERT_EQ(to.substr(kBytes - after.size()), after);
  }
}

// Fails if an end, awake or asleep, hangs.
TEST(CopyThreadTest, EndsAwakeOrAsleep) {
  for (int i = 0; i < 50; ++i) {
    CopyThread thread(UINT64_MAX);
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace
}  // namespace dlsm
