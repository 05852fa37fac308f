#include "benchmarks/bench_flags.h"

#include <fmt/core.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <string>
#include <vector>

#include "benchmarks/benchmark_settings.h"
#include "benchmarks/flag_checks.h"
#include "benchmarks/key_generator.h"
#include "benchmarks/own_keys_flags.h"
#include "benchmarks/two_phase_flags.h"
#include "benchmarks/workload.h"
#include "dLSM/db.h"

DEFINE_string(benchmarks,
              "fillseq,fillrandom,overwrite,readrandom,readmissing,readhot,readseq,"
              "readreverse,seekrandom,multireadrandom,readrandomwriterandom,readwhilewriting,"
              "verify,compact,readrandom,readseq,deleterandom",
              "Workloads to run, in this order, separated by commas; each may have settings of "
              "its own in the place of flags: NAME:threads=2:reads=1000, also writes, batch_size, "
              "readwritepercent, seek_nexts and index_records");
DEFINE_bool(use_existing_db, false,
            "Open the database that is there, and leave it; fill workloads "
            "are skipped");
DEFINE_string(history, "",
              "With --use_existing_db, without --duration: the write workloads that an earlier run "
              "with the same flags did, so that verify knows what must be there");
DEFINE_uint64(num, 1'000'000, "Keys are numbers below this");
DEFINE_int64(reads, -1,
             "Reads of each thread, but for verify, which reads all keys; negative: num");
DEFINE_int64(writes, -1, "Writes of each thread; negative: num, or its share of the keys");
DEFINE_uint32(threads, 1, "Threads of each workload");
DEFINE_double(duration, 0, "Seconds for each workload; 0: as many as the operations take");
DEFINE_uint64(key_size, 20, "Bytes of a key");
DEFINE_uint64(value_size, 400, "Bytes of a value");
DEFINE_double(compression_ratio, 0.5, "What values compress to, of their size");
DEFINE_uint64(batch_size, 0,
              "Entries of a write batch, keys of a MultiGet; 0: 1 and 32, fillbatch "
              "1000");
DEFINE_uint32(readwritepercent, 90, "Reads of a hundred operations of readrandomwriterandom");
DEFINE_uint64(seek_nexts, 0, "Steps after each seek of seekrandom");
DEFINE_uint64(index_records, 10, "Records that a query of indexquery finds, on average");
DEFINE_string(distribution, "uniform",
              "Of the keys of all but the fill workloads: uniform, zipfian "
              "or latest");
DEFINE_double(zipf_theta, 0.99, "Skew of zipfian and latest");
DEFINE_uint64(seed, 301, "Of keys and values: the same seed, the same run");
DEFINE_bool(touch_values, true, "Read one byte of each cache line of every value found");
DEFINE_bool(progress, true, "Print progress of long workloads on stderr");

namespace dlsm::bench {
namespace {

Status CheckBenchmarks(const char* flag, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    Benchmark benchmark;
    const Status status = ParseBenchmark(name, BenchOptions(), &benchmark);
    if (!status.ok()) return Status::InvalidArgument(fmt::format("--{}", flag), status.message());
  }
  return Status::OK();
}

const Workload& WorkloadOf(const std::string& benchmark) {
  return *FindWorkload(benchmark.substr(0, benchmark.find(':')));
}

// Only what is a fixed function of the flags: how far the writer of readwhilewriting or twophase
// came, or any workload in a given time, is not. And only of a database that is not deleted first.
Status CheckHistory(const std::vector<std::string>& names) {
  Status status = CheckBenchmarks("history", names);
  if (status.ok() && !names.empty() && !FLAGS_use_existing_db) {
    status = Wrong("history", FLAGS_history,
                   "only with --use_existing_db: without it the run begins with an empty database");
  }
  if (status.ok() && !names.empty() && FLAGS_duration != 0) {
    status = Wrong("history", FLAGS_history,
                   "only without --duration: how much is written in a given time is not "
                   "known; leave --history out, and verify accepts any version of each key");
  }
  for (const std::string& name : names) {
    if (!status.ok()) return status;
    if (!WorkloadOf(name).WritesWhatFlagsSay()) {
      status = Wrong("history", name, "a list of fill, overwrite and delete workloads");
    }
  }
  return status;
}

// A flag for which a negative number stands for another value.
Status CheckCount(const char* flag, int64_t count) {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (count != 0 && count <= kMost) return Status::OK();
  return Wrong(flag, count, fmt::format("1 to {}, or a negative number", kMost));
}

Status CheckRanges() {
  return FirstError({
      CheckRange<uint64_t>("num", FLAGS_num, 1, uint64_t{1} << 40),
      CheckCount("reads", FLAGS_reads),
      CheckCount("writes", FLAGS_writes),
      CheckRange<uint32_t>("threads", FLAGS_threads, 1, 1024),
      CheckRange<double>("duration", FLAGS_duration, 0, 1e7),
      CheckRange<uint64_t>("key_size", FLAGS_key_size, KeyBytesMin(FLAGS_num), kKeyBytesMax),
      CheckRange<uint64_t>("value_size", FLAGS_value_size, 0, kValueBytesMax),
      CheckRange<double>("compression_ratio", FLAGS_compression_ratio, 0.01, 1),
      CheckRange<uint64_t>("batch_size", FLAGS_batch_size, 0, 1'000'000),
      CheckRange<uint64_t>("index_records", FLAGS_index_records, 1, uint64_t{1} << 40),
      CheckRange<uint32_t>("readwritepercent", FLAGS_readwritepercent, 0, 100),
      CheckRange<double>("zipf_theta", FLAGS_zipf_theta, 0.01, 10),
  });
}

// A time series is that of one run.
Status CheckTimeSeries(const BenchOptions& options) {
  if (options.two_phase.time_series.empty()) return Status::OK();
  const auto two_phase = [](const std::string& name) {
    return WorkloadOf(name).kind == Workload::Kind::kTwoPhase;
  };
  if (std::count_if(options.benchmarks.begin(), options.benchmarks.end(), two_phase) == 1) {
    return Status::OK();
  }
  return Wrong("timeseries", options.two_phase.time_series, "a file if twophase runs, once");
}

}  // namespace

Status MakeBenchOptions(BenchOptions* options) {
  options->benchmarks = SplitAtCommas(FLAGS_benchmarks);
  options->history = SplitAtCommas(FLAGS_history);
  size_t distribution = 0;
  Status status = FirstError({CheckBenchmarks("benchmarks", options->benchmarks),
                              CheckHistory(options->history), CheckRanges(),
                              CheckChoice("distribution", FLAGS_distribution,
                                          {"uniform", "zipfian", "latest"}, &distribution),
                              MakeTwoPhaseOptions(&options->two_phase)});
  if (status.ok()) status = CheckTimeSeries(*options);
  if (!status.ok()) return status;
  if (options->benchmarks.empty()) return Wrong("benchmarks", "", "a list of workloads");
  OwnKeys own;
  status = OwnKeysFromFlags(&own);
  if (!status.ok()) return status;
  options->num = own.count;
  options->first_key = own.first;
  options->reads = static_cast<uint64_t>(std::max<int64_t>(0, FLAGS_reads));
  options->writes = static_cast<uint64_t>(std::max<int64_t>(0, FLAGS_writes));
  options->threads = FLAGS_threads;
  options->duration_seconds = FLAGS_duration;
  options->key_bytes = FLAGS_key_size;
  options->value_bytes = FLAGS_value_size;
  options->compression_ratio = FLAGS_compression_ratio;
  options->batch_size = FLAGS_batch_size;
  options->read_percent = FLAGS_readwritepercent;
  options->seek_nexts = FLAGS_seek_nexts;
  options->index_records = FLAGS_index_records;
  options->distribution = static_cast<Distribution>(distribution);
  options->zipf_theta = FLAGS_zipf_theta;
  options->seed = FLAGS_seed;
  options->touch_values = FLAGS_touch_values;
  options->progress = FLAGS_progress;
  options->use_existing_db = FLAGS_use_existing_db;
  return Status::OK();
}

}  // namespace dlsm::bench
