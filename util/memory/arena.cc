#include "util/memory/arena.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <utility>

#include "port/allocation_point.h"
#include "port/mutex.h"
#include "port/per_process.h"

namespace dlsm {
namespace {

constexpr size_t kChunkBytesMin = 512;
constexpr size_t kChunkBytesMax = 16384;
// A thread's chunk is at most this part of all that was handed out before it.
constexpr size_t kChunksMin = 128;
// What is larger than this part of a chunk (or block) does not come out of it, so that what is left
// at its end, and lost, is small.
constexpr size_t kLargePart = 4;

// Enough for four memtables of the default size.
constexpr size_t kKeptBytesMax = size_t{256} << 20;
// Blocks for 32 memtables that come and go; hundreds of them need not stay when they are gone.
constexpr size_t kKeptFirstBytesMax = size_t{16} << 20;

struct Pools {
  explicit Pools(int numa_node)
      : first(Arena::kFirstBlockBytes, kKeptFirstBytesMax, PageKind::kSmall, numa_node),
        blocks(Arena::kBlockBytes, kKeptBytesMax, PageKind::kHuge, numa_node) {}
  HugeMemoryPool first;
  HugeMemoryPool blocks;
};

// Those of nodes, each as soon as an arena is on it.
class NodePools {
 public:
  Pools& Of(int numa_node) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return pools_.try_emplace(numa_node, numa_node).first->second;
  }

 private:
  port::Mutex mutex_;
  std::map<int, Pools> pools_ GUARDED_BY(mutex_);
};

// Never destroyed: arenas may die after static destruction began.
Pools& SharedPools(int numa_node) {
  static constinit port::PerProcess<Pools> pools;
  static constinit port::PerProcess<NodePools> of_nodes;
  if (numa_node == kNoNumaNode) return pools.Here(kNoNumaNode);
  return of_nodes.Here().Of(numa_node);
}

size_t ChunkBytes(size_t handed_out) {
  return std::clamp(std::bit_floor(handed_out / kChunksMin), kChunkBytesMin, kChunkBytesMax);
}

size_t RoundUpToAlignment(size_t bytes) {
  return (bytes + Arena::kAlignmentMax - 1) / Arena::kAlignmentMax * Arena::kAlignmentMax;
}

}  // namespace

Arena::Arena(int numa_node)
    : Arena(&SharedPools(numa_node).first, &SharedPools(numa_node).blocks, numa_node) {}

Arena::~Arena() {
  port::MutexLock lock(mutex_);
  for (Block& block : blocks_) {
    HugeMemoryPool* const from = block.memory.size() == kFirstBlockBytes ? first_ : pool_;
    from->Give(std::move(block.memory));
  }
}

char* Arena::AllocateSlow(Chunk* chunk, size_t bytes, size_t alignment) {
  assert(std::has_single_bit(alignment));
  assert(alignment <= kAlignmentMax);
  const size_t chunk_bytes = ChunkBytes(MemoryUsage());
  if (bytes > chunk_bytes / kLargePart) return Take(bytes);
  chunk->at = Take(chunk_bytes);
  chunk->left = chunk_bytes;
  return Cut(chunk, bytes, alignment);
}

// What it returns is aligned to kAlignmentMax, because all sizes taken from blocks are multiples.
char* Arena::Take(size_t bytes) {
  if (bytes > kBlockBytes / kLargePart) return TakeOwn(bytes);
  port::AllocationPoint();
  bytes = RoundUpToAlignment(bytes);
  // Pairs with the release in TakeAfter: publishes the block's construction.
  Block* const block = current_.load(std::memory_order_acquire);
  char* piece = block == nullptr ? nullptr : TakeFrom(block, bytes);
  if (piece == nullptr) piece = TakeAfter(block, bytes);
  handed_out_.fetch_add(bytes, std::memory_order_relaxed);
  return piece;
}

char* Arena::TakeFrom(Block* block, size_t bytes) {
  // Relaxed: the pieces are disjoint, and the block was published before.
  const size_t offset = block->taken.fetch_add(bytes, std::memory_order_relaxed);
  const size_t size = block->memory.size();
  return bytes <= size && offset <= size - bytes ? block->memory.data() + offset : nullptr;
}

char* Arena::TakeAfter(const Block* used_up, size_t bytes) {
  port::MutexLock lock(mutex_);
  Block* const block = current_.load(std::memory_order_relaxed);
  if (block != used_up) {  // Another thread has brought one meanwhile.
    char* const piece = TakeFrom(block, bytes);
    if (piece != nullptr) return piece;
  }
  Block* const fresh = NextBlockLocked(bytes);
  char* const piece = TakeFrom(fresh, bytes);
  current_.store(fresh, std::memory_order_release);
  return piece;
}

Arena::Block* Arena::NextBlockLocked(size_t bytes) {
  port::AllocationPoint();
  const bool first = blocks_.empty() && bytes <= kFirstBlockBytes;
  return &blocks_.emplace_back(first ? first_->Take() : pool_->Take());
}

char* Arena::TakeOwn(size_t bytes) {
  port::AllocationPoint();
  HugeMemory memory(bytes, PageKind::kHuge, numa_node_);
  char* const piece = memory.data();
  const size_t taken = memory.size();
  {
    port::MutexLock lock(mutex_);
    large_.push_back(std::move(memory));
  }
  handed_out_.fetch_add(taken, std::memory_order_relaxed);
  return piece;
}

}  // namespace dlsm
