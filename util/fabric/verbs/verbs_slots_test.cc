#include "util/fabric/verbs/verbs_slots.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace dlsm {
namespace {

// Fails if more slots are taken than there are, by threads that ask at once, or if one that came
// back is lost.
TEST(VerbsSlotsTest, TheBoundHolds) {
  constexpr uint32_t kMost = 5;
  VerbsSlots slots;
  std::atomic<uint32_t> held{0};
  std::atomic<uint32_t> held_max{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const VerbsSlots::Slot slot = slots.Take(kMost);
        if (slot == nullptr) continue;
        const uint32_t now = ++held;
        uint32_t most = held_max;
        while (most < now && !held_max.compare_exchange_weak(most, now)) continue;
        --held;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(held_max, kMost);
  std::vector<VerbsSlots::Slot> all;
  for (uint32_t i = 0; i < kMost; ++i) {
    all.push_back(slots.Take(kMost));
    EXPECT_NE(all.back(), nullptr);
  }
  EXPECT_EQ(slots.Take(kMost), nullptr);
  all.pop_back();
  EXPECT_NE(slots.Take(kMost), nullptr);
}

}  // namespace
}  // namespace dlsm
