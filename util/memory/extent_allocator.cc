#include "util/memory/extent_allocator.h"

#include <fmt/core.h>

#include <algorithm>
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

bool ExtentAllocator::Find(uint64_t bytes, uint64_t* offset) const {
  if (bytes > capacity_bytes_) return false;  // So that rounding up cannot overflow.
  const auto found = by_size_.lower_bound({RoundUpToExtent(bytes == 0 ? 1 : bytes), 0});
  if (found == by_size_.end()) return false;
  *offset = found->second;
  return true;
}

bool ExtentAllocator::Allocate(uint64_t bytes, uint64_t* offset) {
  if (!Find(bytes, offset)) return false;
  return Take(*offset, bytes == 0 ? 1 : bytes).ok();
}

ExtentAllocator::ByOffset::const_iterator ExtentAllocator::Containing(uint64_t offset,
                                                                      uint64_t bytes) const {
  if (offset > capacity_bytes_ || bytes > capacity_bytes_ - offset) return by_offset_.end();
  const auto after = by_offset_.upper_bound(offset);
  if (after == by_offset_.begin()) return by_offset_.end();
  const auto extent = std::prev(after);
  const uint64_t end = extent->first + extent->second;
  return offset + RoundUpToExtent(bytes) <= end ? extent : by_offset_.end();
}

bool ExtentAllocator::NextFree(uint64_t from, uint64_t* begin, uint64_t* end) const {
  auto next = by_offset_.upper_bound(from);
  if (next != by_offset_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second > from) next = before;
  }
  if (next == by_offset_.end()) return false;
  *begin = std::max(next->first, from);
  *end = next->first + next->second;
  return true;
}

bool ExtentAllocator::IsFree(uint64_t offset, uint64_t bytes) const {
  return offset % kExtentAlignment == 0 && Containing(offset, bytes) != by_offset_.end();
}

Status ExtentAllocator::Take(uint64_t offset, uint64_t bytes) {
  if (!IsFree(offset, bytes)) {
    return Status::InvalidArgument(
        fmt::format("{} bytes at offset {} are not free, or not all of them", bytes, offset));
  }
  if (bytes == 0) return Status::OK();
  const auto extent = by_offset_.find(Containing(offset, bytes)->first);
  const uint64_t begin = extent->first;
  const uint64_t end = begin + extent->second;
  const uint64_t taken_end = offset + RoundUpToExtent(bytes);
  if (begin == offset && taken_end == end) {
    RemoveFree(extent);
  } else if (begin == offset) {
    ChangeFree(extent, taken_end, end - taken_end);
  } else {
    if (taken_end < end) AddFree(taken_end, end - taken_end);
    ChangeFree(extent, begin, offset - begin);
  }
  return Status::OK();
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
