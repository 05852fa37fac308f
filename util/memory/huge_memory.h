// Anonymous memory on huge pages, where the machine has them; and such as stays on small ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "port/mutex.h"
#include "util/numa.h"

namespace dlsm {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// What a first touch takes, and zeroes.
enum class PageKind : uint8_t { kHuge, kSmall };

// Owns one mapping, aligned to kHugePageBytes if it is for huge pages. Its bytes are zero at first
// and take room only once written, page by page. One thread at a time.
class HugeMemory {
 public:
  HugeMemory() = default;
  // Throws std::bad_alloc, like every allocation, when the process cannot have that much. Prefers
  // the NUMA node, see PreferredMemory.
  explicit HugeMemory(size_t bytes, PageKind pages = PageKind::kHuge, int numa_node = kNoNumaNode);
  HugeMemory(HugeMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        on_node_(std::move(other.on_node_)) {}
  HugeMemory& operator=(HugeMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(on_node_, other.on_node_);
    return *this;
  }
  ~HugeMemory();

  char* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
  PreferredMemory on_node_;
};

// Keeps blocks of one size that nobody uses for whoever needs the next one, because a block's first
// use costs a page fault and the zeroing of each page. Thread-safe.
class HugeMemoryPool {
 public:
  HugeMemoryPool(size_t block_bytes, size_t kept_bytes_max, PageKind pages = PageKind::kHuge,
                 int numa_node = kNoNumaNode)
      : block_bytes_(block_bytes),
        kept_max_(kept_bytes_max / block_bytes),
        pages_(pages),
        numa_node_(numa_node) {
    kept_.reserve(kept_max_);  // To give a block back needs no memory.
  }
  HugeMemoryPool(const HugeMemoryPool&) = delete;
  HugeMemoryPool& operator=(const HugeMemoryPool&) = delete;

  // The block's bytes are arbitrary.
  HugeMemory Take() LOCKS_EXCLUDED(mutex_);
  void Give(HugeMemory block) LOCKS_EXCLUDED(mutex_);

  size_t block_bytes() const { return block_bytes_; }
  size_t KeptBytes() const LOCKS_EXCLUDED(mutex_);

 private:
  const size_t block_bytes_;
  const size_t kept_max_;  // Blocks beyond these go back to the system.
  const PageKind pages_;
  const int numa_node_;

  mutable port::Mutex mutex_;
  std::vector<HugeMemory> kept_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
