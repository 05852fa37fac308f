// Buffers that come back to their pool.
#include "util/fabric/buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "util/numa.h"
#include "util/numa_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Fails if a buffer that came back is not used again.
TEST(BufferPoolTest, OnesThatCameBackAreUsedAgain) {
  BufferPool pool;
  RegisteredBuffer buffer;
  ASSERT_OK(pool.NewBuffer(1000, &buffer));
  const char* const data = buffer.data();
  buffer = RegisteredBuffer();
  ASSERT_OK(pool.NewBuffer(600, &buffer));
  EXPECT_EQ(buffer.data(), data);
}

// Buffers come back where there is no memory to keep them. Fails if that ends the process, or if
// none can be had after it.
TEST(BufferPoolTest, OnesThatThereIsNoMemoryToKeepAreLetGo) {
  BufferPool pool;
  RegisteredBuffer buffer;
  ASSERT_OK(pool.NewBuffer(1000, &buffer));
  {
    const port::FailingAllocationsAt failing("buffer kept");
    buffer = RegisteredBuffer();
    EXPECT_EQ(failing.failed(), 1u);
  }
  ASSERT_OK(pool.NewBuffer(1000, &buffer));
  EXPECT_EQ(buffer.bytes(), 1000u);
}

// Fails if a buffer lies elsewhere than on its node, shares bytes with another one, is not used
// again, or if what is large stays taken for ever.
TEST(BufferPoolTest, AllAreOnTheirNode) {
  FakeNuma machine{{1, {}}};
  const uint64_t before = NumaUseOf(1).preferred_bytes;
  {
    BufferPool pool(1);
    std::vector<RegisteredBuffer> buffers;
    for (const size_t bytes : {1, 600, 4095, 4096, 5000, 3 << 20}) {
      for (int i = 0; i < 200 && (i < 3 || bytes <= 5000); ++i) {
        RegisteredBuffer& buffer = buffers.emplace_back();
        ASSERT_OK(pool.NewBuffer(bytes, &buffer));
        EXPECT_EQ(machine.NodeOf(buffer.data()), 1) << bytes;
        EXPECT_EQ(machine.NodeOf(buffer.data() + bytes - 1), 1) << bytes;
        std::memset(buffer.data(), static_cast<int>(buffers.size() % 251), bytes);
      }
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      const auto mark = static_cast<char>((i + 1) % 251);
      EXPECT_TRUE(std::all_of(buffers[i].data(), buffers[i].data() + buffers[i].bytes(),
                              [mark](char byte) { return byte == mark; }))
          << i;
    }
    buffers.clear();
    const size_t placed = machine.BytesPlacedOn(1);
    for (const size_t bytes : {1, 600, 4096, 3 << 20}) {
      ASSERT_OK(pool.NewBuffer(bytes, &buffers.emplace_back()));
    }
    EXPECT_EQ(machine.BytesPlacedOn(1), placed) << "they are used again";
    buffers.resize(1);
    const uint64_t kept = NumaUseOf(1).preferred_bytes - before;
    for (int i = 0; i < 20; ++i) {
      ASSERT_OK(pool.NewBuffer(size_t{8} << 20, &buffers.emplace_back()));
    }
    EXPECT_GE(NumaUseOf(1).preferred_bytes - before, kept + (uint64_t{160} << 20));
    buffers.clear();
    EXPECT_LE(NumaUseOf(1).preferred_bytes - before, uint64_t{65} << 20);
  }
  EXPECT_EQ(NumaUseOf(1).preferred_bytes, before);
}

}  // namespace
}  // namespace dlsm
