#include "util/fabric/buffer_pool.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "util/memory/huge_memory.h"
#include "util/numa.h"

namespace dlsm {
namespace {

constexpr size_t kAlignmentMax = 4096;
// A record's, mostly. Hundreds of them on pages of their own would be in each other's way: of a
// cache, a page's first lines can only use a part.
constexpr size_t kBufferBytesMin = 512;
constexpr size_t kBufferBytesMax = size_t{1} << 40;
// Enough for every flush and scan thread to find its buffers again; what is beyond goes back to the
// heap.
constexpr size_t kKeptBytesMax = size_t{64} << 20;

// Of slabs that small buffers on a NUMA node are cut from.
constexpr size_t kSlabBytes = size_t{64} << 10;

// Memory on a NUMA node. Thread-safe.
class NodeMemory {
 public:
  explicit NodeMemory(int numa_node) : numa_node_(numa_node) {}

  static bool IsCut(size_t bytes) { return bytes < kAlignmentMax; }

  // `bytes` is a power of two. std::bad_alloc if there is no memory.
  char* Allocate(size_t bytes) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    if (IsCut(bytes)) return CutLocked(bytes);
    const PageKind pages = bytes < kHugePageBytes ? PageKind::kSmall : PageKind::kHuge;
    HugeMemory mapping(bytes, pages, numa_node_);
    char* const data = mapping.data();
    mappings_.emplace(data, std::move(mapping));
    return data;
  }
  // A piece of a slab stays unused.
  void Free(char* memory) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    mappings_.erase(memory);
  }

 private:
  struct Slab {
    char* at = nullptr;
    size_t left = 0;
  };

  // Pieces of a slab have one size, which divides it.
  char* CutLocked(size_t bytes) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Slab& slab = slabs_[static_cast<size_t>(std::countr_zero(bytes))];
    if (slab.left == 0) {
      slab_memory_.emplace_back(kSlabBytes, PageKind::kSmall, numa_node_);
      slab = {slab_memory_.back().data(), kSlabBytes};
    }
    slab.left -= bytes;
    return std::exchange(slab.at, slab.at + bytes);
  }

  const int numa_node_;

  port::Mutex mutex_;
  std::map<const char*, HugeMemory> mappings_ GUARDED_BY(mutex_);  // By the buffer's address.
  std::vector<HugeMemory> slab_memory_ GUARDED_BY(mutex_);         // Kept until the end.
  std::array<Slab, 64> slabs_ GUARDED_BY(mutex_);  // By the exponent of their pieces' size.
};

struct FreeMemory {
  NodeMemory* node = nullptr;  // If it is null, the memory is the heap's.

  void operator()(char* memory) const { node == nullptr ? std::free(memory) : node->Free(memory); }
};
using Memory = std::unique_ptr<char, FreeMemory>;

}  // namespace

class BufferPool::Shelves {
 public:
  explicit Shelves(int numa_node)
      : node_(numa_node == kNoNumaNode ? nullptr : std::make_unique<NodeMemory>(numa_node)) {}

  Memory Take(size_t bytes) LOCKS_EXCLUDED(mutex_) {
    {
      port::MutexLock lock(mutex_);
      auto& shelf = kept_[Index(bytes)];
      if (!shelf.empty()) {
        Memory memory = std::move(shelf.back());
        shelf.pop_back();
        kept_bytes_ -= bytes;
        return memory;
      }
    }
    return Allocate(bytes);
  }

  // What Take() returned for so many bytes.
  void Give(char* returned, size_t bytes) LOCKS_EXCLUDED(mutex_) {
    Memory memory(returned, FreeMemory{node_.get()});
    port::MutexLock lock(mutex_);
    const bool is_cut = node_ != nullptr && NodeMemory::IsCut(bytes);
    if (!is_cut && kept_bytes_ + bytes > kKeptBytesMax) return;
    try {
      port::AllocationPoint("buffer kept");
      kept_[Index(bytes)].push_back(std::move(memory));
      kept_bytes_ += bytes;
    } catch (const std::bad_alloc&) {
      // It goes back to the heap, where it is wanted. Who gives it back is a destructor.
    }
  }

 private:
  static size_t Index(size_t bytes) { return static_cast<size_t>(std::countr_zero(bytes)); }

  Memory Allocate(size_t bytes) const {
    if (node_ == nullptr) {
      // Large ones are whole huge pages: to have a page made is most of what their first use costs.
      const bool huge = bytes >= kHugePageBytes;
      Memory memory(static_cast<char*>(
          std::aligned_alloc(huge ? kHugePageBytes : std::min(bytes, kAlignmentMax), bytes)));
      if (huge && memory != nullptr) static_cast<void>(madvise(memory.get(), bytes, MADV_HUGEPAGE));
      return memory;
    }
    try {
      return Memory(node_->Allocate(bytes), FreeMemory{node_.get()});
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  const std::unique_ptr<NodeMemory> node_;  // If it is null, buffers are on the heap.

  port::Mutex mutex_;
  std::array<std::vector<Memory>, 64> kept_ GUARDED_BY(mutex_);  // By the size's exponent.
  size_t kept_bytes_ GUARDED_BY(mutex_) = 0;
};

BufferPool::BufferPool(int numa_node) : shelves_(std::make_shared<Shelves>(numa_node)) {}

Status BufferPool::NewBuffer(size_t bytes, RegisteredBuffer* buffer) {
  if (bytes > kBufferBytesMax) {
    return Status::InvalidArgument(
        fmt::format("a transfer buffer of {} bytes is too large", bytes));
  }
  const size_t rounded = std::bit_ceil(std::max(bytes, kBufferBytesMin));
  Memory memory = shelves_->Take(rounded);
  if (memory == nullptr) {
    return Status::IOError(fmt::format(
        "no memory for a transfer buffer of {} bytes; free some or use smaller buffers", rounded));
  }
  std::shared_ptr<char[]> shared(memory.release(), [shelves = shelves_, rounded](char* returned) {
    shelves->Give(returned, rounded);
  });
  *buffer = RegisteredBuffer(std::move(shared), bytes, 0);
  return Status::OK();
}

}  // namespace dlsm
