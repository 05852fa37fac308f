#include "util/memory/memory_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "port/processors.h"
#include "util/numa.h"
#include "util/numa_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

class Mapped {
 public:
  explicit Mapped(size_t bytes)
      : data_(static_cast<char*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
        bytes_(bytes) {}
  ~Mapped() { ::munmap(data_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  char* data() const { return data_; }
  size_t resident_bytes() const {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> resident(bytes_ / page);
    EXPECT_EQ(::mincore(data_, bytes_, resident.data()), 0);
    size_t pages = 0;
    for (const unsigned char each : resident) pages += each & 1;
    return pages * page;
  }
  // As if the machine had no more from there on.
  void ForbidFrom(size_t offset) const {
    ASSERT_EQ(::mprotect(data_ + offset, bytes_ - offset, PROT_NONE), 0);
  }

 private:
  char* const data_;
  const size_t bytes_;
};

size_t InParallel(char* data, size_t bytes) {
  return TakePagesInParallel(data, bytes, /*huge=*/false, [](size_t) { return true; }).bytes;
}

// Fails if pages of the range are left to be taken later, or are said to be taken and are not.
TEST(MemoryPagesTest, TakesThePagesOfARange) {
  for (const auto take : {&TakePages, &InParallel}) {
    const Mapped memory(1200 * kMegabyte);
    if (take(memory.data(), 4096) == 0) GTEST_SKIP() << "this kernel does not know how";
    const size_t asked = 1000 * kMegabyte + 4096;
    ASSERT_EQ(take(memory.data(), asked), asked);
    EXPECT_GE(memory.resident_bytes(), asked);
  }
}

// Fails if what is behind a refusal is taken for taken.
TEST(MemoryPagesTest, TellsHowFarItGot) {
  for (const auto take : {&TakePages, &InParallel}) {
    const Mapped memory(1024 * kMegabyte);
    if (take(memory.data(), 4096) == 0) GTEST_SKIP() << "this kernel does not know how";
    memory.ForbidFrom(200 * kMegabyte);
    EXPECT_EQ(take(memory.data(), 1024 * kMegabyte), 192 * kMegabyte);
  }
}

// Fails if threads are not told of what others of them are about to take.
TEST(MemoryPagesTest, TellsWhatIsUnderWay) {
  if (port::ProcessorCount() < 2) GTEST_SKIP() << "there is one thread then";
  constexpr size_t kBytes = 1024 * kMegabyte;
  const Mapped memory(kBytes);
  std::atomic<int> asking{0};
  std::atomic<size_t> most{0};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  TakePagesInParallel(memory.data(), kBytes, /*huge=*/false, [&](size_t under_way) {
    ++asking;
    // The first one asks until a second one does.
    while (asking < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    size_t before = most;
    while (before < under_way && !most.compare_exchange_weak(before, under_way)) {
    }
    return asking < 4;
  });
  EXPECT_GE(most, 2 * kTakenAtOnceBytes);
}

// Fails if it goes on when there is no more to spare.
TEST(MemoryPagesTest, StopsWhenItIsTold) {
  const Mapped memory(1024 * kMegabyte);
  std::atomic<int> left{3};
  const size_t taken =
      TakePagesInParallel(memory.data(), 1024 * kMegabyte, /*huge=*/false, [&left](size_t) {
        return left.fetch_sub(1) > 0;
      }).bytes;
  EXPECT_LE(taken, 3 * kTakenAtOnceBytes);
  EXPECT_LE(memory.resident_bytes(), 3 * kTakenAtOnceBytes);
}

TEST(MemoryPagesTest, TakesSmallPagesWhereNoneIsWhole) {
  const Mapped memory(kMegabyte);
  const TakenPages taken =
      TakePagesInParallel(memory.data(), kMegabyte, /*huge=*/true, [](size_t) { return true; });
  if (taken.bytes == 0) GTEST_SKIP() << "this kernel does not know how";
  EXPECT_EQ(taken.bytes, kMegabyte);
  EXPECT_EQ(taken.huge_bytes, 0u);
}

class AvailableMemoryTest : public testing::Test {
 protected:
  AvailableMemoryTest()
      : root_(testing::TempDir() + "dlsm-available-" + std::to_string(::getpid()) + "/") {}
  ~AvailableMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const std::string root_;
};

TEST_F(AvailableMemoryTest, IsWhatTheMachineHas) {
  EXPECT_EQ(AvailableMemory(root_, -1), UINT64_MAX) << "nothing is known";
  Write("proc/meminfo", "MemTotal:       2000 kB\nMemAvailable:   1000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(AvailableMemory(root_, -1), 1000u * 1024);
}

// Fails if a limit is overlooked that would have this process ended.
TEST_F(AvailableMemoryTest, IsNoMoreThanControlGroupsLeave) {
  Write("proc/meminfo", "MemAvailable: 1000 kB\n");
  Write("proc/self/cgroup", "0::/inner/most\n");
  Write("sys/fs/cgroup/inner/most/memory.max", "max\n");
  Write("sys/fs/cgroup/inner/most/memory.current", "4096\n");
  EXPECT_EQ(AvailableMemory(root_, -1), 1000u * 1024);
  Write("sys/fs/cgroup/inner/memory.max", "9000\n");
  Write("sys/fs/cgroup/inner/memory.current", "4096\n");
  EXPECT_EQ(AvailableMemory(root_, -1), 9000u - 4096);
  Write("sys/fs/cgroup/memory.max", "8000\n");
  Write("sys/fs/cgroup/memory.current", "9000\n");
  EXPECT_EQ(AvailableMemory(root_, -1), 0u) << "it is over its limit";
}

// Fails if a limit is overlooked beyond which this process would hardly move.
TEST_F(AvailableMemoryTest, IsNoMoreThanWhereTheKernelSlowsDown) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "9000\n");
  Write("sys/fs/cgroup/memory.high", "7000\n");
  Write("sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(AvailableMemory(root_, -1), 6000u);
}

// Fails if memory of nodes counts that this process cannot have.
TEST_F(AvailableMemoryTest, IsThatOfTheNodesItMayUse) {
  Write("proc/meminfo", "MemAvailable: 1000 kB\n");
  for (const char* const node : {"0", "1", "2"}) {
    Write(std::string("sys/devices/system/node/node") + node + "/meminfo",
          std::string("Node ") + node + " Active(file): 6 kB\nNode " + node +
              " Inactive(file): 4 kB\n");
  }
  {
    const FakeNuma all{{0, {100 * 1024}}, {1, {101 * 1024}}, {2, {102 * 1024}}};
    EXPECT_EQ(AvailableMemory(root_, kNoNumaNode), 1000u * 1024) << "all of them";
    EXPECT_EQ(AvailableMemory(root_, 1), (101u + 5u) * 1024) << "and half of the files' pages";
  }
  FakeNuma some{{0, {100 * 1024}}, {1, {101 * 1024, false}}, {2, {102 * 1024}}};
  EXPECT_EQ(AvailableMemory(root_, kNoNumaNode), (100u + 102u + 10u) * 1024);
  some.available = false;
  EXPECT_EQ(AvailableMemory(root_, kNoNumaNode), 1000u * 1024) << "nothing is known of nodes";
}

TEST_F(AvailableMemoryTest, KnowsGroupsOfVersionOne) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/x\n");
  Write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "5000\n");
  Write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "2000\n");
  EXPECT_EQ(AvailableMemory(root_, -1), 3000u);
}

// Fails if a process may promise more than it can have before it is ended; or if what its group has
// in use, which may be files' pages that go when they are wanted, counts as lost.
TEST_F(AvailableMemoryTest, LimitIsWhatControlGroupsAllow) {
  const uint64_t machine = MemoryLimit(root_);
  EXPECT_GT(machine, uint64_t{1} << 20) << "nothing is said of groups";
  Write("proc/self/cgroup", "4:memory:/v1\n0::/inner/most\n");
  Write("sys/fs/cgroup/inner/most/memory.max", "max\n");
  EXPECT_EQ(MemoryLimit(root_), machine);
  Write("sys/fs/cgroup/inner/memory.max", "900000\n");
  Write("sys/fs/cgroup/inner/memory.current", "880000\n");
  EXPECT_EQ(MemoryLimit(root_), 900000u);
  Write("sys/fs/cgroup/inner/memory.high", "800000\n");
  EXPECT_EQ(MemoryLimit(root_), 800000u);
  Write("sys/fs/cgroup/memory/v1/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(MemoryLimit(root_), 800000u);
  Write("sys/fs/cgroup/memory/v1/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(MemoryLimit(root_), 700000u);
}

TEST_F(AvailableMemoryTest, MostIsThreeQuartersOfTheLimit) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", std::to_string(41 * page + 1));
  EXPECT_EQ(MostOfMemory(root_), 30 * page);
}

}  // namespace
}  // namespace dlsm
