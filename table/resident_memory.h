// Memory for the resident parts of tables: on huge pages, for lookups come to random places of all
// of them, and aligned to cache lines, for a filter is asked by the line. Small and large copies
// share blocks, each with an allocator of its own; a block that nobody uses goes back to the
// system, but for one.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dLSM/slice.h"
#include "port/mutex.h"
#include "util/memory/extent_allocator.h"
#include "util/memory/huge_memory.h"

namespace dlsm {

// Thread-safe. Outlives its copies.
class ResidentMemory {
 public:
  struct Copy {
    Slice bytes;
    std::shared_ptr<const void> owner;  // The bytes stay for as long as one is left.
  };
  static constexpr size_t kBlockBytes = size_t{16} << 20;

  // One for the whole process, and another for each child of it; never destroyed.
  static ResidentMemory& Shared();

  // Throws std::bad_alloc, like every allocation.
  Copy Keep(const Slice& bytes) LOCKS_EXCLUDED(mutex_);

  size_t blocks() const LOCKS_EXCLUDED(mutex_);
  // False with AddressSanitizer, which is to notice a look beyond a copy's bytes.
  static bool uses_blocks();

 private:
  struct Block {
    Block() : memory(kBlockBytes), extents(kBlockBytes) {}

    const HugeMemory memory;
    ExtentAllocator extents;  // Guarded by the mutex of its owner.
  };

  char* TakeLocked(size_t bytes, Block** block) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Give(Block* block, const char* data, size_t bytes) LOCKS_EXCLUDED(mutex_);

  mutable port::Mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
