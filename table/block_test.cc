// A block that lies in mapped memory, whose owner changes it while it is read.
#include "table/block.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "port/thread_sanitizer.h"
#include "table/internal_key.h"
#include "util/checksum.h"
#include "util/coding.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// While there is one, the first look at a page changes a byte elsewhere: as its owner may, who maps
// the same memory, between two looks of a reader. One at a time.
class ChangedAtFirstLook {
 public:
  ChangedAtFirstLook(char* page, size_t page_bytes, char* byte, char value) {
    page_ = page;
    page_bytes_ = page_bytes;
    byte_ = byte;
    value_ = value;
    looked_ = 0;
    struct sigaction action = {};
    action.sa_sigaction = &OnFault;
    action.sa_flags = SA_SIGINFO;
    EXPECT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
    EXPECT_EQ(mprotect(page_, page_bytes_, PROT_NONE), 0);
  }
  ~ChangedAtFirstLook() {
    EXPECT_EQ(mprotect(page_, page_bytes_, PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(sigaction(SIGSEGV, &before_, nullptr), 0);
  }
  ChangedAtFirstLook(const ChangedAtFirstLook&) = delete;
  ChangedAtFirstLook& operator=(const ChangedAtFirstLook&) = delete;

  bool looked() const { return looked_ != 0; }

 private:
  static void OnFault(int /*signal*/, siginfo_t* info, void* /*context*/) {
    const char* const at = static_cast<const char*>(info->si_addr);
    const bool here = at >= page_ && at < page_ + page_bytes_;
    if (!here || mprotect(page_, page_bytes_, PROT_READ | PROT_WRITE) != 0) {
      signal(SIGSEGV, SIG_DFL);  // Not this one's: it comes again, and ends the process.
      return;
    }
    *byte_ = value_;
    looked_ = 1;
  }

  static inline char* page_ = nullptr;
  static inline size_t page_bytes_ = 0;
  static inline char* byte_ = nullptr;
  static inline char value_ = 0;
  static inline volatile sig_atomic_t looked_ = 0;
  struct sigaction before_ = {};
};

// A block that is read in place, for it says that it is not compressed, says otherwise by the time
// its checksum has been looked at, which is right then. Fails if it is uncompressed in place: its
// owner could change how long the result is while that is being written.
TEST(BlockTest, TypeThatChangesWhileTheBlockIsVerified) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const mapped =
      mmap(nullptr, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* const payload = static_cast<char*>(mapped);
  char* const type = payload + page_bytes;  // The first byte of the next page.
  std::memset(payload, 'p', page_bytes);
  *type = static_cast<char>(kSnappyCompression);
  EncodeFixed32(type + 1, Crc32c(payload, page_bytes + 1));
  *type = static_cast<char>(kNoCompression);
  {
    const ChangedAtFirstLook owner(payload, page_bytes, type,
                                   static_cast<char>(kSnappyCompression));
    BlockPayload block;
    EXPECT_OK(block.Open(Slice(payload, page_bytes + kBlockTrailerBytes),
                         /*verify_checksum=*/true));
    EXPECT_TRUE(owner.looked());
    EXPECT_TRUE(block.in_place());
    EXPECT_EQ(block.bytes().data(), payload);
    EXPECT_EQ(block.bytes().size(), page_bytes);
  }
  EXPECT_EQ(munmap(mapped, 2 * page_bytes), 0);
}

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
