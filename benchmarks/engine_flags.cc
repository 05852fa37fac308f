#include "benchmarks/engine_flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <string>
#include <vector>

#include "benchmarks/flag_checks.h"
#include "benchmarks/key_generator.h"
#include "benchmarks/own_keys_flags.h"
#include "benchmarks/tls_flags.h"

// Of bench_flags.cc.
DECLARE_bool(use_existing_db);
DECLARE_uint64(num);
DECLARE_uint64(key_size);
DECLARE_uint64(value_size);

DEFINE_string(engine, "dlsm", "dlsm, rocksdb, rocksdb_mmap, leveldb or sqlite");
DEFINE_string(db, "",
              "Name (dlsm) or folder (others) of the database; one that is there is destroyed, "
              "unless --use_existing_db; empty: db_bench (dlsm), or a folder in tmpfs that is "
              "deleted at the end");
DEFINE_bool(take_over, false, "dlsm: open it although another process has it open");
DEFINE_bool(follow, false,
            "dlsm, with --use_existing_db: read as a follower what another process, which has the "
            "database open with --publish_interval_ms, publishes or has published at its end; "
            "workloads that write fail");
DEFINE_string(log, "none",
              "dlsm: what outlives this process besides what is flushed (rocksdb: memory and disk "
              "have a log): none; memory, where a log in "
              "the memory node's memory has all writes (needs --memory_nodes); or disk, where "
              "synced writes also wait for that memory node's files (needs Server --data_dir)");
DEFINE_uint64(log_bytes_max, 0,
              "dlsm: how large the log becomes; 0: twice what the memtables may have");
DEFINE_uint64(
    log_sync_interval_ms, 1000,
    "dlsm: where the memory node has files, what was written is in them within this time; "
    "0: only what somebody waits for");
DEFINE_string(secondary_index, "none",
              "dlsm: none, or eager or lazy: each write keeps a secondary index of one index key a "
              "record, which the workload indexquery asks");
DEFINE_int32(metrics_port, 0,
             "dlsm: port for Prometheus on 127.0.0.1, while a database is open; calls are measured "
             "then, which takes some time of each; 0: none");
DEFINE_uint64(publish_interval_ms, 0,
              "dlsm: how often what was written is published for followers; 0: not at all");
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
DEFINE_bool(bulk_load, false, "dlsm: neither level 0 nor components hold writers back");
DEFINE_bool(slow_down_writes, false, "dlsm: slow writers down before they must stop");
DEFINE_uint64(max_bytes_for_level_base, 256 << 20, "Bytes of level 1");
DEFINE_int32(bloom_bits, 10, "Filter bits for each key; 0: no filter");
DEFINE_int64(cache_size, -1,
             "Bytes of the block cache; negative: what holds the data, at most 4 GB");
DEFINE_uint64(block_size, 8192, "Bytes of a block of dlsm's block-based tables");
DEFINE_string(compression_type, "none", "none or snappy");
DEFINE_bool(verify_checksum, false, "Verify checksums on reads");
DEFINE_bool(read_only, false, "dlsm, with --use_existing_db: DB::OpenForReadOnly()");
DEFINE_string(read_tier, "all",
              "dlsm: all, or block_cache: reads make no round trip, and what they do not find "
              "without one counts as missing");
DEFINE_uint64(
    deadline_us, 0,
    "dlsm: each read gives up after so many microseconds, and counts as missing; 0: never");
DEFINE_uint64(prefix_size, 0, "dlsm: bytes of a key that are its prefix; 0: keys have none");
DEFINE_bool(prefix_same_as_start, false, "dlsm: iterators stay within a prefix of --prefix_size");
DEFINE_string(table_format, "byte", "dlsm: byte or block");
DEFINE_string(compaction_style, "guards", "dlsm: see CompactionStyle in options.h");
DEFINE_int32(max_tables_per_guard, 16, "dlsm: sorted runs of a guard that start a merge");
DEFINE_int32(guard_bits, 0, "dlsm: trailing zero bits of the hash of guards; 0: by table size");
DEFINE_int32(num_levels, 7, "dlsm: levels of the tree");
DEFINE_int32(max_size_amplification_percent, 200,
             "dlsm: bytes of newer runs that start a merge with the oldest, in percent of it");
DEFINE_int32(idle_size_amplification_percent, 4,
             "dlsm: as --max_size_amplification_percent, but while nobody writes; 0: only what is "
             "read is merged then");
DEFINE_string(
    merge_scheduler, "greedy",
    "dlsm: of merges in this process: single, fair, greedy, spring_and_gear; a Server has "
    "a flag of its own");
DEFINE_uint64(compaction_bandwidth_mb, 0,
              "dlsm: megabytes of input a second for merges in this process; 0: no limit");
DEFINE_string(compaction_place, "memory_node", "dlsm: memory_node, compute_node or auto");
DEFINE_string(fabric, "", "dlsm: local, shm, tcp or verbs; empty: what suits the memory nodes");
DEFINE_int32(numa_node, -2,
             "dlsm: the NUMA node of memtables, transfer buffers and background threads; -1: none, "
             "-2: that of the RDMA device, if there is one");
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
DEFINE_string(config, "",
              "dlsm: path of a connection.conf; empty, with --compute_node_id and without "
              "--memory_nodes: that of the working directory, or of the one above it");
DEFINE_string(memory_nodes, "",
              "dlsm: host[:port] of each memory node, separated by commas; with "
              "neither this nor --config, one inside this process");
DEFINE_string(secret_file, "", "dlsm: file with the secret of the cluster");
DEFINE_string(access_name, "", "dlsm: name of this client in the memory nodes' access files");
DEFINE_uint32(compute_node_id, 0, "dlsm: which of the compute nodes of --config this is");
DEFINE_uint32(shards, 1,
              "dlsm: shards of the database, which divide the keys that --num makes evenly");
DEFINE_uint32(fixed_compute_shards_num, 0, "dlsm: another name of --shards; the larger counts");
DEFINE_string(shard_boundaries, "",
              "dlsm: instead of --shards: the keys at which all shards but the first begin, "
              "separated by commas");
DEFINE_string(placement, "shard",
              "dlsm: which memory nodes a shard's tables go to: shard (its own), round_robin or "
              "power_of_d (the one with the most room of --power_of_d drawn at random)");
DEFINE_int32(power_of_d, 2, "dlsm: memory nodes that are compared for a table");
DEFINE_int32(scatter_width, 1,
             "dlsm: pieces, each on a memory node of its own, that a flush or merge is cut into");
DEFINE_string(
    data_dir, "",
    "dlsm: directory of the memory node inside this process; empty: it is in memory alone");
DEFINE_uint64(embedded_memory_bytes, 0,
              "dlsm: size of the memory node inside this process; 0: three quarters of the "
              "machine's memory, or of what its control groups allow where that is less");
DEFINE_uint64(simulated_rtt_ns, 0, "dlsm: round-trip time of a simulated network");
DEFINE_double(simulated_gbit_per_second, 0, "dlsm: bandwidth of a simulated network; 0: no limit");

namespace dlsm::bench {
namespace {

Status CheckRanges() {
  constexpr uint64_t kSizeMin = 64 << 10;
  constexpr uint64_t kSizeMax = uint64_t{4} << 30;
  constexpr uint64_t kMegabytesMax = uint64_t{1} << 20;
  return FirstError({
      CheckRange<uint64_t>("write_buffer_size", FLAGS_write_buffer_size, kSizeMin, kSizeMax),
      CheckRange<uint64_t>("compaction_bandwidth_mb", FLAGS_compaction_bandwidth_mb, 0,
                           kMegabytesMax),
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
      // More than 40 count as 40 to dlsm, and would be other filters beside the peers'.
      CheckRange<int32_t>("bloom_bits", FLAGS_bloom_bits, 0, 40),
      CheckRange<uint64_t>("block_size", FLAGS_block_size, 256, 16 << 20),
      CheckRange<uint64_t>("prefix_size", FLAGS_prefix_size, FLAGS_prefix_same_as_start ? 1 : 0,
                           1 << 20),
      CheckRange<double>("simulated_gbit_per_second", FLAGS_simulated_gbit_per_second, 0, 1e6),
      CheckRange<int32_t>("metrics_port", FLAGS_metrics_port, 0, 65535),
      CheckRange<uint32_t>("shards", FLAGS_shards, 1, 256),
      CheckRange<uint32_t>("fixed_compute_shards_num", FLAGS_fixed_compute_shards_num, 0, 256),
  });
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

// What flags with a few values say, as the number of the value.
struct Choices {
  size_t engine = 0;
  size_t table_format = 0;
  size_t compaction_place = 0;
  size_t log = 0;
  size_t secondary_index = 0;
  size_t placement = 0;
  size_t merge_scheduler = 0;
  size_t component_constraint = 0;
  size_t compaction_style = 0;
  size_t compression = 0;
  size_t fabric = 0;
  size_t read_tier = 0;
};

Status CheckChoices(Choices* choices) {
  return FirstError({
      CheckChoice("engine", FLAGS_engine, EngineNames(), &choices->engine),
      CheckChoice("table_format", FLAGS_table_format, {"byte", "block"}, &choices->table_format),
      CheckChoice("read_tier", FLAGS_read_tier, {"all", "block_cache"}, &choices->read_tier),
      CheckChoice("log", FLAGS_log, {"none", "memory", "disk"}, &choices->log),
      CheckChoice("secondary_index", FLAGS_secondary_index, {"none", "eager", "lazy"},
                  &choices->secondary_index),
      CheckChoice("compaction_place", FLAGS_compaction_place,
                  {"memory_node", "compute_node", "auto"}, &choices->compaction_place),
      CheckChoice("placement", FLAGS_placement, {"shard", "round_robin", "power_of_d"},
                  &choices->placement),
      CheckChoice("merge_scheduler", FLAGS_merge_scheduler,
                  {"single", "fair", "greedy", "spring_and_gear"}, &choices->merge_scheduler),
      CheckChoice("component_constraint", FLAGS_component_constraint, {"local", "global"},
                  &choices->component_constraint),
      CheckChoice("compaction_style", FLAGS_compaction_style, CompactionStyleNames(),
                  &choices->compaction_style),
      CheckChoice("compression_type", FLAGS_compression_type, {"none", "snappy"},
                  &choices->compression),
      FLAGS_fabric.empty()
          ? Status::OK()
          : CheckChoice("fabric", FLAGS_fabric, {"local", "shm", "tcp", "verbs"}, &choices->fabric),
  });
}

// What peers have, too.
void SetStore(const Choices& choices, EngineOptions* options) {
  options->engine = FLAGS_engine;
  options->db = FLAGS_db;
  options->write_buffer_size = FLAGS_write_buffer_size;
  options->max_write_buffer_number = FLAGS_max_write_buffer_number;
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
  options->snappy = choices.compression > 0;
  options->verify_checksums = FLAGS_verify_checksum;
  options->prefix_bytes = FLAGS_prefix_size;
  options->prefix_same_as_start = FLAGS_prefix_same_as_start;
}

void SetTree(const Choices& choices, EngineOptions* options) {
  options->memory_budget = FLAGS_memory_budget;
  options->value_cache_size = FLAGS_value_cache_size;
  options->block_based = choices.table_format == 1;
  options->compaction_style = choices.compaction_style;
  options->compaction_place = choices.compaction_place;
  options->component_constraint = choices.component_constraint;
  options->max_components = FLAGS_max_components;
  options->slow_down_writes = FLAGS_slow_down_writes;
  options->bulk_load = FLAGS_bulk_load;
  options->merge_schedule = choices.merge_scheduler;
  options->compaction_bandwidth = FLAGS_compaction_bandwidth_mb << 20;
  options->max_tables_per_guard = FLAGS_max_tables_per_guard;
  options->guard_bits = FLAGS_guard_bits;
  options->num_levels = FLAGS_num_levels;
  options->max_size_amplification_percent = FLAGS_max_size_amplification_percent;
  options->idle_size_amplification_percent = FLAGS_idle_size_amplification_percent;
}

void SetNodes(const Choices& choices, EngineOptions* options) {
  options->take_over = FLAGS_take_over;
  options->follow = FLAGS_follow;
  options->read_only = FLAGS_read_only;
  options->local_reads = choices.read_tier == 1;
  options->deadline_us = FLAGS_deadline_us;
  options->metrics_port = FLAGS_metrics_port;
  options->secondary_index = choices.secondary_index;
  options->publish_interval_ms = FLAGS_publish_interval_ms;
  options->log = choices.log;
  options->log_bytes_max = FLAGS_log_bytes_max;
  options->log_sync_interval_ms = FLAGS_log_sync_interval_ms;
  options->fabric = FLAGS_fabric;
  options->rdma_device = FLAGS_rdma_device;
  options->numa_node = FLAGS_numa_node;
  options->tcp_poll_us = FLAGS_tcp_poll_us;
  options->tcp_share_reads = FLAGS_tcp_share_reads;
  options->rpc_transport = FLAGS_rpc_transport;
  options->config = FLAGS_config;
  options->memory_nodes = FLAGS_memory_nodes;
  options->compute_node_id = FLAGS_compute_node_id;
  options->placement = choices.placement;
  options->power_of_d = FLAGS_power_of_d;
  options->scatter_width = FLAGS_scatter_width;
  options->secret_file = FLAGS_secret_file;
  options->access_name = FLAGS_access_name;
  const TlsConfig tls = TlsFromFlags();
  options->tls = tls.enabled;
  options->tls_ca_file = tls.ca_file;
  options->tls_certificate_file = tls.certificate_file;
  options->tls_key_file = tls.key_file;
  options->embedded_dir = FLAGS_data_dir;
  options->embedded_memory_bytes = FLAGS_embedded_memory_bytes;
  options->simulated_rtt_ns = FLAGS_simulated_rtt_ns;
  options->simulated_gbit_per_second = FLAGS_simulated_gbit_per_second;
}

}  // namespace

Status MakeEngineOptions(EngineOptions* options) {
  Choices choices;
  const Status checked = FirstError({CheckRanges(), CheckChoices(&choices)});
  if (!checked.ok()) return checked;
  if (FLAGS_engine == "dlsm" && choices.compression > 0 && choices.table_format == 0) {
    return Wrong("compression_type", FLAGS_compression_type, "none, unless --table_format=block");
  }
  if (FLAGS_engine != "dlsm" && choices.secondary_index > 0) {
    return Wrong("secondary_index", FLAGS_secondary_index, "none, unless --engine=dlsm");
  }
  if (FLAGS_follow && !FLAGS_use_existing_db) {
    return Wrong("follow", "true", "only with --use_existing_db");
  }
  if (FLAGS_read_only && (FLAGS_follow || !FLAGS_use_existing_db)) {
    return Wrong("read_only", "true", "only with --use_existing_db, and not with --follow");
  }
  SetStore(choices, options);
  SetTree(choices, options);
  SetNodes(choices, options);
  OwnKeys own;
  const Status divided = OwnKeysFromFlags(&own);
  if (!divided.ok()) return divided;
  options->compute_boundaries = own.boundaries;
  options->shard_boundaries = ShardBoundaries(own);
  return Status::OK();
}

}  // namespace dlsm::bench
