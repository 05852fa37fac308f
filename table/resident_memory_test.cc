#include "table/resident_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "util/random.h"

namespace dlsm {
namespace {

std::string Bytes(Random* random, size_t bytes) {
  std::string made;
  while (made.size() < bytes) made.push_back(static_cast<char>(random->Uniform(256)));
  return made;
}

// Fails if copies overlap, move, or are not aligned.
TEST(ResidentMemoryTest, KeepsWhatItWasGiven) {
  ResidentMemory memory;
  Random random(301);
  std::vector<std::pair<std::string, ResidentMemory::Copy>> kept;
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{100'000}, size_t{3} << 20,
                             size_t{5} << 20, size_t{63}, size_t{4} << 20}) {
    const std::string original = Bytes(&random, bytes);
    kept.emplace_back(original, memory.Keep(original));
  }
  for (const auto& [original, copy] : kept) {
    EXPECT_EQ(copy.bytes.ToString(), original);
    if (!ResidentMemory::uses_blocks()) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(copy.bytes.data()) % 64, 0u);
  }
  EXPECT_TRUE(memory.Keep(Slice()).bytes.empty());
}

// Fails if what nobody owns any more is not used again, or blocks that are empty all stay.
TEST(ResidentMemoryTest, GivesBackWhatNobodyOwns) {
  ResidentMemory memory;
  const std::string bytes(size_t{3} << 20, 'b');
  for (int round = 0; round < 3; ++round) {
    std::vector<ResidentMemory::Copy> copies;
    for (int i = 0; i < 20; ++i) copies.push_back(memory.Keep(bytes));
    EXPECT_EQ(memory.blocks(), ResidentMemory::uses_blocks() ? 4u : 0u) << "five to a block";
    copies.clear();
    EXPECT_LE(memory.blocks(), 1u);
  }
}

TEST(ResidentMemoryTest, ThreadsShareIt) {
  ResidentMemory memory;
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < 4; ++number) {
    threads.emplace_back([&memory, number] {
      Random random(number);
      std::vector<std::pair<std::string, ResidentMemory::Copy>> kept(16);
      for (int i = 0; i < 500; ++i) {
        auto& [original, copy] = kept[random.Uniform(kept.size())];
        ASSERT_EQ(copy.bytes.ToString(), original);
        original.assign(1 + random.Uniform(200'000), static_cast<char>(random.Uniform(256)));
        copy = memory.Keep(original);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(memory.blocks(), 1u);
}

}  // namespace
}  // namespace dlsm
