// What flushes and merges have written into each level: where write amplification comes from.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace dlsm {

// Thread-safe. Counts since the database was opened.
class LevelTraffic {
 public:
  struct Counts {
    uint64_t written = 0;   // Bytes of tables made for the level.
    uint64_t in_place = 0;  // Of these, by merges of tables of the same level alone.
    // Of these, by merges from above: what merges took along of the level itself.
    uint64_t taken_along = 0;
  };

  explicit LevelTraffic(size_t levels) : levels_(levels) {}

  void AddWritten(size_t level, uint64_t bytes) { Add(&levels_[level].written, bytes); }
  void AddInPlace(size_t level, uint64_t bytes) { Add(&levels_[level].in_place, bytes); }
  void AddTakenAlong(size_t level, uint64_t bytes) { Add(&levels_[level].taken_along, bytes); }

  Counts Of(size_t level) const {
    const Level& of = levels_[level];
    return Counts{of.written.load(std::memory_order_relaxed),
                  of.in_place.load(std::memory_order_relaxed),
                  of.taken_along.load(std::memory_order_relaxed)};
  }

 private:
  struct Level {
    std::atomic<uint64_t> written{0};
    std::atomic<uint64_t> in_place{0};
    std::atomic<uint64_t> taken_along{0};
  };
  static void Add(std::atomic<uint64_t>* to, uint64_t bytes) {
    to->fetch_add(bytes, std::memory_order_relaxed);
  }

  std::vector<Level> levels_;
};

}  // namespace dlsm
