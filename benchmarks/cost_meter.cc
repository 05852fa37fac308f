#include "benchmarks/cost_meter.h"

#include <utility>

#include "benchmarks/resource_usage.h"

namespace dlsm::bench {
namespace {

// Purposes that only the later totals have count from 0.
std::vector<WireTotal> WireDifference(std::vector<WireTotal> after,
                                      const std::vector<WireTotal>& before) {
  for (WireTotal& total : after) {
    for (const WireTotal& earlier : before) {
      if (earlier.purpose != total.purpose) continue;
      total.round_trips -= earlier.round_trips;
      total.work_requests -= earlier.work_requests;
      total.doorbells -= earlier.doorbells;
      total.read_bytes -= earlier.read_bytes;
      total.write_bytes -= earlier.write_bytes;
    }
  }
  return after;
}

ValueCacheTotal Difference(const ValueCacheTotal& after, const ValueCacheTotal& before) {
  return {after.hits - before.hits, after.misses - before.misses, after.inserts - before.inserts,
          after.evictions - before.evictions};
}

}  // namespace

CostMeter::CostMeter(Engine& engine) : engine_(engine), before_(engine.Counters()) {
  ResetPeakRss();
  cpu_seconds_ = ProcessCpuSeconds();
}

void CostMeter::Stop(BenchResult* result) {
  const double cpu_seconds = ProcessCpuSeconds() - cpu_seconds_;
  result->peak_rss_bytes = PeakRssBytes();
  EngineCounters after = engine_.Counters();
  result->wire = WireDifference(std::move(after.wire), before_.wire);
  result->storage_bytes_written = after.storage_bytes_written - before_.storage_bytes_written;
  result->memory_node_cpu_seconds =
      static_cast<double>(after.remote_cpu_micros - before_.remote_cpu_micros) * 1e-6;
  result->cpu_seconds = cpu_seconds + result->memory_node_cpu_seconds;
  result->index_bytes_per_key = after.index_bytes_per_key;
  if (after.value_cache && before_.value_cache) {
    result->value_cache = Difference(*after.value_cache, *before_.value_cache);
  }
}

}  // namespace dlsm::bench
