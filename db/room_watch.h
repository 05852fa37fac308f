// How much room the memory node has, between the heartbeats that tell.
#pragma once

#include <cstdint>
#include <optional>

namespace dlsm {

// What a tree that wants to merge can count on.
struct RoomLeft {
  uint64_t free_bytes = UINT64_MAX;
  bool full = false;  // For more data: the memory node has refused some. Merges have more.

  bool Fits(uint64_t input_bytes) const { return input_bytes <= free_bytes; }
  // Whether a merge of so many bytes had better start now: before as many again are taken, it might
  // not fit any more.
  bool IsPressing(uint64_t input_bytes) const { return full || input_bytes >= free_bytes / 2; }
};

// Merges that make room must start while what they write still fits. What they take goes back only
// when they are done, and what comes of level 0 may be as large as that.
// Not thread-safe.
class RoomWatch {
 public:
  // The memory node has `free_bytes`, and this tree's tables have `own_bytes`.
  void NoteReport(uint64_t free_bytes, uint64_t own_bytes) {
    report_ = Report{free_bytes, own_bytes};
  }

  // What is free now that the tree's tables have `own_bytes`; others are taken to have what they
  // had. Nothing before the first report.
  std::optional<uint64_t> FreeBytes(uint64_t own_bytes) const {
    if (!report_.has_value()) return std::nullopt;
    const uint64_t grown = own_bytes > report_->own_bytes ? own_bytes - report_->own_bytes : 0;
    return report_->free_bytes > grown ? report_->free_bytes - grown : 0;
  }

 private:
  struct Report {
    uint64_t free_bytes;
    uint64_t own_bytes;
  };
  std::optional<Report> report_;
};

}  // namespace dlsm
