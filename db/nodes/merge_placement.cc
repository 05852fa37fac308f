#include "db/nodes/merge_placement.h"

#include <algorithm>

namespace dlsm {
namespace {

// How many times as long the memory node must take for a merge to leave it, and to stay away.
constexpr double kLeaves = 2;
constexpr double kStaysAway = 1.25;
// Not worth leaving for, whatever the ratio: about what a merge's call and its reply take.
constexpr double kSecondsSavedLeast = 0.01;

constexpr double kBusyCost = 2;

// Bytes that a merge here moves, for each byte of input: what it reads, and at most as much again
// that it writes.
constexpr double kMovedPerByte = 2;

// Of one merge, and of all that run at a time.
struct Speed {
  double one = 0;
  double all = 0;
};

Speed SpeedOf(double bytes_per_second, uint64_t at_a_time, uint64_t budget) {
  Speed speed{bytes_per_second, bytes_per_second * static_cast<double>(at_a_time)};
  if (budget > 0) {
    speed.one = std::min(speed.one, static_cast<double>(budget));
    speed.all = std::min(speed.all, static_cast<double>(budget));
  }
  return speed;
}

double SecondsFor(uint64_t ahead, uint64_t bytes, const Speed& speed) {
  return static_cast<double>(ahead) / speed.all + static_cast<double>(bytes) / speed.one;
}

// 0: not known.
double LocalRate(const RemoteMergeSide& remote, const LocalMergeSide& local) {
  if (local.bytes_per_second > 0) return static_cast<double>(local.bytes_per_second);
  if (local.transfer_bytes_per_second == 0) return 0;
  return 1 / (1 / static_cast<double>(remote.load.bytes_per_second) +
              kMovedPerByte / static_cast<double>(local.transfer_bytes_per_second));
}

}  // namespace

PlaceChoice MergePlacement::Choose(uint64_t bytes, const RemoteMergeSide& remote,
                                   const LocalMergeSide& local) {
  PlaceChoice choice;
  if (remote.refused || (remote.known && remote.load.workers == 0)) {
    choice.local = true;
    choice.reason = PlaceReason::kRefused;
    return choice;
  }
  const bool rated = remote.known && remote.load.bytes_per_second > 0;
  const double local_rate = rated ? LocalRate(remote, local) : 0;
  if (local_rate == 0) {
    away_ = false;
    return choice;
  }
  choice.remote_seconds =
      SecondsFor(remote.load.bytes_waiting + remote.sent_bytes, bytes,
                 SpeedOf(static_cast<double>(remote.load.bytes_per_second), remote.load.workers,
                         remote.load.bytes_per_second_max));
  choice.local_seconds = SecondsFor(
      local.bytes_left, bytes,
      SpeedOf(local_rate, std::max<uint64_t>(local.threads, 1), local.bytes_per_second_max));
  if (IsBusy(local.cpu_idle) && !IsBusy(remote.load.cpu_idle)) choice.local_seconds *= kBusyCost;
  const double ratio = away_ ? kStaysAway : kLeaves;
  away_ = choice.remote_seconds > choice.local_seconds * ratio &&
          choice.remote_seconds - choice.local_seconds > kSecondsSavedLeast;
  choice.local = away_;
  choice.reason = away_ ? PlaceReason::kMemoryNodeBusy : PlaceReason::kNearData;
  return choice;
}

}  // namespace dlsm
