#include "memory_node/accounts/byte_ranges.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "port/allocation_point.h"

namespace dlsm {

ByteRanges::Holes::Holes(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    port::AllocationPoint("byte ranges");
    nodes_.emplace_hint(nodes_.end(), i, i);
  }
}

// Only a range that touches no other needs memory, and takes it before anything has changed: others
// grow one that is there.
void ByteRanges::Add(ByteRange range) {
  assert(range.begin <= range.end);
  if (range.begin == range.end || Join(range)) return;
  port::AllocationPoint("byte ranges");
  ranges_.emplace(range.begin, range.end);
  bytes_ += range.end - range.begin;
}

void ByteRanges::Add(ByteRanges&& others) noexcept {
  if (ranges_.empty()) {
    ranges_.swap(others.ranges_);
    std::swap(bytes_, others.bytes_);
    return;
  }
  while (!others.ranges_.empty()) {
    auto node = others.ranges_.extract(others.ranges_.begin());
    const ByteRange range{node.key(), node.mapped()};
    if (Join(range)) continue;
    ranges_.insert(std::move(node));
    bytes_ += range.end - range.begin;
  }
  others.bytes_ = 0;
}

bool ByteRanges::Join(ByteRange range) noexcept {
  auto next = ranges_.upper_bound(range.begin);
  if (next != ranges_.begin() && std::prev(next)->second >= range.begin) --next;
  if (next == ranges_.end() || next->first > range.end) return false;
  auto grown = next++;
  range.begin = std::min(range.begin, grown->first);
  range.end = std::max(range.end, grown->second);
  bytes_ -= grown->second - grown->first;
  while (next != ranges_.end() && next->first <= range.end) {
    range.end = std::max(range.end, next->second);
    bytes_ -= next->second - next->first;
    next = ranges_.erase(next);
  }
  if (range.begin < grown->first) grown = Rekey(grown, range.begin);
  grown->second = range.end;
  bytes_ += range.end - range.begin;
  return true;
}

void ByteRanges::Remove(ByteRange range) { Remove(range, nullptr); }

// Only the hole in a range needs memory, and takes it before anything has changed.
void ByteRanges::Remove(ByteRange range, Holes* holes) {
  assert(range.begin <= range.end);
  if (range.begin == range.end) return;
  auto next = ranges_.upper_bound(range.begin);
  if (next != ranges_.begin() && std::prev(next)->second > range.begin) {
    const auto first = std::prev(next);
    if (first->first == range.begin) {
      next = first;
    } else {
      const uint64_t end = first->second;
      if (end > range.end && holes != nullptr) {
        auto behind = holes->Take();
        behind.key() = range.end;
        behind.mapped() = end;
        ranges_.insert(next, std::move(behind));
      } else if (end > range.end) {
        port::AllocationPoint("byte ranges");
        ranges_.emplace_hint(next, range.end, end);
      }
      first->second = range.begin;
      bytes_ -= std::min(end, range.end) - range.begin;
    }
  }
  while (next != ranges_.end() && next->first < range.end) {
    bytes_ -= std::min(next->second, range.end) - next->first;
    if (next->second > range.end) {
      Rekey(next, range.end);
      return;
    }
    next = ranges_.erase(next);
  }
}

ByteRanges::Map::iterator ByteRanges::Rekey(Map::iterator range, uint64_t begin) {
  const auto hint = std::next(range);
  auto node = ranges_.extract(range);
  node.key() = begin;
  return ranges_.insert(hint, std::move(node));
}

void ByteRanges::Add(const ByteRanges& others) {
  for (const auto& [begin, end] : others.ranges_) Add(ByteRange{begin, end});
}

void ByteRanges::Remove(const ByteRanges& others) {
  for (const auto& [begin, end] : others.ranges_) Remove(ByteRange{begin, end});
}

void ByteRanges::Remove(const ByteRanges& others, Holes* holes) noexcept {
  for (const auto& [begin, end] : others.ranges_) Remove(ByteRange{begin, end}, holes);
}

bool ByteRanges::Contains(ByteRange range) const {
  if (range.begin == range.end) return true;
  const auto next = ranges_.upper_bound(range.begin);
  return next != ranges_.begin() && std::prev(next)->second >= range.end;
}

bool ByteRanges::Overlaps(ByteRange range) const {
  if (range.begin == range.end) return false;
  const auto next = ranges_.lower_bound(range.end);
  return next != ranges_.begin() && std::prev(next)->second > range.begin;
}

}  // namespace dlsm
