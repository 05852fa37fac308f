// A set of bytes of a region, kept as disjoint ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace dlsm {

// [begin, end)
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// One thread at a time: the caller locks. Adding and removing a range costs O(log n), and what it
// swallows. One for which there is no memory throws std::bad_alloc, and has changed nothing; of
// several together those before it have been added, or removed.
class ByteRanges {
 public:
  using Map = std::map<uint64_t, uint64_t>;  // begin -> end; ranges neither overlap nor touch.

  void Add(ByteRange range);
  void Remove(ByteRange range);
  void Add(const ByteRanges& others);
  void Remove(const ByteRanges& others);
  // These two take no memory: the ranges come with theirs, and each that is removed leaves one hole
  // at most, for which *holes has some.
  void Add(ByteRanges&& others) noexcept;
  class Holes;
  void Remove(const ByteRanges& others, Holes* holes) noexcept;

  bool Contains(ByteRange range) const;
  bool Overlaps(ByteRange range) const;
  bool empty() const { return ranges_.empty(); }
  uint64_t bytes() const { return bytes_; }
  const Map& ranges() const { return ranges_; }

 private:
  // Adds it if it touches another.
  bool Join(ByteRange range) noexcept;
  void Remove(ByteRange range, Holes* holes);
  // Of the same end, with another begin; none lies between the two.
  Map::iterator Rekey(Map::iterator range, uint64_t begin);

  Map ranges_;
  uint64_t bytes_ = 0;
};

// Memory for so many holes in ranges, taken in advance.
class ByteRanges::Holes {
 public:
  explicit Holes(size_t count);

  // There must be one left.
  Map::node_type Take() noexcept { return nodes_.extract(nodes_.begin()); }

 private:
  Map nodes_;
};

}  // namespace dlsm
