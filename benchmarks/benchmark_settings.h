// A benchmark as --benchmarks names it: a workload of the catalogue and, behind colons, settings
// that hold for it alone, in the place of the flags of the same name.
//
//   readrandom                          as the flags say
//   readrandom:threads=50:reads=20000   50 threads, each of which reads 20000 times
#pragma once

#include <string>

#include "benchmarks/bench_options.h"
#include "benchmarks/workload.h"
#include "dLSM/status.h"

namespace dlsm::bench {

struct Benchmark {
  std::string name;  // As it was given: so runs of a workload with different settings differ in it.
  const Workload* workload = nullptr;
  BenchOptions options;
};

// The settings that a benchmark may have of its own, for messages.
std::string BenchmarkSettingNames();

// *benchmark gets `defaults` where `text` sets nothing else. InvalidArgument, which names the
// workloads, settings or values that are allowed.
Status ParseBenchmark(const std::string& text, const BenchOptions& defaults, Benchmark* benchmark);

}  // namespace dlsm::bench
