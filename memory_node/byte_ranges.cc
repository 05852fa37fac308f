#include "memory_node/byte_ranges.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace dlsm {

void ByteRanges::Add(ByteRange range) {
  assert(range.begin <= range.end);
  if (range.begin == range.end) return;
  auto next = ranges_.upper_bound(range.begin);
  if (next != ranges_.begin() && std::prev(next)->second >= range.begin) --next;
  while (next != ranges_.end() && next->first <= range.end) {
    range.begin = std::min(range.begin, next->first);
    range.end = std::max(range.end, next->second);
    bytes_ -= next->second - next->first;
    next = ranges_.erase(next);
  }
  ranges_.emplace_hint(next, range.begin, range.end);
  bytes_ += range.end - range.begin;
}

void ByteRanges::Remove(ByteRange range) {
  assert(range.begin <= range.end);
  if (range.begin == range.end) return;
  auto next = ranges_.upper_bound(range.begin);
  if (next != ranges_.begin() && std::prev(next)->second > range.begin) --next;
  while (next != ranges_.end() && next->first < range.end) {
    const auto [begin, end] = *next;
    next = ranges_.erase(next);
    if (begin < range.begin) ranges_.emplace_hint(next, begin, range.begin);
    if (end > range.end) ranges_.emplace_hint(next, range.end, end);
    bytes_ -= std::min(end, range.end) - std::max(begin, range.begin);
  }
}

void ByteRanges::Add(const ByteRanges& others) {
  for (const auto& [begin, end] : others.ranges_) Add(ByteRange{begin, end});
}

void ByteRanges::Remove(const ByteRanges& others) {
  for (const auto& [begin, end] : others.ranges_) Remove(ByteRange{begin, end});
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
