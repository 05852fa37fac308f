// Runs the benchmarks one after the other on one engine, and keeps account of what the database
// must hold.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/bench_options.h"
#include "benchmarks/benchmark_settings.h"
#include "benchmarks/engine.h"
#include "benchmarks/report.h"
#include "benchmarks/step_stream.h"
#include "benchmarks/tick_clock.h"
#include "benchmarks/value_generator.h"
#include "benchmarks/worker.h"
#include "benchmarks/workload.h"

namespace dlsm::bench {

// One thread. Opens the engine's database; whoever made the engine closes it.
class BenchRunner {
 public:
  // `options` and `engine` outlive the runner.
  BenchRunner(const BenchOptions& options, std::string engine_name, Engine& engine);

  // InvalidArgument if options.history names something that is no benchmark.
  Status Open();
  // How long Open() took with a database that existed, until its first entry was read; or 0.
  double opening_seconds() const { return opening_seconds_; }
  // Runs `benchmark`, whose options differ from the runner's in its settings at most; the result's
  // status says whether it did what it should.
  BenchResult Run(const Benchmark& benchmark);
  // With the runner's options.
  BenchResult Run(const Workload& workload) {
    return Run(Benchmark{workload.name, &workload, options_});
  }
  // Whether Run() would do nothing: fills do not touch a database that was there before.
  bool Skips(const Workload& workload) const {
    return workload.kind == Workload::Kind::kFill && options_.use_existing_db;
  }

 private:
  Status Empty();
  Status TakeHistory();
  void RunWhole(const Workload& workload, BenchResult* result);
  void RunMeasured(const Benchmark& benchmark, BenchResult* result);
  std::vector<std::unique_ptr<Worker>> MakeWorkers(const Benchmark& benchmark,
                                                   const SharedState& shared) const;
  void Collect(const std::vector<std::unique_ptr<Worker>>& workers, BenchResult* result) const;
  static std::vector<uint64_t> StepsTaken(const Workload& workload,
                                          const std::vector<std::unique_ptr<Worker>>& workers);
  void WaitUntilQuiet(BenchResult* result);
  Expectation Expected() const;

  const BenchOptions& options_;
  const std::string engine_name_;
  Engine& engine_;
  double opening_seconds_ = 0;
  const TickClock clock_;
  const ValueGenerator values_;
  WriteHistory history_;
  bool history_known_ = true;
  uint64_t runs_ = 0;
};

}  // namespace dlsm::bench
