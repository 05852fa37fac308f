#include "util/memory/huge_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <new>
#include <utility>

namespace dlsm {
namespace {

TEST(HugeMemoryTest, IsAlignedZeroedAndWritable) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, kHugePageBytes - 1, 3 * kHugePageBytes + 5}) {
    const HugeMemory memory(bytes);
    ASSERT_GE(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % kHugePageBytes, 0u);
    EXPECT_EQ(memory.data()[0], 0);
    memory.data()[bytes - 1] = 'x';
  }
}

// Fails if one that is to stay on small pages takes more than it needs.
TEST(HugeMemoryTest, SmallPagesAreZeroedAndWritable) {
  for (const size_t bytes : {size_t{1}, size_t{512} << 10, 3 * kHugePageBytes + 5}) {
    const HugeMemory memory(bytes, PageKind::kSmall);
    ASSERT_GE(memory.size(), bytes);
    EXPECT_LT(memory.size(), bytes + kHugePageBytes);
    EXPECT_EQ(memory.data()[0], 0);
    memory.data()[bytes - 1] = 'x';
  }
}

TEST(HugeMemoryTest, MovesLeaveNothingBehind) {
  HugeMemory first(4096);
  char* const data = first.data();
  HugeMemory second(std::move(first));
  EXPECT_EQ(second.data(), data);
  HugeMemory third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(second.data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

// Fails if a length that overflows is taken for a small one.
TEST(HugeMemoryTest, WhatCannotBeHadThrows) {
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 62}) {
    EXPECT_THROW(HugeMemory{bytes}, std::bad_alloc);
    EXPECT_THROW(HugeMemory(bytes, PageKind::kSmall), std::bad_alloc);
  }
}

// Fails if the pool does not reuse, or keeps without bound.
TEST(HugeMemoryPoolTest, KeepsWhatItMay) {
  HugeMemoryPool pool(kHugePageBytes, 2 * kHugePageBytes);
  HugeMemory a = pool.Take();
  HugeMemory b = pool.Take();
  HugeMemory c = pool.Take();
  char* const last = b.data();
  pool.Give(std::move(a));
  pool.Give(std::move(b));
  pool.Give(std::move(c));
  EXPECT_EQ(pool.KeptBytes(), 2 * kHugePageBytes);
  EXPECT_EQ(pool.Take().data(), last);
}

}  // namespace
}  // namespace dlsm
