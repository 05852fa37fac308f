// How much room the memory node has, between the heartbeats that tell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace dlsm {

// What a tree that wants to merge can count on. UINT64_MAX: nothing is known.
struct RoomLeft {
  uint64_t for_merges = UINT64_MAX;
  uint64_t for_data = UINT64_MAX;  // Less by what the memory node keeps for merges.
  bool full = false;               // The memory node has refused some for data.
  bool wanted = false;             // It has refused others some, which this tree may have.

  bool Fits(uint64_t input_bytes) const { return input_bytes <= for_merges; }
  // Whether a merge of so many bytes had better start now: before as many again are taken, it might
  // not fit any more, or there might be nothing left for data.
  bool IsPressing(uint64_t input_bytes) const {
    return full || input_bytes >= for_merges / 2 || input_bytes >= for_data;
  }
  // Whether leftovers (leftovers.h) are worth a merge of so many bytes, however little they are.
  // For the sake of others nothing is tried that does not fit.
  bool IsWorthLeftovers(uint64_t input_bytes) const {
    return full || (wanted && Fits(input_bytes));
  }
};

// Merges that make room must start while what they write still fits. What they take goes back only
// when they are done, and what comes of level 0 may be as large as that.
// Not thread-safe.
class RoomWatch {
 public:
  // The memory node has as much as `left` says, and this tree's tables have `own_bytes`.
  void NoteReport(const RoomLeft& left, uint64_t own_bytes) { report_ = Report{left, own_bytes}; }

  // What is left now that the tree's tables have `own_bytes`; others are taken to have what they
  // had.
  RoomLeft Left(uint64_t own_bytes) const {
    if (!report_.has_value()) return RoomLeft();
    const uint64_t grown = own_bytes > report_->own_bytes ? own_bytes - report_->own_bytes : 0;
    RoomLeft left = report_->left;
    left.for_merges -= std::min(left.for_merges, grown);
    left.for_data -= std::min(left.for_data, grown);
    return left;
  }

 private:
  struct Report {
    RoomLeft left;
    uint64_t own_bytes;
  };
  std::optional<Report> report_;
};

}  // namespace dlsm
