#include "table/resident_memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "port/per_process.h"

namespace dlsm {
namespace {

// What is larger than this part of a block has a mapping of its own.
constexpr size_t kLargePart = 4;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DLSM_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(DLSM_ADDRESS_SANITIZER)
constexpr bool kUsesBlocks = false;
#else
constexpr bool kUsesBlocks = true;
#endif

}  // namespace

ResidentMemory& ResidentMemory::Shared() {
  static constinit port::PerProcess<ResidentMemory> memory;
  return memory.Here();
}

bool ResidentMemory::uses_blocks() { return kUsesBlocks; }

ResidentMemory::Copy ResidentMemory::Keep(const Slice& bytes) {
  port::AllocationPoint();
  if (!kUsesBlocks) {
    auto copy = std::make_shared<std::vector<char>>(bytes.data(), bytes.data() + bytes.size());
    return {Slice(copy->data(), copy->size()), copy};
  }
  if (bytes.size() > kBlockBytes / kLargePart) {
    const auto copy = std::make_shared<HugeMemory>(bytes.size());
    std::memcpy(copy->data(), bytes.data(), bytes.size());
    return {Slice(copy->data(), bytes.size()), copy};
  }
  if (bytes.empty()) return {};
  Block* block = nullptr;
  char* data = nullptr;
  {
    const port::MutexLock lock(mutex_);
    data = TakeLocked(bytes.size(), &block);
  }
  // If this throws, it has given the bytes back.
  std::shared_ptr<const void> owner(
      data, [this, block, size = bytes.size()](const char* taken) { Give(block, taken, size); });
  std::memcpy(data, bytes.data(), bytes.size());
  return {Slice(data, bytes.size()), std::move(owner)};
}

char* ResidentMemory::TakeLocked(size_t bytes, Block** block) {
  uint64_t offset = 0;
  for (const std::unique_ptr<Block>& each : blocks_) {
    if (each->extents.Allocate(bytes, &offset)) {
      *block = each.get();
      return each->memory.data() + offset;
    }
  }
  blocks_.push_back(std::make_unique<Block>());
  *block = blocks_.back().get();
  (void)(*block)->extents.Allocate(bytes, &offset);  // An empty block has room for any.
  return (*block)->memory.data() + offset;
}

void ResidentMemory::Give(Block* block, const char* data, size_t bytes) {
  std::unique_ptr<Block> unused;  // Unmapped without the lock.
  const port::MutexLock lock(mutex_);
  try {
    block->extents.Free(static_cast<uint64_t>(data - block->memory.data()), bytes)
        .PermitUncheckedError();  // They were allocated.
  } catch (const std::bad_alloc&) {
    return;  // They stay used: whoever lets go of a copy cannot be told.
  }
  if (block->extents.used_bytes() > 0) return;
  const auto is_unused = [](const auto& each) { return each->extents.used_bytes() == 0; };
  if (std::count_if(blocks_.begin(), blocks_.end(), is_unused) < 2) return;
  const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                  [block](const auto& each) { return each.get() == block; });
  unused = std::move(*found);
  blocks_.erase(found);
}

size_t ResidentMemory::blocks() const {
  const port::MutexLock lock(mutex_);
  return blocks_.size();
}

}  // namespace dlsm
