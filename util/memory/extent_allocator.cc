#include "util/memory/extent_allocator.h"

#include <fmt/core.h>

#include <iterator>
#include <utility>

namespace dlsm {

ExtentAllocator::ExtentAllocator(uint64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes / kExtentAlignment * kExtentAlignment) {
  if (capacity_bytes_ > 0) AddFree(0, capacity_bytes_);
}

void ExtentAllocator::AddFree(uint64_t offset, uint64_t bytes) {
  const auto added = by_size_.emplace(bytes, offset).first;
  try {
    by_offset_.emplace(offset, bytes);
  } catch (...) {
    by_size_.erase(added);
    throw;
  }
  free_bytes_ += bytes;
}

void ExtentAllocator::ChangeFree(ByOffset::iterator extent, uint64_t offset, uint64_t bytes) {
  auto by_size = by_size_.extract({extent->second, extent->first});
  auto by_offset = by_offset_.extract(extent);
  free_bytes_ = free_bytes_ - by_offset.mapped() + bytes;
  by_size.value() = {bytes, offset};
  by_offset.key() = offset;
  by_offset.mapped() = bytes;
  by_size_.insert(std::move(by_size));
  by_offset_.insert(std::move(by_offset));
}

void ExtentAllocator::RemoveFree(ByOffset::iterator extent) {
  by_size_.erase({extent->second, extent->first});
  free_bytes_ -= extent->second;
  by_offset_.erase(extent);
}

bool ExtentAllocator::Allocate(uint64_t bytes, uint64_t* offset) {
  if (bytes > capacity_bytes_) return false;  // So that rounding up cannot overflow.
  const uint64_t wanted = RoundUpToExtent(bytes == 0 ? 1 : bytes);
  const auto found = by_size_.lower_bound({wanted, 0});
  if (found == by_size_.end()) return false;
  const uint64_t extent_bytes = found->first;
  const uint64_t extent_offset = found->second;
  const auto extent = by_offset_.find(extent_offset);
  if (extent_bytes > wanted) {
    ChangeFree(extent, extent_offset + wanted, extent_bytes - wanted);
  } else {
    RemoveFree(extent);
  }
  *offset = extent_offset;
  return true;
}

Status ExtentAllocator::Free(uint64_t offset, uint64_t bytes) {
  if (offset > capacity_bytes_ || bytes > capacity_bytes_ - offset ||
      offset % kExtentAlignment != 0) {
    return Status::InvalidArgument(
        fmt::format("{} bytes at offset {} are no extent of {} bytes of memory", bytes, offset,
                    capacity_bytes_));
  }
  if (bytes == 0) return Status::OK();
  const uint64_t begin = offset;
  const uint64_t end = offset + RoundUpToExtent(bytes);
  const auto next = by_offset_.lower_bound(begin);
  const bool has_before = next != by_offset_.begin();
  const auto before = has_before ? std::prev(next) : next;
  if ((next != by_offset_.end() && next->first < end) ||
      (has_before && before->first + before->second > begin)) {
    return Status::InvalidArgument(
        fmt::format("{} bytes at offset {} are free already, at least in part", bytes, offset));
  }
  const bool joins_next = next != by_offset_.end() && next->first == end;
  const bool joins_before = has_before && before->first + before->second == begin;
  const uint64_t joined_end = joins_next ? end + next->second : end;
  if (joins_before) {
    if (joins_next) RemoveFree(next);
    ChangeFree(before, before->first, joined_end - before->first);
  } else if (joins_next) {
    ChangeFree(next, begin, joined_end - begin);
  } else {
    AddFree(begin, end - begin);
  }
  return Status::OK();
}

Status ExtentAllocator::CheckInvariants() const {
  uint64_t total = 0;
  uint64_t end_before = 0;
  bool first = true;
  for (const auto& [offset, bytes] : by_offset_) {
    if (bytes == 0 || offset % kExtentAlignment != 0 || bytes % kExtentAlignment != 0) {
      return Status::Corruption("a free extent is empty or not aligned");
    }
    if (!first && offset <= end_before) {
      return Status::Corruption("free extents touch or overlap");
    }
    if (offset > capacity_bytes_ || bytes > capacity_bytes_ - offset) {
      return Status::Corruption("a free extent is outside the region");
    }
    if (!by_size_.contains({bytes, offset})) {
      return Status::Corruption("a free extent cannot be found by its size");
    }
    first = false;
    end_before = offset + bytes;
    total += bytes;
  }
  if (by_size_.size() != by_offset_.size()) {
    return Status::Corruption("an extent can be found by its size that is not free");
  }
  if (total != free_bytes_) return Status::Corruption("the count of free bytes is wrong");
  return Status::OK();
}

}  // namespace dlsm
