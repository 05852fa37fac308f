// db_bench: measures dLSM, and its peers with the same keys, values, threads and clock.
//
//   fillseq                put all keys in order; the threads share them out
//   fillrandom             put num random keys in each thread (63% of all keys with one)
//   filluniquerandom       put all keys once in random order; shared out
//   fillbatch              as fillseq, in batches of 1000
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
//   readrandomwriterandom  get or put random keys, --readwritepercent of them gets
//   readwhilewriting       readrandom, while one more thread overwrites
//   deleteseq              delete all keys in order; shared out
//   deleterandom           delete num random keys in each thread
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

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench_runner.h"
#include "benchmarks/benchmark_settings.h"
#include "benchmarks/flag_checks.h"
#include "benchmarks/report.h"
#include "benchmarks/scratch_folder.h"
#include "benchmarks/standard_output.h"
#include "benchmarks/time_series.h"
#include "benchmarks/tls_flags.h"
#include "benchmarks/two_phase_flags.h"
#include "benchmarks/workload.h"
#include "dLSM/db.h"
#include "util/cluster_config.h"
#include "util/known_flags.h"

DEFINE_string(benchmarks,
              "fillseq,fillrandom,overwrite,readrandom,readmissing,readhot,readseq,"
              "readreverse,seekrandom,multireadrandom,readrandomwriterandom,readwhilewriting,"
              "verify,compact,readrandom,readseq,deleterandom",
              "Workloads to run, in this order, separated by commas; each may have settings of "
              "its own in the place of flags: NAME:threads=2:reads=1000, also writes, batch_size, "
              "readwritepercent and seek_nexts");
DEFINE_string(engine, "dlsm", "dlsm, rocksdb, rocksdb_mmap or leveldb");
DEFINE_string(db, "",
              "Name (dlsm) or folder (others) of the database; empty: db_bench (dlsm), or a "
              "folder in tmpfs that is deleted at the end");
DEFINE_bool(use_existing_db, false,
            "Open the database that is there, and leave it; fill workloads "
            "are skipped");
DEFINE_bool(take_over, false, "dlsm: open it although another process has it open");
DEFINE_bool(follow, false,
            "dlsm, with --use_existing_db: read as a follower what another process, which has the "
            "database open with --publish_interval_ms, publishes or has published at its end; "
            "workloads that write fail");
DEFINE_uint64(publish_interval_ms, 0,
              "dlsm: how often what was written is published for followers; 0: not at all");
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
DEFINE_uint32(readwritepercent, 90, "Share of reads in readrandomwriterandom");
DEFINE_uint64(seek_nexts, 0, "Steps after each seek of seekrandom");
DEFINE_string(distribution, "uniform",
              "Of the keys of all but the fill workloads: uniform, zipfian "
              "or latest");
DEFINE_double(zipf_theta, 0.99, "Skew of zipfian and latest");
DEFINE_uint64(seed, 301, "Of keys and values: the same seed, the same run");
DEFINE_bool(touch_values, true, "Read one byte of each cache line of every value found");
DEFINE_bool(histogram, false, "Print more percentiles");
DEFINE_bool(progress, true, "Print progress of long workloads on stderr");
DEFINE_bool(
    wait_for_start, false,
    "Before each workload and at the end, print \"ready NAME\" (\"ready close\") and wait for "
    "a line on standard input: so several processes begin together");
DEFINE_string(json, "", "File that gets an array with one object for each benchmark");

DEFINE_uint64(write_buffer_size, 64 << 20, "Bytes of a memtable");
DEFINE_uint64(memory_budget, 0, "dlsm: see Options::memory_budget; 0: as much as it takes");
DEFINE_uint64(value_cache_size, 0, "dlsm: bytes, see Options::value_cache_size; 0: none");
DEFINE_int32(max_write_buffer_number, 4, "Memtables, the active one included");
DEFINE_uint64(target_file_size_base, 64 << 20, "Bytes of a table made by a merge");
DEFINE_int32(max_background_flushes, 2, "Flushes at a time");
DEFINE_int32(max_background_compactions, 2, "Merges at a time");
DEFINE_int32(subcompactions, 2, "Parts of a merge at a time");
DEFINE_int32(level0_file_num_compaction_trigger, 4, "Tables in level 0 that start a merge");
DEFINE_int32(level0_stop_writes_trigger, 24, "Tables in level 0 that stop writers");
DEFINE_string(component_constraint, "local",
              "dlsm: what stops writers: local (tables in level 0) or global (sorted runs)");
DEFINE_int32(max_components, 0, "dlsm, global: sorted runs; 0: twice the expected number");
DEFINE_bool(slow_down_writes, false, "dlsm: slow writers down before they must stop");
DEFINE_uint64(max_bytes_for_level_base, 256 << 20, "Bytes of level 1");
DEFINE_int32(bloom_bits, 10, "Filter bits for each key; 0: no filter");
DEFINE_int64(cache_size, -1,
             "Bytes of the block cache; negative: what holds the data, at most 4 GB");
DEFINE_uint64(block_size, 8192, "Bytes of a block of dlsm's block-based tables");
DEFINE_string(compression_type, "none", "none or snappy");
DEFINE_bool(verify_checksum, false, "Verify checksums on reads");

DEFINE_string(table_format, "byte", "dlsm: byte or block");
DEFINE_string(compaction_style, "guards", "dlsm: see CompactionStyle in options.h");
DEFINE_int32(max_tables_per_guard, 16, "dlsm: sorted runs of a guard that start a merge");
DEFINE_int32(guard_bits, 0, "dlsm: trailing zero bits of the hash of guards; 0: by table size");
DEFINE_int32(num_levels, 7, "dlsm: levels of the tree");
DEFINE_int32(max_size_amplification_percent, 200,
             "dlsm: bytes of newer runs that start a merge with the oldest, in percent of it");
DEFINE_int32(idle_size_amplification_percent, 4,
             "dlsm: the same while nobody writes; 0: only what is read is merged then");
DEFINE_string(
    merge_scheduler, "greedy",
    "dlsm: of merges in this process: single, fair, greedy, spring_and_gear; a Server has "
    "a flag of its own");
DEFINE_uint64(compaction_bandwidth_mb, 0,
              "dlsm: megabytes of input a second for merges in this process; 0: no limit");
DEFINE_string(compaction_place, "memory_node", "dlsm: memory_node, compute_node or auto");
DEFINE_string(fabric, "", "dlsm: local, shm, tcp or verbs; empty: what suits the memory nodes");
DEFINE_uint32(
    tcp_poll_us, 50,
    "dlsm: how long a wait over tcp may poll before it sleeps, while that pays; 0: never");
DEFINE_bool(tcp_share_reads, true,
            "dlsm: small reads of many threads over tcp share a connection while that pays");
DEFINE_string(rpc_transport, "",
              "dlsm: what carries calls to the memory node: tcp, verbs or ring; empty: tcp");
DEFINE_string(rdma_device, "",
              "dlsm: for verbs: device, port, network interface or address, then settings; empty: "
              "the first active port");
DEFINE_string(config, "", "dlsm: path of a connection.conf");
DEFINE_string(memory_nodes, "",
              "dlsm: host[:port] of each memory node, separated by commas; with "
              "neither this nor --config, one inside this process");
DEFINE_string(secret_file, "", "dlsm: file with the secret of the cluster");
DEFINE_string(access_name, "", "dlsm: name of this client in the memory nodes' access files");
DEFINE_uint32(compute_node_id, 0, "dlsm: which of the compute nodes of --config this is");
DEFINE_uint32(shards, 1,
              "dlsm: shards of the database, which divide the keys that --num makes evenly");
DEFINE_uint32(fixed_compute_shards_num, 1, "the same");
DEFINE_string(shard_boundaries, "",
              "dlsm: instead: the keys at which all shards but the first begin, separated by "
              "commas");
DEFINE_string(placement, "shard",
              "dlsm: which memory nodes a shard's tables go to: shard (its own), round_robin or "
              "power_of_d (the one with the most room of --power_of_d drawn at random)");
DEFINE_int32(power_of_d, 2, "dlsm: memory nodes that are compared for a table");
DEFINE_int32(scatter_width, 1,
             "dlsm: pieces, each on a memory node of its own, that a flush or merge is cut into");
DEFINE_string(
    compute_boundaries, "",
    "dlsm: auto: one database for all compute nodes of --config, which own equal parts of "
    "the keys; each writes and reads its own. Empty: a database each");
DEFINE_uint64(embedded_memory_bytes, 0,
              "dlsm: size of the memory node inside this process; 0: three "
              "quarters of the machine's memory");
DEFINE_uint64(simulated_rtt_ns, 0, "dlsm: round-trip time of a simulated network");
DEFINE_double(simulated_gbit_per_second, 0, "dlsm: bandwidth of a simulated network; 0: no limit");

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

Status CheckRanges() {
  constexpr uint64_t kSizeMin = 64 << 10;
  constexpr uint64_t kSizeMax = uint64_t{4} << 30;
  return FirstError({
      CheckRange<uint64_t>("num", FLAGS_num, 1, uint64_t{1} << 40),
      CheckRange<uint32_t>("threads", FLAGS_threads, 1, 1024),
      CheckRange<double>("duration", FLAGS_duration, 0, 1e7),
      CheckRange<uint64_t>("key_size", FLAGS_key_size, KeyBytesMin(FLAGS_num), kKeyBytesMax),
      CheckRange<uint64_t>("value_size", FLAGS_value_size, 0, kValueBytesMax),
      CheckRange<double>("compression_ratio", FLAGS_compression_ratio, 0.01, 1),
      CheckRange<uint64_t>("batch_size", FLAGS_batch_size, 0, 1'000'000),
      CheckRange<uint32_t>("readwritepercent", FLAGS_readwritepercent, 0, 100),
      CheckRange<double>("zipf_theta", FLAGS_zipf_theta, 0.01, 10),
      CheckRange<uint64_t>("write_buffer_size", FLAGS_write_buffer_size, kSizeMin, kSizeMax),
      CheckRange<int32_t>("max_write_buffer_number", FLAGS_max_write_buffer_number, 2, 1024),
      CheckRange<uint64_t>("target_file_size_base", FLAGS_target_file_size_base, kSizeMin,
                           kSizeMax - 1),
      CheckRange<int32_t>("max_background_flushes", FLAGS_max_background_flushes, 1, 256),
      CheckRange<int32_t>("max_background_compactions", FLAGS_max_background_compactions, 1, 256),
      CheckRange<int32_t>("subcompactions", FLAGS_subcompactions, 1, 256),
      CheckRange<int32_t>("level0_file_num_compaction_trigger",
                          FLAGS_level0_file_num_compaction_trigger, 1, 10'000),
      CheckRange<int32_t>("max_components", FLAGS_max_components, 0, 1'000'000),
      CheckRange<int32_t>("level0_stop_writes_trigger", FLAGS_level0_stop_writes_trigger,
                          FLAGS_level0_file_num_compaction_trigger, 10'000),
      CheckRange<uint64_t>("max_bytes_for_level_base", FLAGS_max_bytes_for_level_base, kSizeMin,
                           uint64_t{1} << 50),
      CheckRange<int32_t>("bloom_bits", FLAGS_bloom_bits, 0, 100),
      CheckRange<uint64_t>("block_size", FLAGS_block_size, 256, 16 << 20),
      CheckRange<double>("simulated_gbit_per_second", FLAGS_simulated_gbit_per_second, 0, 1e6),
      CheckRange<uint32_t>("shards", FLAGS_shards, 1, 256),
      CheckRange<uint32_t>("fixed_compute_shards_num", FLAGS_fixed_compute_shards_num, 1, 256),
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

// The part of the keys that this compute node has.
struct OwnKeys {
  uint64_t first = 0;
  uint64_t count = 0;
  std::vector<std::string> boundaries;  // Of all compute nodes.
};

// Parts begin at multiples of ten: with all keys that FormatAbsent() makes of theirs.
Status OwnKeysFromFlags(OwnKeys* own) {
  own->count = FLAGS_num;
  if (FLAGS_compute_boundaries.empty()) return Status::OK();
  if (FLAGS_compute_boundaries != "auto") {
    return Wrong("compute_boundaries", FLAGS_compute_boundaries, "auto, or nothing");
  }
  if (FLAGS_config.empty()) {
    return Wrong("compute_boundaries", FLAGS_compute_boundaries,
                 "only with --config, which names the compute nodes");
  }
  ClusterConfig config;
  const Status read = ReadClusterConfig(FLAGS_config, &config);
  if (!read.ok()) return read;
  const uint64_t nodes = config.compute_nodes.size();
  const auto first_of = [nodes](uint64_t node) { return FLAGS_num * node / nodes / 10 * 10; };
  if (FLAGS_compute_node_id >= nodes || FLAGS_num < 20 * nodes) {
    return Wrong("compute_boundaries", FLAGS_compute_boundaries,
                 "for a --compute_node_id of --config, and 20 keys for each compute node");
  }
  own->first = first_of(FLAGS_compute_node_id);
  const bool last = FLAGS_compute_node_id + 1 == nodes;
  own->count = (last ? FLAGS_num : first_of(FLAGS_compute_node_id + 1)) - own->first;
  KeyFormatter keys(static_cast<size_t>(FLAGS_key_size));
  for (uint64_t i = 1; i < nodes; ++i) {
    own->boundaries.push_back(keys.FormatAbsent(first_of(i)).ToString());
  }
  return Status::OK();
}

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
  options->distribution = static_cast<Distribution>(distribution);
  options->zipf_theta = FLAGS_zipf_theta;
  options->seed = FLAGS_seed;
  options->touch_values = FLAGS_touch_values;
  options->progress = FLAGS_progress;
  options->use_existing_db = FLAGS_use_existing_db;
  return Status::OK();
}

// What holds the data twice, since merges leave old blocks behind, but at most 4 GB.
size_t CacheBytes() {
  if (FLAGS_cache_size >= 0) return static_cast<size_t>(FLAGS_cache_size);
  constexpr uint64_t kMost = uint64_t{4} << 30;
  const double data =
      static_cast<double>(FLAGS_num) * static_cast<double>(FLAGS_key_size + FLAGS_value_size);
  return static_cast<size_t>(std::clamp(2 * data, 8.0 * (1 << 20), static_cast<double>(kMost)));
}

// Where the workloads' own keys are divided evenly.
std::vector<std::string> ShardBoundaries(const OwnKeys& own) {
  if (!FLAGS_shard_boundaries.empty()) return SplitAtCommas(FLAGS_shard_boundaries);
  const uint64_t shards = std::max(FLAGS_shards, FLAGS_fixed_compute_shards_num);
  KeyFormatter keys(static_cast<size_t>(FLAGS_key_size), own.first);
  std::vector<std::string> boundaries;
  for (uint64_t i = 1; i < shards; ++i) {
    boundaries.push_back(keys.Format(own.count * i / shards).ToString());
  }
  return boundaries;
}

Status MakeEngineOptions(EngineOptions* options) {
  size_t format = 0, place = 0, style = 0, schedule = 0, compression = 0, engine = 0, fabric = 0;
  size_t constraint = 0, placement = 0;
  Status status = FirstError({
      CheckChoice("engine", FLAGS_engine, EngineNames(), &engine),
      CheckChoice("table_format", FLAGS_table_format, {"byte", "block"}, &format),
      CheckChoice("compaction_place", FLAGS_compaction_place,
                  {"memory_node", "compute_node", "auto"}, &place),
      CheckChoice("placement", FLAGS_placement, {"shard", "round_robin", "power_of_d"}, &placement),
      CheckChoice("merge_scheduler", FLAGS_merge_scheduler,
                  {"single", "fair", "greedy", "spring_and_gear"}, &schedule),
      CheckChoice("component_constraint", FLAGS_component_constraint, {"local", "global"},
                  &constraint),
      CheckChoice("compaction_style", FLAGS_compaction_style, CompactionStyleNames(), &style),
      CheckChoice("compression_type", FLAGS_compression_type, {"none", "snappy"}, &compression),
      FLAGS_fabric.empty()
          ? Status::OK()
          : CheckChoice("fabric", FLAGS_fabric, {"local", "shm", "tcp", "verbs"}, &fabric),
  });
  if (!status.ok()) return status;
  if (FLAGS_engine == "dlsm" && compression > 0 && format == 0) {
    return Wrong("compression_type", FLAGS_compression_type, "none, unless --table_format=block");
  }
  options->engine = FLAGS_engine;
  options->db = FLAGS_db;
  options->write_buffer_size = FLAGS_write_buffer_size;
  options->max_write_buffer_number = FLAGS_max_write_buffer_number;
  options->memory_budget = FLAGS_memory_budget;
  options->value_cache_size = FLAGS_value_cache_size;
  options->target_file_size_base = FLAGS_target_file_size_base;
  options->max_background_flushes = FLAGS_max_background_flushes;
  options->max_background_compactions = FLAGS_max_background_compactions;
  options->subcompactions = FLAGS_subcompactions;
  options->level0_file_num_compaction_trigger = FLAGS_level0_file_num_compaction_trigger;
  options->level0_stop_writes_trigger = FLAGS_level0_stop_writes_trigger;
  options->max_bytes_for_level_base = FLAGS_max_bytes_for_level_base;
  options->bloom_bits = FLAGS_bloom_bits;
  options->cache_bytes = CacheBytes();
  options->block_size = FLAGS_block_size;
  options->snappy = compression > 0;
  options->verify_checksums = FLAGS_verify_checksum;
  options->compaction_style = style;
  options->component_constraint = constraint;
  options->max_components = FLAGS_max_components;
  options->slow_down_writes = FLAGS_slow_down_writes;
  options->merge_schedule = schedule;
  options->compaction_bandwidth = FLAGS_compaction_bandwidth_mb << 20;
  options->max_tables_per_guard = FLAGS_max_tables_per_guard;
  options->guard_bits = FLAGS_guard_bits;
  options->num_levels = FLAGS_num_levels;
  options->max_size_amplification_percent = FLAGS_max_size_amplification_percent;
  options->idle_size_amplification_percent = FLAGS_idle_size_amplification_percent;
  options->block_based = format == 1;
  options->compaction_place = place;
  options->take_over = FLAGS_take_over;
  options->fabric = FLAGS_fabric;
  options->rdma_device = FLAGS_rdma_device;
  options->tcp_poll_us = FLAGS_tcp_poll_us;
  options->tcp_share_reads = FLAGS_tcp_share_reads;
  options->rpc_transport = FLAGS_rpc_transport;
  options->config = FLAGS_config;
  options->memory_nodes = FLAGS_memory_nodes;
  options->secret_file = FLAGS_secret_file;
  options->access_name = FLAGS_access_name;
  const TlsConfig tls = TlsFromFlags();
  options->tls = tls.enabled;
  options->tls_ca_file = tls.ca_file;
  options->tls_certificate_file = tls.certificate_file;
  options->tls_key_file = tls.key_file;
  options->compute_node_id = FLAGS_compute_node_id;
  OwnKeys own;
  const Status divided = OwnKeysFromFlags(&own);
  if (!divided.ok()) return divided;
  options->compute_boundaries = own.boundaries;
  options->shard_boundaries = ShardBoundaries(own);
  if (FLAGS_follow && !FLAGS_use_existing_db) {
    return Wrong("follow", "true", "only with --use_existing_db");
  }
  options->follow = FLAGS_follow;
  options->publish_interval_ms = FLAGS_publish_interval_ms;
  options->placement = placement;
  options->power_of_d = FLAGS_power_of_d;
  options->scatter_width = FLAGS_scatter_width;
  options->embedded_memory_bytes = FLAGS_embedded_memory_bytes;
  options->simulated_rtt_ns = FLAGS_simulated_rtt_ns;
  options->simulated_gbit_per_second = FLAGS_simulated_gbit_per_second;
  return Status::OK();
}

Status PrintConfiguration(const BenchOptions& options, const EngineOptions& engine_options,
                          const Engine& engine) {
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
    if (needs_folder && FLAGS_use_existing_db) return Wrong("db", "", "the folder that exists");
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
  status = PrintConfiguration(options, engine_options, *engine);
  if (status.ok()) status = RunBenchmarks(options, runner, &results);
  if (status.ok()) status = WaitForStart("close");
  return FirstError({status, engine->Close()});
}

}  // namespace
}  // namespace dlsm::bench

int main(int argc, char** argv) {
  gflags::SetUsageMessage("db_bench [--benchmarks=fillrandom,readrandom,...] [flags]");
  gflags::SetVersionString(fmt::format("{}.{}", dlsm::kMajorVersion, dlsm::kMinorVersion));
  // To write where nobody reads is an error like others: a scratch folder is removed after it, too.
  std::signal(SIGPIPE, SIG_IGN);
  dlsm::Status status = dlsm::CheckFlagsAreKnown(argc, argv);
  if (status.ok()) {
    gflags::ParseCommandLineFlags(&argc, &argv, true);
    status = argc > 1 ? dlsm::Status::InvalidArgument(
                            fmt::format("unknown argument {}: flags begin with --", argv[1]))
                      : dlsm::bench::RunAll();
  }
  gflags::ShutDownCommandLineFlags();
  if (status.ok()) return 0;
  std::fprintf(stderr, "db_bench: %s\n", status.ToString().c_str());
  return 1;
}
