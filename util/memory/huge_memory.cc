#include "util/memory/huge_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cstdint>
#include <limits>
#include <new>

namespace dlsm {
namespace {

size_t SmallPageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

HugeMemory::HugeMemory(size_t bytes, PageKind pages, int numa_node) {
  if (bytes > std::numeric_limits<size_t>::max() - 2 * kHugePageBytes) throw std::bad_alloc();
  bytes_ = RoundUp(bytes, SmallPageBytes());
  // The kernel aligns to small pages only: map more, then cut both ends off.
  const bool huge = pages == PageKind::kHuge;
  const size_t mapped_bytes = bytes_ + (huge ? kHugePageBytes : 0);
  void* mapped =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* const start = static_cast<char*>(mapped);
  if (!huge) {
    data_ = start;
    // Where huge pages are given unasked, neighbours together would be worth one. A refusal, where
    // the machine has none, costs nothing.
    madvise(data_, bytes_, MADV_NOHUGEPAGE);
    on_node_ = PreferredMemory(data_, bytes_, numa_node);
    return;
  }
  const size_t head = RoundUp(reinterpret_cast<uintptr_t>(start), kHugePageBytes) -
                      reinterpret_cast<uintptr_t>(start);
  data_ = start + head;
  if (head != 0) munmap(start, head);
  const size_t tail = mapped_bytes - head - bytes_;
  if (tail != 0) munmap(data_ + bytes_, tail);
  // A refusal costs speed only.
  madvise(data_, bytes_, MADV_HUGEPAGE);
  on_node_ = PreferredMemory(data_, bytes_, numa_node);
}

HugeMemory::~HugeMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

HugeMemory HugeMemoryPool::Take() {
  {
    port::MutexLock lock(mutex_);
    if (!kept_.empty()) {
      HugeMemory block = std::move(kept_.back());
      kept_.pop_back();
      return block;
    }
  }
  return HugeMemory(block_bytes_, pages_, numa_node_);
}

void HugeMemoryPool::Give(HugeMemory block) {
  assert(block.size() >= block_bytes_);
  port::MutexLock lock(mutex_);
  if (kept_.size() < kept_max_) kept_.push_back(std::move(block));
}  // The lock is gone before a block that was not kept is unmapped.

size_t HugeMemoryPool::KeptBytes() const {
  port::MutexLock lock(mutex_);
  return kept_.size() * block_bytes_;
}

}  // namespace dlsm
