#include "util/memory/memory_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <numeric>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "port/processors.h"
#include "port/thread.h"
#include "util/memory/huge_memory.h"
#include "util/numa.h"
#include "util/small_file.h"

namespace dlsm {
namespace {

constexpr uint64_t kKibibyte = 1024;

// Of files such as "12345\n"; UINT64_MAX for "max" and where there is no such file.
uint64_t NumberIn(const std::string& path) {
  std::istringstream file(TextOf(path));
  uint64_t number = 0;
  return file >> number ? number : UINT64_MAX;
}

// Of a control group, by the files that tell its limit and what it has; UINT64_MAX if it has none.
using OfGroup = uint64_t (*)(const std::string& limit_file, const std::string& usage_file);

uint64_t LimitOf(const std::string& limit_file, const std::string& /*usage_file*/) {
  return NumberIn(limit_file);
}

uint64_t RoomIn(const std::string& limit_file, const std::string& usage_file) {
  const uint64_t limit = NumberIn(limit_file);
  const uint64_t usage = NumberIn(usage_file);
  const bool known = limit != UINT64_MAX && usage != UINT64_MAX;
  return known ? limit - std::min(limit, usage) : UINT64_MAX;
}

// The least of the group at `folder` below a hierarchy's `top`, and of all that contain it.
uint64_t LeastOfGroups(const std::string& top, std::string folder, const char* limit_file,
                       const char* usage_file, OfGroup of_group) {
  uint64_t least = UINT64_MAX;
  while (true) {
    const std::string at = top + folder + (folder.ends_with('/') ? "" : "/");
    least = std::min(least, of_group(at + limit_file, at + usage_file));
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos || folder.size() <= 1) return least;
    folder.resize(std::max<size_t>(slash, 1));
  }
}

// A line is "hierarchy:controllers:folder"; version 2 has number 0 and names no controllers.
uint64_t LeastOfGroups(const std::string& root, OfGroup of_group) {
  uint64_t least = UINT64_MAX;
  std::istringstream groups(TextOf(root + "proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string folder = line.substr(second + 1);
    if (controllers.empty()) {
      // Beyond memory.high a process is slowed down until it hardly moves.
      for (const char* const limit : {"memory.max", "memory.high"}) {
        least = std::min(least, LeastOfGroups(root + "sys/fs/cgroup", folder, limit,
                                              "memory.current", of_group));
      }
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      least = std::min(least,
                       LeastOfGroups(root + "sys/fs/cgroup/memory", folder, "memory.limit_in_bytes",
                                     "memory.usage_in_bytes", of_group));
    }
  }
  return least;
}

// The value of a line "name: value kB", in bytes, or UINT64_MAX.
uint64_t MemoryInfo(const std::string& path, const std::string& name) {
  std::istringstream file(TextOf(path));
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(name + ":");
    if (at == std::string::npos) continue;
    uint64_t kibibytes = 0;
    std::istringstream value(line.substr(at + name.size() + 1));
    return value >> kibibytes ? kibibytes * kKibibyte : UINT64_MAX;
  }
  return UINT64_MAX;
}

// Of a node: what is free, and half of the files' pages, as the kernel reckons for all. The pages
// of files are given up when they are wanted; libnuma does not count them.
uint64_t AvailableAtNode(const std::string& root, int node) {
  const uint64_t free = NumaSystem::Current().FreeBytes(node);
  if (free == UINT64_MAX) return UINT64_MAX;
  const std::string info =
      root + "sys/devices/system/node/node" + std::to_string(node) + "/meminfo";
  uint64_t files = 0;
  for (const char* const name : {"Active(file)", "Inactive(file)"}) {
    const uint64_t bytes = MemoryInfo(info, name);
    if (bytes != UINT64_MAX) files += bytes;
  }
  return free + files / 2;
}

// A process that may use some nodes only is ended when these have no more, whatever the others
// have.
uint64_t AvailableAtNodes(const std::string& root, int numa_node) {
  NumaSystem& system = NumaSystem::Current();
  if (!system.Available()) return UINT64_MAX;
  std::vector<int> nodes{numa_node};
  if (numa_node == kNoNumaNode) {
    nodes = system.AllowedNodes();
    if (system.Nodes().size() <= nodes.size()) return UINT64_MAX;
  }
  uint64_t sum = 0;
  for (const int node : nodes) {
    const uint64_t available = AvailableAtNode(root, node);
    if (available == UINT64_MAX) return UINT64_MAX;
    sum += available;
  }
  return sum;
}

bool TakeChunk(char* data, size_t bytes) {
  return ::madvise(data, bytes, MADV_POPULATE_WRITE) == 0;
}

// The kernel makes a huge page of small ones, for which one is enough: of the others it has nothing
// to copy. 0, or an error's number. EAGAIN: the kernel was using some of the pages itself, as it
// does when it moves others out of the way.
int CollapseChunk(char* data, size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE of <linux/mman.h>
  constexpr int kAttempts = 4;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t whole = bytes / kHugePageBytes * kHugePageBytes;
  for (size_t offset = 0; offset < whole; offset += kHugePageBytes) {
    if (!TakeChunk(data + offset, page)) return errno;
  }
  for (int attempt = 0; whole > 0 && ::madvise(data, whole, kCollapse) != 0; ++attempt) {
    if (errno != EAGAIN || attempt + 1 == kAttempts) return errno;
  }
  return 0;
}

}  // namespace

size_t TakePages(char* data, size_t bytes) {
  const size_t into_page =
      reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  char* const first = data - into_page;
  const size_t all = bytes + into_page;
  for (size_t taken = 0; taken < all; taken += kTakenAtOnceBytes) {
    if (TakeChunk(first + taken, std::min(kTakenAtOnceBytes, all - taken))) continue;
    return taken == 0 ? 0 : taken - into_page;
  }
  return bytes;
}

TakenPages TakePagesInParallel(char* data, size_t bytes, bool huge,
                               const std::function<bool(size_t under_way)>& may_take) {
  const size_t chunks = (bytes + kTakenAtOnceBytes - 1) / kTakenAtOnceBytes;
  std::atomic<size_t> next{0};
  std::atomic<size_t> refused{chunks};  // The first one.
  std::atomic<size_t> under_way{0};
  std::atomic<bool> collapses{huge};       // Until the kernel has refused once.
  std::vector<size_t> huge_bytes(chunks);  // Each is written by one thread.
  const auto take_chunk = [&](size_t chunk) {
    char* const first = data + chunk * kTakenAtOnceBytes;
    const size_t size = std::min(kTakenAtOnceBytes, bytes - chunk * kTakenAtOnceBytes);
    if (collapses.load()) {
      const int refusal = CollapseChunk(first, size);
      if (refusal == 0) huge_bytes[chunk] = size / kHugePageBytes * kHugePageBytes;
      if (refusal != 0 && refusal != EAGAIN) collapses = false;
    }
    return TakeChunk(first, size);
  };
  const auto take = [&] {
    for (size_t i = next.fetch_add(1); i < refused.load(); i = next.fetch_add(1)) {
      const bool taken =
          may_take(under_way.fetch_add(kTakenAtOnceBytes) + kTakenAtOnceBytes) && take_chunk(i);
      under_way.fetch_sub(kTakenAtOnceBytes);
      if (taken) continue;
      size_t first = refused.load();
      while (i < first && !refused.compare_exchange_weak(first, i)) {
      }
    }
  };
  constexpr size_t kChunksPerThread = 8;
  constexpr size_t kThreadsMax = 16;
  const size_t wanted = std::min(
      {chunks / kChunksPerThread, kThreadsMax, static_cast<size_t>(port::ProcessorCount())});
  std::vector<port::Thread> threads;
  try {
    while (threads.size() + 1 < wanted) threads.emplace_back(take);
  } catch (const std::system_error&) {
    // Those that there are do it all.
  }
  take();
  for (port::Thread& thread : threads) thread.join();
  const auto end = huge_bytes.begin() + static_cast<ptrdiff_t>(refused.load());
  return {std::min(refused.load() * kTakenAtOnceBytes, bytes),
          std::accumulate(huge_bytes.begin(), end, size_t{0})};
}

uint64_t AvailableMemory(const std::string& root, int numa_node) {
  return std::min({MemoryInfo(root + "proc/meminfo", "MemAvailable"),
                   AvailableAtNodes(root, numa_node), LeastOfGroups(root, &RoomIn)});
}

uint64_t MemoryLimit(const std::string& root) {
  const uint64_t machine = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                           static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, LeastOfGroups(root, &LimitOf));
}

uint64_t MostOfMemory(const std::string& root) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return MemoryLimit(root) / page / 4 * 3 * page;
}

}  // namespace dlsm
