#include "benchmarks/cost_meter.h"

#include <optional>
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

// A memory node that has been started again meanwhile has begun anew.
std::optional<double> SecondsBetween(const std::optional<uint64_t>& before_micros,
                                     const std::optional<uint64_t>& after_micros) {
  if (!before_micros || !after_micros || *after_micros < *before_micros) return std::nullopt;
  return static_cast<double>(*after_micros - *before_micros) * 1e-6;
}

}  // namespace

CostMeter::CostMeter(Engine& engine) : engine_(engine), before_(engine.Counters()) {
  ResetPeakRss();
  cpu_seconds_ = ProcessCpuSeconds();
}

void CostMeter::Stop(BenchResult* result) {
  result->own_cpu_seconds = ProcessCpuSeconds() - cpu_seconds_;
  result->peak_rss_bytes = PeakRssBytes();
  EngineCounters after = engine_.Counters();
  result->wire = WireDifference(std::move(after.wire), before_.wire);
  result->storage_bytes_written = after.storage_bytes_written - before_.storage_bytes_written;
  result->memory_node_cpu_seconds =
      SecondsBetween(before_.remote_cpu_micros, after.remote_cpu_micros);
  result->index_bytes_per_key = after.index_bytes_per_key;
  if (after.value_cache && before_.value_cache) {
    result->value_cache = Difference(*after.value_cache, *before_.value_cache);
  }
}

}  // namespace dlsm::bench
