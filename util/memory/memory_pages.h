// Pages of mapped memory, which the kernel otherwise gives one by one to who first writes to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace dlsm {

// Takes the pages of the range now, so that nobody who writes there waits for one. Returns how many
// bytes, from the beginning, have theirs: fewer than asked for where the machine has no more, none
// where the kernel does not know how (before 5.14).
size_t TakePages(char* data, size_t bytes);

// The same by several threads, as far as these can be had, for memory of many gigabytes. Any of
// them asks `may_take` before it takes kTakenAtOnceBytes: `under_way` are these, and what others
// are taking just now. Once refused, no more is taken. `data` is aligned to kHugePageBytes.
//
// `huge`: on huge pages where there are some to be had, also where the kernel gives none by itself
// (MADV_COLLAPSE, from 6.1 on; shared memory's switch in /sys has no say but "deny"). Who maps the
// same file afterwards, aligned as it is here, has them too.
inline constexpr size_t kTakenAtOnceBytes = size_t{64} << 20;
struct TakenPages {
  size_t bytes = 0;
  size_t huge_bytes = 0;  // Of these, at least; what is less than one, at the end, has small ones.
};
TakenPages TakePagesInParallel(char* data, size_t bytes, bool huge,
                               const std::function<bool(size_t under_way)>& may_take);

// What this process may still take without being ended for it: what the machine has available, or
// its control groups leave it, whichever is less; of the machine's NUMA nodes only those that this
// process is allowed, or only `numa_node` (kNoNumaNode: any; see util/numa.h). UINT64_MAX if
// nothing is known. `root` ("/") is where /proc and /sys are looked for.
uint64_t AvailableMemory(const std::string& root, int numa_node);

// What this process may have at most, though nobody else had any: what the machine has, or its
// control groups (those of a container, say) allow, whichever is less. With more it is ended, or
// slowed down until it hardly moves.
uint64_t MemoryLimit(const std::string& root);
// Three quarters of that, in whole pages: what is left is enough for the rest of the process.
uint64_t MostOfMemory(const std::string& root);

}  // namespace dlsm
