#include "util/rpc/messages/merge_load.h"

#include <algorithm>
#include <cmath>

#include "util/coding.h"

namespace dlsm {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kThousand = 1000;
constexpr uint32_t kIdleUnknown = 0xffffffff;

}  // namespace

// | version: 4 | running: 8 | queued: 8 | bytes waiting: 8 | bytes merged: 8 | workers: 8 |
// | bytes per second: 8 | bytes per second max: 8 | idle thousandths of the CPU: 4, or all ones |
void MergeLoad::EncodeTo(std::string* to) const {
  PutFixed32(to, kVersion);
  for (const uint64_t value : {running, queued, bytes_waiting, bytes_merged, workers,
                               bytes_per_second, bytes_per_second_max}) {
    PutFixed64(to, value);
  }
  const auto thousandths = [](double share) {
    return static_cast<uint32_t>(std::lround(std::clamp(share, 0.0, 1.0) * kThousand));
  };
  PutFixed32(to, cpu_idle.has_value() ? thousandths(*cpu_idle) : kIdleUnknown);
}

bool MergeLoad::DecodeFrom(Slice* from) {
  uint32_t version = 0;
  if (!GetFixed32(from, &version) || version != kVersion) return false;
  for (uint64_t* value : {&running, &queued, &bytes_waiting, &bytes_merged, &workers,
                          &bytes_per_second, &bytes_per_second_max}) {
    if (!GetFixed64(from, value)) return false;
  }
  uint32_t idle = 0;
  if (!GetFixed32(from, &idle) || (idle > kThousand && idle != kIdleUnknown)) return false;
  cpu_idle.reset();
  if (idle != kIdleUnknown) cpu_idle = static_cast<double>(idle) / kThousand;
  return true;
}

}  // namespace dlsm
