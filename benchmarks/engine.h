// A key-value store under measurement. Each store is one file, engine_<name>.cc, behind the same
// two interfaces, so that workloads, generators and clock are the same for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "dLSM/slice.h"
#include "dLSM/sorted_source.h"
#include "dLSM/status.h"

namespace dlsm::bench {

// The sizes and limits that all stores have in common, and dLSM's own.
struct EngineOptions {
  std::string engine = "dlsm";
  // dLSM: a name. Others: a folder.
  std::string db;

  size_t write_buffer_size = size_t{64} << 20;
  int max_write_buffer_number = 4;
  uint64_t memory_budget = 0;
  uint64_t value_cache_size = 0;
  size_t target_file_size_base = size_t{64} << 20;
  int max_background_flushes = 2;
  int max_background_compactions = 2;
  int subcompactions = 2;
  int level0_file_num_compaction_trigger = 4;
  int level0_stop_writes_trigger = 24;
  uint64_t max_bytes_for_level_base = uint64_t{256} << 20;
  int bloom_bits = 10;  // 0: no filter.
  size_t cache_bytes = size_t{8} << 20;
  size_t block_size = 8192;
  bool snappy = false;
  bool verify_checksums = false;
  size_t prefix_bytes = 0;            // dlsm: Options::prefix_extractor, of so many bytes; 0: none.
  bool prefix_same_as_start = false;  // dlsm; with prefix_bytes.

  // dLSM: the place of the style's name in CompactionStyleNames().
  size_t compaction_style = 0;
  size_t component_constraint = 0;  // A ComponentConstraint.
  int max_components = 0;
  bool slow_down_writes = false;
  bool bulk_load = false;
  size_t merge_schedule = 2;  // A MergeSchedule.
  uint64_t compaction_bandwidth = 0;
  int max_tables_per_guard = 16;
  int guard_bits = 0;
  int num_levels = 7;
  int max_size_amplification_percent = 200;
  int idle_size_amplification_percent = 4;

  bool block_based = false;
  size_t compaction_place = 0;  // A CompactionPlace.
  bool take_over = false;
  std::string fabric;
  std::string rdma_device;
  int numa_node = -2;  // See Options::numa_node.
  uint32_t tcp_poll_us = 50;
  bool tcp_share_reads = true;
  std::string rpc_transport;
  std::string config;
  std::string memory_nodes;
  std::string secret_file;
  std::string access_name;
  bool tls = false;
  std::string tls_ca_file;
  std::string tls_certificate_file;
  std::string tls_key_file;
  uint32_t compute_node_id = 0;
  std::vector<std::string> compute_boundaries;  // None: one compute node has all keys.
  std::vector<std::string> shard_boundaries;    // None: one shard.
  size_t placement = 0;                         // A TablePlacement.
  int power_of_d = 2;
  int scatter_width = 1;
  std::string embedded_dir;  // dlsm; empty: the memory node inside this process has none.
  uint64_t embedded_memory_bytes = 0;
  uint64_t publish_interval_ms = 0;      // dlsm; 0: nothing is published.
  size_t log = 0;                        // dlsm: a LogLevel.
  uint64_t log_bytes_max = 0;            // dlsm; 0: by the memtables.
  uint64_t log_sync_interval_ms = 1000;  // dlsm.
  bool follow = false;                   // dlsm: read what another process publishes.
  size_t secondary_index = 0;            // dlsm: none, eager or lazy.
  bool read_only = false;                // dlsm: see DB::OpenForReadOnly.
  bool local_reads = false;              // dlsm: ReadOptions::read_tier.
  uint64_t deadline_us = 0;              // dlsm: of each read; 0: none.
  int metrics_port = 0;                  // dlsm: for Prometheus; 0: none.
  uint64_t simulated_rtt_ns = 0;
  double simulated_gbit_per_second = 0;
};

enum class Outcome { kFound, kMissing, kFailed };

// An iterator. Each call that moves says whether there is an entry and what it is, in one virtual
// call; the slices stay valid until the next call.
class Cursor {
 public:
  struct Entry {
    Slice key;
    Slice value;
  };

  virtual ~Cursor() = default;
  virtual bool SeekToFirst(Entry* entry) = 0;
  virtual bool SeekToLast(Entry* entry) = 0;
  virtual bool Seek(const Slice& target, Entry* entry) = 0;
  virtual bool Next(Entry* entry) = 0;
  virtual bool Prev(Entry* entry) = 0;
  virtual Status status() const = 0;
};

// One thread's handle. Keeps its buffers between calls, so that the measured loops do not allocate.
class Session {
 public:
  virtual ~Session() = default;

  virtual Status Put(const Slice& key, const Slice& value) = 0;
  virtual Status Delete(const Slice& key) = 0;
  // Of the keys in [begin, end).
  virtual Status DeleteRange(const Slice& begin, const Slice& end) {
    static_cast<void>(begin);
    static_cast<void>(end);
    return Status::NotSupported("this store cannot delete a range", "leave deleteranges out");
  }
  // A sorted stream becomes tables without passing memtables.
  virtual Status BulkLoad(SortedSource* source) {
    static_cast<void>(source);
    return Status::NotSupported("this store takes no sorted stream", "leave bulkload out");
  }
  // Collects until WriteBatch(), which applies all at once.
  virtual void BatchPut(const Slice& key, const Slice& value) = 0;
  virtual void BatchDelete(const Slice& key) = 0;
  virtual Status WriteBatch() = 0;
  // Whether writes return only after they are as durable as the store can make them.
  virtual void SetSync(bool sync) = 0;

  // *value stays valid until the next call. After kFailed, status() says why.
  virtual Outcome Get(const Slice& key, Slice* value) = 0;
  // (*values)[i] has a value if keys[i] was found. Valid until the next call.
  virtual Status MultiGet(const std::vector<Slice>& keys,
                          std::vector<std::optional<Slice>>* values) = 0;
  // Gets that overlap; null: the store has nothing like it.
  virtual std::unique_ptr<GetPipeline> NewGetPipeline(size_t /*depth*/) { return nullptr; }
  // The values of the records whose index keys are in [begin, end).
  virtual Status QueryIndex(const Slice& begin, const Slice& end,
                            std::vector<std::string>* values) {
    static_cast<void>(begin);
    static_cast<void>(end);
    static_cast<void>(values);
    return Status::NotSupported("this store has no secondary index",
                                "use --engine=dlsm with --secondary_index=eager or lazy");
  }
  virtual Status status() const = 0;

  // A new view of the present. The session owns the cursor; at most one at a time, and it is gone
  // with the next call of this or of DropCursor().
  virtual Cursor& NewCursor() = 0;
  virtual void DropCursor() = 0;
};

struct WireTotal {
  std::string purpose;
  uint64_t round_trips = 0;
  uint64_t work_requests = 0;
  uint64_t doorbells = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
};

// Of records of point reads.
struct ValueCacheTotal {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t inserts = 0;
  uint64_t evictions = 0;
};

// Totals since the store was opened, unless said otherwise.
struct EngineCounters {
  std::vector<WireTotal> wire;         // Empty where there is no network.
  uint64_t storage_bytes_written = 0;  // By flushes and merges; logs are not counted.
  // Of the memory nodes' processes; none while one of them does not tell.
  std::optional<uint64_t> remote_cpu_micros = 0;
  // Bytes of index and filter in the process that reads, for each entry in tables, now. None if the
  // store does not tell.
  std::optional<double> index_bytes_per_key;
  std::optional<ValueCacheTotal> value_cache;  // None if there is none.
};

// Writers that had to wait, since the store was opened. A wait counts when it has ended.
struct StallTotal {
  std::string cause;
  // Of all writers together. None if the store only counts waits for this cause.
  std::optional<uint64_t> micros;
  std::optional<uint64_t> count;
};

// The tree, now. None where the store does not tell.
struct TreeState {
  // Sorted runs that a lookup may have to search: each of level 0, and of each deeper level those
  // of the place that has most: one where its tables are disjoint.
  std::optional<uint64_t> components;
  std::optional<uint64_t> tables;
  std::optional<uint64_t> level0_tables;
  std::optional<uint64_t> pending_bytes;  // That are due to be merged.
};
// Of a store whose deeper levels are one sorted run each.
TreeState TreeOfLevels(const std::vector<uint64_t>& tables_at_level);

class Engine {
 public:
  virtual ~Engine() = default;

  // What a reader of the figures must know: settings, and what could not be made alike.
  virtual std::vector<std::string> Notes() const = 0;

  // NotFound or InvalidArgument if there is no such database and `create` is false.
  virtual Status Open(bool create) = 0;
  virtual Status Close() = 0;
  // Deletes the database, which is not open; OK if there is none.
  virtual Status Destroy() = 0;

  // While open. Thread-safe; sessions are destroyed before Close().
  virtual std::unique_ptr<Session> NewSession() = 0;
  virtual Status Flush() = 0;
  virtual Status Compact() = 0;
  virtual Status WaitForBackgroundWork() = 0;
  // Whether all merges get the same share of the bandwidth, and leveled ones take no more of level
  // 0 at a time than makes one due, instead of what the options say: then no merge is put off, and
  // none is cheaper because it is late. A store that has no such choice leaves things as they are.
  virtual Status ScheduleMergesSustainably(bool /*sustainably*/) { return Status::OK(); }
  virtual EngineCounters Counters() = 0;
  // Cheap enough to be asked every second beside the workload. Empty if the store does not tell.
  virtual std::vector<StallTotal> Stalls() { return {}; }
  virtual TreeState Tree() { return {}; }
  virtual std::string Stats() = 0;
  virtual std::string LevelStats() = 0;
};

// Of dLSM, for --compaction_style.
std::vector<std::string> CompactionStyleNames();

// The stores this program was built with.
std::vector<std::string> EngineNames();
// InvalidArgument if options.engine is none of them.
Status NewEngine(const EngineOptions& options, std::unique_ptr<Engine>* engine);

// Makers of the stores, each in its own file.
std::unique_ptr<Engine> NewDlsmEngine(const EngineOptions& options);
std::unique_ptr<Engine> NewRocksdbEngine(const EngineOptions& options, bool mmap);
std::unique_ptr<Engine> NewLeveldbEngine(const EngineOptions& options);
std::unique_ptr<Engine> NewSqliteEngine(const EngineOptions& options);

}  // namespace dlsm::bench
