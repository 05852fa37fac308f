// Where a merge is to run: an estimate of when it would be done on either side.
//
//   memory node    bytes waiting there ahead of it / (rate of a worker * workers)
//                  + its bytes / rate of a worker
//   compute node   bytes that merges here have left / (rate here * threads)
//                  + its bytes / rate here
//
// A budget bounds the rates. The rate here is measured over whole merges, what they wait for the
// network included. Where none has run of late it is put together: the memory node's rate, for
// the work is the same, and the transfer of what is read and written at the rate of flushes.
//
// Near the data is where a merge belongs, so the memory node is left only where the compute node
// would be done in half the time, and returned to when it is no longer clearly the slower one. On a
// compute node whose processors are busy, while the memory node's are not, a merge counts twice:
// there it takes them from the application. Whatever is not known speaks for the memory node.
#pragma once

#include <cstdint>
#include <optional>

#include "util/rpc/messages/merge_load.h"

namespace dlsm {

enum class PlaceReason : uint8_t {
  kFixed = 0,       // The options say where.
  kNearData,        // The memory node is not clearly the slower one.
  kUnknown,         // It has not told its load of late, or there is no rate yet.
  kMemoryNodeBusy,  // The compute node is done much earlier.
  kRefused,         // The memory node does not take it, or what would ask for it is too long.
  kOwnCode,         // Comparator or filter policy exist in the application only.
};
inline constexpr size_t kPlaceReasonCount = 6;

struct PlaceChoice {
  bool local = false;  // On the compute node.
  PlaceReason reason = PlaceReason::kUnknown;
  // The estimates; 0: there is none.
  double remote_seconds = 0;
  double local_seconds = 0;
};

// What is known of the memory node.
struct RemoteMergeSide {
  bool known = false;    // There is a report, and it is no old one.
  bool refused = false;  // It has sent a merge back since its report.
  MergeLoad load;
  uint64_t sent_bytes = 0;  // Of merges sent since the report was made.
};

// And of this process.
struct LocalMergeSide {
  uint64_t bytes_left = 0;  // Of the merges that run.
  uint64_t threads = 1;
  uint64_t bytes_per_second = 0;           // Of one merge; 0: not known.
  uint64_t transfer_bytes_per_second = 0;  // 0: not known.
  uint64_t bytes_per_second_max = 0;       // Budget of all; 0: none.
  std::optional<double> cpu_idle;
};

// Whether a side with this share of its processors idle has none to spare; not, if it is not known.
inline bool IsBusy(const std::optional<double>& cpu_idle) {
  constexpr double kIdleLeast = 0.1;
  return cpu_idle.has_value() && *cpu_idle < kIdleLeast;
}

// One thread at a time.
class MergePlacement {
 public:
  // For a merge of so many bytes of input.
  PlaceChoice Choose(uint64_t bytes, const RemoteMergeSide& remote, const LocalMergeSide& local);

 private:
  bool away_ = false;  // The last merge went to the compute node.
};

}  // namespace dlsm
