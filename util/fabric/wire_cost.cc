#include "util/fabric/wire_cost.h"

namespace dlsm {

const char* PurposeName(Purpose purpose) {
  switch (purpose) {
    case Purpose::kRead:
      return "read";
    case Purpose::kFlush:
      return "flush";
    case Purpose::kCompaction:
      return "compaction";
    case Purpose::kRpc:
      return "rpc";
    case Purpose::kPublication:
      return "publication";
    case Purpose::kLog:
      return "log";
  }
  return "unknown";
}

WireCounts& WireCounts::operator+=(const WireCounts& other) {
  round_trips += other.round_trips;
  work_requests += other.work_requests;
  doorbells += other.doorbells;
  read_bytes += other.read_bytes;
  write_bytes += other.write_bytes;
  return *this;
}

WireCounts WireCounts::operator-(const WireCounts& earlier) const {
  WireCounts difference;
  difference.round_trips = round_trips - earlier.round_trips;
  difference.work_requests = work_requests - earlier.work_requests;
  difference.doorbells = doorbells - earlier.doorbells;
  difference.read_bytes = read_bytes - earlier.read_bytes;
  difference.write_bytes = write_bytes - earlier.write_bytes;
  return difference;
}

WireTotals WireCost::Totals() const {
  WireTotals totals;
  for (size_t i = 0; i < kPurposeCount; ++i) {
    const Counters& counters = counters_[i];
    totals[i].round_trips = counters.round_trips.load(std::memory_order_relaxed);
    totals[i].work_requests = counters.work_requests.load(std::memory_order_relaxed);
    totals[i].doorbells = counters.doorbells.load(std::memory_order_relaxed);
    totals[i].read_bytes = counters.read_bytes.load(std::memory_order_relaxed);
    totals[i].write_bytes = counters.write_bytes.load(std::memory_order_relaxed);
  }
  return totals;
}

}  // namespace dlsm
