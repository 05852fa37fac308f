// What the workloads are asked to do; the flags of db_bench, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/key_generator.h"
#include "benchmarks/two_phase_options.h"

namespace dlsm::bench {

struct BenchOptions {
  std::vector<std::string> benchmarks;

  uint64_t num = 1'000'000;
  uint64_t first_key = 0;  // The number of the first of them.
  uint64_t reads = 0;      // Of each thread; 0: num.
  uint64_t writes = 0;     // Of each thread; 0: num.
  uint32_t threads = 1;
  double duration_seconds = 0;  // If not 0, takes the place of the numbers of operations.

  size_t key_bytes = 20;
  size_t value_bytes = 400;
  double compression_ratio = 0.5;
  uint64_t batch_size = 0;  // 0: what is usual for the workload.
  uint32_t read_percent = 90;
  uint64_t seek_nexts = 0;
  uint64_t index_records = 10;  // Of a query of indexquery, on average.
  Distribution distribution = Distribution::kUniform;
  double zipf_theta = 0.99;
  uint64_t seed = 301;
  bool touch_values = true;
  bool progress = true;

  TwoPhaseOptions two_phase;

  bool use_existing_db = false;
  // The write workloads that an earlier run with the same flags left in the existing database.
  std::vector<std::string> history;
};

}  // namespace dlsm::bench
