// Buffers that come back to their pool.
#include "util/fabric/buffer_pool.h"

#include <gtest/gtest.h>

#include "port/failing_allocations_testing.h"
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

}  // namespace
}  // namespace dlsm
