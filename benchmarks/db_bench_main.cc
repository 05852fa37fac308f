// db_bench: measures dLSM, and its peers with the same keys, values, threads and clock.
//
//   fillseq                put all keys in order; the threads share them out
//   fillrandom             put num random keys in each thread (63% of all keys with one)
//   filluniquerandom       put all keys once in random order; shared out
//   fillbatch              as fillseq, in batches of 1000
//   bulkload               ingest all keys as a sorted stream; the threads share them out
//   fillsync               put num/1000 random keys, each with sync
//   overwrite              put num random keys in each thread into what is there
//   readrandom             get random keys
//   readmissing            get keys that lie between the others
//   readhot                get random keys of the first 1%
//   multireadrandom        get random keys in batches of 32; an operation is a key
//   pipelinedreadrandom    get random keys, 32 at a time under way (latencies: from a get's
//                          submission to its answer)
//   readseq                iterate from the first key (latencies: of 16 entries each)
//   readreverse            iterate from the last key down
//   seekrandom             new iterator, seek to a random key, --seek_nexts steps
//   indexquery             with --secondary_index: records by ranges of index keys,
//                          --index_records of them each
//   readrandomwriterandom  get or put random keys, --readwritepercent of them gets
//   readwhilewriting       readrandom, while one more thread overwrites
//   deleteseq              delete all keys in order; shared out
//   deleterandom           delete num random keys in each thread
//   deleteranges           delete num/1000 ranges of 100 keys in each thread
//   twophase               the most writes/s in a closed loop, then write latencies while writes
//                          arrive at --utilization of it, whether or not the store keeps up
//   verify                 get and scan every key, compare with what was written
//   compact flush waitforbackground stats levelstats
//
// A name may have settings of its own, in the place of flags, for example
// readrandom:threads=50:reads=20000 or readrandomwriterandom:readwritepercent=95; see
// benchmark_settings.h.
//
// The fill workloads start with an empty database. Sequential and unique workloads share the keys
// out among the threads; the others do num (or --reads, --writes) operations in each thread, as
// RocksDB's db_bench does. "found" is the share of reads that found their key.
#include <fmt/core.h>
#include <gflags/gflags.h>
#include <sys/sysinfo.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/bench_flags.h"
#include "benchmarks/bench_runner.h"
#include "benchmarks/benchmark_settings.h"
#include "benchmarks/engine_flags.h"
#include "benchmarks/flag_checks.h"
#include "benchmarks/report.h"
#include "benchmarks/scratch_folder.h"
#include "benchmarks/standard_output.h"
#include "benchmarks/time_series.h"
#include "dLSM/db.h"
#include "util/config_flag.h"
#include "util/file_descriptor.h"
#include "util/known_flags.h"
#include "util/program_version.h"

DEFINE_bool(histogram, false, "Print more percentiles");
DEFINE_bool(
    wait_for_start, false,
    "Before each workload and at the end, print \"ready NAME\" (\"ready close\") and wait for "
    "a line on standard input: so several processes begin together");
DEFINE_string(json, "", "File that gets an array with one object for each benchmark");

// Of bench_flags.cc and engine_flags.cc.
DECLARE_string(engine);
DECLARE_string(distribution);
DECLARE_string(compression_type);
DECLARE_string(table_format);
DECLARE_string(compaction_style);
DECLARE_string(compaction_place);
DECLARE_string(placement);
DECLARE_int32(power_of_d);
DECLARE_int32(scatter_width);
DECLARE_uint64(simulated_rtt_ns);
DECLARE_double(simulated_gbit_per_second);

namespace dlsm::bench {
namespace {

Status PrintConfiguration(const BenchOptions& options, const EngineOptions& engine_options,
                          const Engine& engine, double opening_seconds) {
  const double entry_bytes = static_cast<double>(options.key_bytes + options.value_bytes);
  Say("engine:         {}\n", engine_options.engine);
  for (const std::string& note : engine.Notes()) Say("  {}\n", note);
  if (engine_options.engine == "dlsm") {
    Say("  table format: {}, compaction style {}, merges on the {}\n", FLAGS_table_format,
        FLAGS_compaction_style, FLAGS_compaction_place);
    if (FLAGS_placement != "shard") {
      Say("  placement: {}, d {}, scattered over {}\n", FLAGS_placement, FLAGS_power_of_d,
          FLAGS_scatter_width);
    }
    if (FLAGS_simulated_rtt_ns > 0 || FLAGS_simulated_gbit_per_second > 0) {
      Say("  simulated network: {} ns, {} Gbit/s\n", FLAGS_simulated_rtt_ns,
          FLAGS_simulated_gbit_per_second);
    }
  }
  Say("entries:        {} keys of {} B, values of {} B: {:.1f} MB\n", options.num,
      options.key_bytes, options.value_bytes,
      static_cast<double>(options.num) * entry_bytes / (1 << 20));
  Say("keys chosen:    {}{}\n", FLAGS_distribution,
      options.distribution == Distribution::kUniform
          ? ""
          : fmt::format(", theta {}", options.zipf_theta));
  Say("threads:        {} on {} processors\n", options.threads, get_nprocs());
  Say("memtables:      {} of {:.1f} MB; tables of {:.1f} MB; {} filter bits; compression {}\n",
      engine_options.max_write_buffer_number,
      static_cast<double>(engine_options.write_buffer_size) / (1 << 20),
      static_cast<double>(engine_options.target_file_size_base) / (1 << 20),
      engine_options.bloom_bits, FLAGS_compression_type);
  Say("seed:           {}\n", options.seed);
  if (opening_seconds > 0) {
    Say("opened in:      {:.1f} ms, until an entry was read\n", opening_seconds * 1000);
  }
#ifndef __OPTIMIZE__
  Say("WARNING: compiled without optimisation; the figures say little\n");
#endif
  Say("\n{}\n", TableHeading());
  return FlushOutput();
}

Status Print(const BenchResult& result) {
  Say("{}\n", TableRow(result));
  if (FLAGS_histogram) Say("{}\n", LatencyText(result));
  if (!result.text.empty()) Say("{}\n", result.text);
  return FlushOutput();
}

// After each benchmark, so that a run which is cut short leaves what it has.
Status WriteResults(const std::vector<BenchResult>& results) {
  return FLAGS_json.empty() ? Status::OK() : WriteJson(FLAGS_json, results);
}

// What comes next waits until whoever started several processes lets all of them go on.
Status WaitForStart(const std::string& next) {
  if (!FLAGS_wait_for_start) return Status::OK();
  Say("ready {}\n", next);
  Status said = FlushOutput();
  if (!said.ok()) return said;
  std::string line;
  if (std::getline(std::cin, line)) return Status::OK();
  return Status::Aborted("standard input ended before the start of " + next,
                         "--wait_for_start needs a line for each workload, and one at the end");
}

// Runs them all, up to the first that fails.
Status RunBenchmarks(const BenchOptions& options, BenchRunner& runner,
                     std::vector<BenchResult>* results) {
  for (const std::string& name : options.benchmarks) {
    Benchmark benchmark;
    Status parsed = ParseBenchmark(name, options, &benchmark);
    if (!parsed.ok()) return parsed;
    if (runner.Skips(*benchmark.workload)) {
      Say("{:<22} skipped (--use_existing_db)\n", name);
      continue;
    }
    Status started = WaitForStart(name);
    if (!started.ok()) return started;
    const BenchResult result = runner.Run(benchmark);
    if (!result.status.ok()) {
      return Status::Aborted(name + " failed", result.status.ToString());
    }
    results->push_back(result);
    Status told = FirstError({Print(result), WriteResults(*results)});
    if (!told.ok()) return told;
  }
  return Status::OK();
}

Status RunAll() {
  BenchOptions options;
  EngineOptions engine_options;
  Status status = MakeBenchOptions(&options);
  if (status.ok()) status = MakeEngineOptions(&engine_options);
  // A path that cannot be written is told at once.
  if (status.ok()) status = WriteResults({});
  if (status.ok()) status = TimeSeriesFile(options.two_phase.time_series).Create();
  if (!status.ok()) return status;

  ScratchFolder scratch;
  if (engine_options.db.empty()) {
    const bool needs_folder = engine_options.engine != "dlsm";
    if (needs_folder && options.use_existing_db) return Wrong("db", "", "the folder that exists");
    if (needs_folder) status = scratch.Create();
    if (!status.ok()) return status;
    engine_options.db = needs_folder ? scratch.path() : "db_bench";
  }
  std::unique_ptr<Engine> engine;
  status = NewEngine(engine_options, &engine);
  if (!status.ok()) return status;
  BenchRunner runner(options, engine_options.engine, *engine);
  status = runner.Open();
  if (!status.ok()) return status;
  std::vector<BenchResult> results;
  status = PrintConfiguration(options, engine_options, *engine, runner.opening_seconds());
  if (status.ok()) status = RunBenchmarks(options, runner, &results);
  if (status.ok()) status = WaitForStart("close");
  return FirstError({status, engine->Close()});
}

}  // namespace
}  // namespace dlsm::bench

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  gflags::SetUsageMessage("db_bench [--benchmarks=fillrandom,readrandom,...] [flags]");
  // To write where nobody reads is an error like others: a scratch folder is removed after it, too.
  std::signal(SIGPIPE, SIG_IGN);
  dlsm::Status status = dlsm::CheckFlagsAreKnown(argc, argv);
  if (status.ok()) {
    gflags::ParseCommandLineFlags(&argc, &argv, true);
    if (FLAGS_engine == "dlsm") dlsm::FindConfigFile("db_bench");
    status = argc > 1 ? dlsm::bench::UnknownArgument(argv[1]) : dlsm::bench::RunAll();
  }
  gflags::ShutDownCommandLineFlags();
  if (status.ok()) return 0;
  std::fprintf(stderr, "db_bench: %s\n", status.ToString().c_str());
  return 1;
}
