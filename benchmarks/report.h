// What a benchmark gave, as a row of a table for people and an object of a JSON array for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/engine.h"
#include "dLSM/status.h"
#include "util/histogram.h"

namespace dlsm::bench {

struct Latencies {
  uint64_t count = 0;  // Of calls: a batch is one.
  double p50_us = 0;
  double p75_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double p9999_us = 0;
  double min_us = 0;
  double mean_us = 0;
  double max_us = 0;
};

Latencies ToLatencies(const Histogram& histogram, double micros_per_unit);

// A figure that only some workloads have.
struct NamedFigure {
  std::string name;
  std::optional<double> value;  // None: unknown.
};

struct BenchResult {
  std::string name;
  std::string engine;
  uint32_t threads = 1;
  uint64_t ops = 0;
  double seconds = 0;  // Until the last operation returned.
  // Workloads that write: until no flush and no merge was due.
  std::optional<double> seconds_to_quiet;
  uint64_t found = 0;
  uint64_t misses = 0;
  uint64_t background_writes = 0;  // Of the writer of readwhilewriting; not part of `ops`.
  Latencies latencies;

  // From the start until quiet.
  double own_cpu_seconds = 0;                         // Of this process.
  std::optional<double> memory_node_cpu_seconds = 0;  // None: unknown.
  uint64_t peak_rss_bytes = 0;
  std::vector<WireTotal> wire;
  uint64_t user_bytes_written = 0;
  uint64_t storage_bytes_written = 0;

  std::optional<double> index_bytes_per_key;  // At the end.
  std::optional<ValueCacheTotal> value_cache;
  std::vector<NamedFigure> figures;
  std::string text;  // What the workload itself prints.
  Status status;

  double PerOp(double quantity) const { return ops == 0 ? 0 : quantity / static_cast<double>(ops); }
  double OpsPerSecond() const { return seconds > 0 ? static_cast<double>(ops) / seconds : 0; }
  // Of one thread's operations.
  double MicrosPerOp() const { return PerOp(seconds * 1e6 * threads); }
  // Bytes written by flushes and merges for each byte that the user wrote; 0 if nothing was.
  double WriteAmplification() const;
  // Of this process and the memory nodes; none: unknown.
  std::optional<double> CpuSeconds() const;
  WireTotal WireSum() const;
};

std::string TableHeading();
std::string TableRow(const BenchResult& result);
// Enough digits for small figures, no noise after large ones.
std::string ShortNumber(double value);
// Several lines: the latencies in full.
std::string LatencyText(const BenchResult& result);

std::string ToJson(const std::vector<BenchResult>& results);
Status WriteJson(const std::string& path, const std::vector<BenchResult>& results);

}  // namespace dlsm::bench
