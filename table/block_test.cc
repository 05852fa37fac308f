// A block that lies in mapped memory, whose owner changes it while it is read.
#include "table/block.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "port/thread_sanitizer.h"
#include "table/internal_key.h"
#include "util/coding.h"

namespace dlsm {
namespace {

// How long the result of uncompressing is stands in the block's first bytes. Fails, under
// AddressSanitizer, if memory is taken for what they say at one moment and filled up to what they
// say at another.
TEST(BlockTest, UncompressedLengthThatChangesWhileItIsRead) {
#ifdef DLSM_THREAD_SANITIZER
  GTEST_SKIP() << "it is a race on purpose";
#endif
  BlockBuilder builder(16);
  for (uint64_t i = 0; i < 40; ++i) {
    std::string key;
    AppendInternalKey(&key, "key" + std::to_string(100 + i), i, ValueType::kValue);
    builder.Add(key, std::string(100, 'v'));
  }
  std::string stored = builder.Finish(kSnappyCompression).ToString();
  ASSERT_EQ(stored[stored.size() - kBlockTrailerBytes], kSnappyCompression);
  // The low bits of the second group: a few thousand bytes more or less.
  std::atomic_ref<char> length(stored[1]);
  const char right = length.load();
  std::atomic<bool> stop{false};
  std::thread scribbler([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      length.store(1, std::memory_order_relaxed);
      length.store(right, std::memory_order_relaxed);
    }
  });
  uint64_t opened = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < until) {
    BlockPayload payload;
    if (payload.Open(stored, /*verify_checksum=*/false).ok()) ++opened;
  }
  stop = true;
  scribbler.join();
  EXPECT_GT(opened, 0u);
}

}  // namespace
}  // namespace dlsm
