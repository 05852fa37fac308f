// Memory for a memtable: handed out piece by piece by any number of threads, given back as a whole.
//
//   pools of blocks ──Take──> block  | chunk of thread 1 | chunk of thread 2 | large piece | free |
//                                      └ piece, piece, ...
//
//   1. A thread cuts pieces from its own chunk: no atomic instruction.
//   2. A thread takes a chunk, or a piece that is large for a chunk, from the current block with
//      one fetch-add.
//   3. Only the thread that finds the block used up takes a lock, and brings the next block. A
//      piece that is large for a block gets memory of its own.
//   4. The first block is a small one on small pages: of a huge page the first byte takes all, and
//      a process may have hundreds of memtables that hold next to nothing.
//
// Chunks grow with the arena, so that a small memtable is not full of chunks that are empty.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "port/mutex.h"
#include "util/memory/huge_memory.h"
#include "util/numa.h"
#include "util/thread_number.h"

namespace dlsm {

class Arena {
 public:
  static constexpr size_t kAlignmentMax = 64;
  static constexpr size_t kBlockBytes = 4 * kHugePageBytes;
  static constexpr size_t kFirstBlockBytes = size_t{512} << 10;

  // From pools that all arenas of the process on this NUMA node share; kNoNumaNode: all arenas that
  // are on none.
  explicit Arena(int numa_node = kNoNumaNode);
  // `first` has blocks of kFirstBlockBytes, `pool` of kBlockBytes; both outlive the arena.
  Arena(HugeMemoryPool* first, HugeMemoryPool* pool, int numa_node = kNoNumaNode)
      : first_(first), pool_(pool), numa_node_(numa_node) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  // Everything that was handed out is gone.
  ~Arena();

  // Thread-safe. The bytes are arbitrary. Throw std::bad_alloc when the machine has no more;
  // nothing has changed then.
  char* Allocate(size_t bytes) { return AllocateAligned(bytes, 1); }
  char* AllocateAligned(size_t bytes, size_t alignment = alignof(uint64_t)) {
    Chunk& chunk = chunks_.Local();
    char* const piece = Cut(&chunk, bytes, alignment);
    return piece != nullptr ? piece : AllocateSlow(&chunk, bytes, alignment);
  }

  // The bytes of chunks and large pieces handed out: more than their pieces' by what threads have
  // left in their chunks, which is little beside the sum. What the process has for it is up to a
  // page more, and up to a huge page beyond kFirstBlockBytes. Cheap.
  size_t MemoryUsage() const { return handed_out_.load(std::memory_order_relaxed); }

 private:
  struct Chunk {
    char* at = nullptr;
    size_t left = 0;
  };
  struct Block {
    explicit Block(HugeMemory from) : memory(std::move(from)) {}
    HugeMemory memory;
    std::atomic<size_t> taken{0};  // May run past the block: then it is used up.
  };

  static char* Cut(Chunk* chunk, size_t bytes, size_t alignment) {
    const size_t padding = -reinterpret_cast<uintptr_t>(chunk->at) & (alignment - 1);
    if (chunk->left < padding || chunk->left - padding < bytes || chunk->at == nullptr) {
      return nullptr;
    }
    char* const piece = chunk->at + padding;
    chunk->at = piece + bytes;
    chunk->left -= padding + bytes;
    return piece;
  }

  static char* TakeFrom(Block* block, size_t bytes);
  Block* NextBlockLocked(size_t bytes) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  char* AllocateSlow(Chunk* chunk, size_t bytes, size_t alignment);
  char* Take(size_t bytes) LOCKS_EXCLUDED(mutex_);
  char* TakeAfter(const Block* used_up, size_t bytes) LOCKS_EXCLUDED(mutex_);
  char* TakeOwn(size_t bytes) LOCKS_EXCLUDED(mutex_);

  HugeMemoryPool* const first_;
  HugeMemoryPool* const pool_;
  const int numa_node_;

  PerThread<Chunk> chunks_;
  std::atomic<size_t> handed_out_{0};
  std::atomic<Block*> current_{nullptr};

  port::Mutex mutex_;
  std::deque<Block> blocks_ GUARDED_BY(mutex_);
  std::vector<HugeMemory> large_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
