// What the machine and the engine spent between two moments.
#pragma once

#include "benchmarks/engine.h"
#include "benchmarks/report.h"

namespace dlsm::bench {

class CostMeter {
 public:
  // From now on.
  explicit CostMeter(Engine& engine);

  // Up to now.
  void Stop(BenchResult* result);

 private:
  Engine& engine_;
  EngineCounters before_;
  double cpu_seconds_ = 0;
};

}  // namespace dlsm::bench
