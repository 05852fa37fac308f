#include "util/fabric/buffer_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "port/allocation_point.h"

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

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, FreeMemory>;

Memory Allocate(size_t bytes) {
  return Memory(static_cast<char*>(std::aligned_alloc(std::min(bytes, kAlignmentMax), bytes)));
}

}  // namespace

class BufferPool::Shelves {
 public:
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

  void Give(Memory memory, size_t bytes) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    if (kept_bytes_ + bytes > kKeptBytesMax) return;
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

  port::Mutex mutex_;
  std::array<std::vector<Memory>, 64> kept_ GUARDED_BY(mutex_);  // By the size's exponent.
  size_t kept_bytes_ GUARDED_BY(mutex_) = 0;
};

BufferPool::BufferPool() : shelves_(std::make_shared<Shelves>()) {}

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
    shelves->Give(Memory(returned), rounded);
  });
  *buffer = RegisteredBuffer(std::move(shared), bytes, 0);
  return Status::OK();
}

}  // namespace dlsm
