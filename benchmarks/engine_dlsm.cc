// dLSM behind the benchmark's interface, through its public headers only.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "benchmarks/bench_index.h"
#include "benchmarks/engine.h"
#include "dLSM/cache.h"
#include "dLSM/db.h"
#include "dLSM/filter_policy.h"
#include "dLSM/metrics.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/slice_transform.h"
#include "dLSM/statistics.h"
#include "dLSM/write_batch.h"

namespace dlsm::bench {
namespace {

// What reads of a session have in common.
class Reading {
 public:
  // `deadline_us`: of each read; 0: none.
  Reading(const ReadOptions& options, uint64_t deadline_us)
      : options_(options), deadline_us_(deadline_us) {}

  // Of a read that begins now.
  const ReadOptions& Begin() {
    if (deadline_us_ > 0) {
      options_.deadline =
          std::chrono::steady_clock::now() + std::chrono::microseconds(deadline_us_);
    }
    return options_;
  }
  // Whether the status says that the value is not to be had within the limits that were set.
  bool IsLimit(const Status& status) const {
    return status.IsIncomplete() || (deadline_us_ > 0 && status.IsTimedOut());
  }

 private:
  ReadOptions options_;
  uint64_t deadline_us_;
};

class DlsmCursor : public Cursor {
 public:
  DlsmCursor(DB& db, const Reading& reading) : db_(db), reading_(reading) {}

  void Renew() {
    iterator_.reset();
    iterator_.reset(db_.NewIterator(reading_.Begin()));
  }
  void Drop() { iterator_.reset(); }

  bool SeekToFirst(Entry* entry) override {
    iterator_->SeekToFirst();
    return Current(entry);
  }
  bool SeekToLast(Entry* entry) override {
    iterator_->SeekToLast();
    return Current(entry);
  }
  bool Seek(const Slice& target, Entry* entry) override {
    iterator_->Seek(target);
    return Current(entry);
  }
  bool Next(Entry* entry) override {
    iterator_->Next();
    return Current(entry);
  }
  bool Prev(Entry* entry) override {
    iterator_->Prev();
    return Current(entry);
  }
  Status status() const override {
    Status status = iterator_->status();
    return reading_.IsLimit(status) ? Status::OK() : status;
  }

 private:
  bool Current(Entry* entry) const {
    if (!iterator_->Valid()) return false;
    entry->key = iterator_->key();
    entry->value = iterator_->value();
    return true;
  }

  DB& db_;
  Reading reading_;
  std::unique_ptr<Iterator> iterator_;
};

class DlsmSession : public Session {
 public:
  // `indexed` may be null.
  DlsmSession(DB& db, IndexedDB* indexed, const Reading& reading)
      : db_(db), indexed_(indexed), reading_(reading), cursor_(db, reading) {}

  Status Put(const Slice& key, const Slice& value) override {
    return indexed_ == nullptr ? db_.Put(write_, key, value) : indexed_->Put(write_, key, value);
  }
  Status Delete(const Slice& key) override {
    return indexed_ == nullptr ? db_.Delete(write_, key) : indexed_->Delete(write_, key);
  }
  Status DeleteRange(const Slice& begin, const Slice& end) override {
    if (indexed_ != nullptr) return Session::DeleteRange(begin, end);
    return db_.DeleteRange(write_, begin, end);
  }
  Status BulkLoad(SortedSource* source) override {
    return db_.IngestSorted(source, /*entries=*/nullptr);
  }
  void BatchPut(const Slice& key, const Slice& value) override { batch_.Put(key, value); }
  void BatchDelete(const Slice& key) override { batch_.Delete(key); }
  Status WriteBatch() override {
    Status status =
        indexed_ == nullptr ? db_.Write(write_, &batch_) : indexed_->Write(write_, batch_);
    batch_.Clear();
    return status;
  }
  void SetSync(bool sync) override { write_.sync = sync; }

  Outcome Get(const Slice& key, Slice* value) override {
    pinned_.Reset();
    Status status = db_.Get(reading_.Begin(), key, &pinned_);
    if (status.ok()) [[likely]] {
      *value = Slice(pinned_.data(), pinned_.size());
      return Outcome::kFound;
    }
    if (status.IsNotFound() || reading_.IsLimit(status)) return Outcome::kMissing;
    status_ = std::move(status);
    return Outcome::kFailed;
  }
  Status MultiGet(const std::vector<Slice>& keys,
                  std::vector<std::optional<Slice>>* values) override {
    many_pinned_.resize(keys.size());
    many_statuses_.resize(keys.size());
    db_.MultiGet(reading_.Begin(), keys.size(), keys.data(), many_pinned_.data(),
                 many_statuses_.data());
    values->assign(keys.size(), std::nullopt);
    Status first_error;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (many_statuses_[i].ok()) {
        (*values)[i] = many_pinned_[i];
      } else if (!many_statuses_[i].IsNotFound() && !reading_.IsLimit(many_statuses_[i]) &&
                 first_error.ok()) {
        first_error = many_statuses_[i];
      }
    }
    return first_error;
  }
  std::unique_ptr<GetPipeline> NewGetPipeline(size_t depth) override {
    return db_.NewGetPipeline(reading_.Begin(), depth);
  }
  Status QueryIndex(const Slice& begin, const Slice& end,
                    std::vector<std::string>* values) override {
    if (indexed_ == nullptr) return Session::QueryIndex(begin, end, values);
    return QueryBenchIndex(*indexed_, begin, end, values);
  }
  Status status() const override { return status_; }

  Cursor& NewCursor() override {
    cursor_.Renew();
    return cursor_;
  }
  void DropCursor() override { cursor_.Drop(); }

 private:
  DB& db_;
  IndexedDB* const indexed_;
  Reading reading_;
  WriteOptions write_;
  dlsm::WriteBatch batch_;
  PinnableSlice pinned_;
  std::vector<PinnableSlice> many_pinned_;
  std::vector<Status> many_statuses_;
  DlsmCursor cursor_;
  Status status_;
};

class DlsmEngine : public Engine {
 public:
  explicit DlsmEngine(const EngineOptions& options)
      : name_(options.db),
        verify_checksums_(options.verify_checksums),
        prefix_same_as_start_(options.prefix_same_as_start),
        follow_(options.follow),
        secondary_index_(options.secondary_index),
        read_only_(options.read_only),
        read_tier_(options.local_reads ? kBlockCacheTier : kReadAllTier),
        deadline_us_(options.deadline_us),
        metrics_port_(options.metrics_port) {
    SetPlace(options);
    SetSizes(options);
  }

  std::vector<std::string> Notes() const override {
    const bool embedded = options_.config.empty() && options_.memory_nodes.empty();
    std::vector<std::string> notes;
    notes.push_back(embedded ? "tables: in a memory node inside this process"
                             : "tables: in the memory of the memory nodes");
    if (db_ == nullptr) return notes;
    std::string fabric;
    if (db_->GetProperty("dlsm.fabric", &fabric)) notes.push_back("fabric: " + fabric);
    if (follow_) notes.push_back("follows what another process writes");
    if (!options_.shard_boundaries.empty()) {
      notes.push_back("shards: " + std::to_string(options_.shard_boundaries.size() + 1));
    }
    return notes;
  }

  Status Open(bool create) override {
    options_.create_if_missing = create;
    Status opened = follow_      ? DB::OpenFollower(options_, name_, &db_)
                    : read_only_ ? DB::OpenForReadOnly(options_, name_, &db_)
                                 : DB::Open(options_, name_, &db_);
    if (opened.ok() && secondary_index_ != kNoIndex) {
      opened = OpenBenchIndex(db_.get(), secondary_index_, &indexed_);
    }
    if (!opened.ok() || metrics_port_ == 0) return opened;
    MetricsOptions metrics;
    metrics.port = metrics_port_;
    return StartMetrics(db_.get(), metrics, &metrics_);
  }
  Status Close() override {
    metrics_.reset();
    indexed_.reset();
    if (db_ == nullptr) return Status::OK();
    Status status = db_->Close();
    db_.reset();
    return status;
  }
  Status Destroy() override { return DestroyDB(name_, options_); }

  std::unique_ptr<Session> NewSession() override {
    ReadOptions read;
    read.verify_checksums = verify_checksums_;
    read.prefix_same_as_start = prefix_same_as_start_;
    if (indexed_ != nullptr) read.iterate_upper_bound = &EndOfRecords();
    read.read_tier = read_tier_;
    return std::make_unique<DlsmSession>(*db_, indexed_.get(), Reading(read, deadline_us_));
  }
  Status Flush() override {
    return follow_ || read_only_ ? Status::OK() : db_->Flush(FlushOptions());
  }
  Status Compact() override { return db_->CompactRange(nullptr, nullptr); }
  Status WaitForBackgroundWork() override { return db_->WaitForBackgroundWork(); }

  // On both sides.
  Status ScheduleMergesSustainably(bool sustainably) override {
    if (!sustainably) return db_->SetOptions(std::exchange(schedules_before_, {}));
    Status status = NoteSchedules();
    if (!status.ok()) return status;
    return db_->SetOptions({{kScheduleHere, "fair"},
                            {kScheduleThere, "fair"},
                            {kLevel0Width, std::to_string(Level0MergeWidth())}});
  }

  EngineCounters Counters() override {
    EngineCounters counters;
    counters.wire = Wire();
    const auto statistics = db_->GetStatistics();
    counters.storage_bytes_written = statistics->Get(Ticker::kFlushBytes) +
                                     statistics->Get(Ticker::kIngestBytes) +
                                     statistics->Get(Ticker::kMergeBytesWritten);
    counters.remote_cpu_micros = NumberIfTold("dlsm.remote-cpu-micros");
    if (options_.value_cache_size > 0) {
      counters.value_cache = {statistics->Get(Ticker::kValueCacheHits),
                              statistics->Get(Ticker::kValueCacheMisses),
                              statistics->Get(Ticker::kValueCacheInserts),
                              statistics->Get(Ticker::kValueCacheEvictions)};
    }
    const uint64_t entries = Number("dlsm.entries");
    if (entries > 0) {
      counters.index_bytes_per_key =
          static_cast<double>(Number("dlsm.metadata-bytes")) / static_cast<double>(entries);
    }
    return counters;
  }
  std::vector<StallTotal> Stalls() override {
    // A heading, then "cause count micros longest".
    std::istringstream lines(Text("dlsm.stalls"));
    std::vector<StallTotal> stalls;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string cause;
      uint64_t count;
      uint64_t micros;
      if (fields >> cause >> count >> micros) stalls.push_back({cause, micros, count});
    }
    return stalls;
  }
  TreeState Tree() override {
    std::vector<uint64_t> tables;
    std::string text;
    for (size_t level = 0;
         db_->GetProperty("dlsm.num-files-at-level" + std::to_string(level), &text); ++level) {
      tables.push_back(std::strtoull(text.c_str(), nullptr, 10));
    }
    TreeState tree = TreeOfLevels(tables);
    tree.components = Number("dlsm.components");
    tree.pending_bytes = Number("dlsm.pending-merge-bytes");
    return tree;
  }
  std::string Stats() override {
    return Text("dlsm.stats") + Text("dlsm.publications") +
           "\ncomponents: " + Text("dlsm.components") + ", expected at most " +
           Text("dlsm.expected-components") + "\n" + Text("dlsm.stalls") +
           "\npurpose, round trips, work requests, doorbells, bytes read, bytes written\n" +
           Text("dlsm.wire") + "\n" + Text("dlsm.rpc") + "\n" + Text("dlsm.merge-schedule") +
           Text("dlsm.merge-load") + "\n" + Text("dlsm.shards") + Text("dlsm.placement") +
           "\nfabric: " + Text("dlsm.fabric") + "\nits waits: " + Text("dlsm.waits") +
           (indexed_ == nullptr ? "" : DescribeBenchIndex(*indexed_));
  }
  std::string LevelStats() override { return Text("dlsm.levels"); }

 private:
  // What is to be in force again: what memory nodes say, not what options say. All of them are set
  // alike, so they have to be.
  Status NoteSchedules() {
    schedules_before_.clear();
    schedules_before_[kLevel0Width] = "0";
    std::istringstream lines(Text("dlsm.merge-schedule"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string name, value;
      fields >> name >> value;
      if (name == "memory-node-error") return Status::IOError(line);
      if (name != kScheduleHere && name != kScheduleThere) continue;
      const auto [before, is_new] = schedules_before_.emplace(name, value);
      if (is_new || before->second == value) continue;
      return Status::InvalidArgument(
          "the memory nodes schedule merges differently, " + before->second + " and " + value,
          "give all of them one schedule before: see dlsm_tool's command schedule");
    }
    return Status::OK();
  }

  // How many tables a merge out of level 0 takes where merges keep up.
  int Level0MergeWidth() const {
    const int trigger = options_.level0_file_num_compaction_trigger;
    return options_.compaction_style == CompactionStyle::kGuards
               ? std::max(trigger, options_.max_tables_per_guard)
               : trigger;
  }

  void SetPlace(const EngineOptions& options) {
    options_.take_over = options.take_over;
    options_.fabric = options.fabric;
    options_.rdma_device = options.rdma_device;
    options_.numa_node = options.numa_node;
    options_.tcp_poll_us = options.tcp_poll_us;
    options_.tcp_share_reads = options.tcp_share_reads;
    options_.rpc_transport = options.rpc_transport;
    options_.config = options.config;
    options_.memory_nodes = options.memory_nodes;
    options_.secret_file = options.secret_file;
    options_.access_name = options.access_name;
    options_.tls = options.tls;
    options_.tls_ca_file = options.tls_ca_file;
    options_.tls_certificate_file = options.tls_certificate_file;
    options_.tls_key_file = options.tls_key_file;
    options_.compute_node_id = options.compute_node_id;
    options_.compute_boundaries = options.compute_boundaries;
    options_.shard_boundaries = options.shard_boundaries;
    options_.publish_interval_ms = options.publish_interval_ms;
    options_.log = static_cast<LogLevel>(options.log);
    options_.log_bytes_max = options.log_bytes_max;
    options_.log_sync_interval_ms = options.log_sync_interval_ms;
    options_.placement = static_cast<TablePlacement>(options.placement);
    options_.power_of_d = options.power_of_d;
    options_.scatter_width = options.scatter_width;
    options_.embedded_dir = options.embedded_dir;
    options_.embedded_memory_bytes = options.embedded_memory_bytes;
    options_.simulated_rtt_ns = options.simulated_rtt_ns;
    options_.simulated_gbit_per_second = options.simulated_gbit_per_second;
    options_.compaction_place = static_cast<CompactionPlace>(options.compaction_place);
  }

  void SetSizes(const EngineOptions& options) {
    options_.write_buffer_size = options.write_buffer_size;
    options_.max_write_buffer_number = options.max_write_buffer_number;
    if (options.prefix_bytes > 0) {
      options_.prefix_extractor.reset(NewFixedPrefixTransform(options.prefix_bytes));
    }
    options_.memory_budget = options.memory_budget;
    options_.value_cache_size = options.value_cache_size;
    options_.max_file_size = options.target_file_size_base;
    options_.max_background_flushes = options.max_background_flushes;
    options_.max_background_compactions = options.max_background_compactions;
    options_.max_subcompactions = options.subcompactions;
    options_.level0_file_num_compaction_trigger = options.level0_file_num_compaction_trigger;
    options_.level0_stop_writes_trigger = options.level0_stop_writes_trigger;
    options_.max_bytes_for_level_base = options.max_bytes_for_level_base;
    options_.component_constraint = static_cast<ComponentConstraint>(options.component_constraint);
    options_.max_components = options.max_components;
    options_.slow_down_writes = options.slow_down_writes;
    options_.bulk_load = options.bulk_load;
    options_.merge_scheduler = static_cast<MergeSchedule>(options.merge_schedule);
    options_.compaction_bandwidth = options.compaction_bandwidth;
    options_.compaction_style = static_cast<CompactionStyle>(options.compaction_style);
    options_.max_tables_per_guard = options.max_tables_per_guard;
    options_.guard_bits = options.guard_bits;
    options_.num_levels = options.num_levels;
    options_.max_size_amplification_percent = options.max_size_amplification_percent;
    options_.idle_size_amplification_percent = options.idle_size_amplification_percent;
    options_.block_size = options.block_size;
    options_.compression = options.snappy ? kSnappyCompression : kNoCompression;
    options_.table_format =
        options.block_based ? TableFormat::kBlockBased : TableFormat::kByteAddressable;
    if (options.block_based) {
      cache_.reset(NewLRUCache(options.cache_bytes));
      options_.block_cache = cache_.get();
    }
    if (options.bloom_bits == 0) {
      options_.filter_policy = Options::kNoFilter;
    } else {
      filter_.reset(NewBloomFilterPolicy(options.bloom_bits));
      options_.filter_policy = filter_.get();
    }
  }

  std::string Text(const char* property) {
    std::string text;
    return db_->GetProperty(property, &text) ? text : std::string();
  }

  std::optional<uint64_t> NumberIfTold(const char* property) {
    const std::string text = Text(property);
    uint64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc()) return std::nullopt;
    return number;
  }
  uint64_t Number(const char* property) { return NumberIfTold(property).value_or(0); }

  // "purpose round_trips work_requests doorbells read_bytes write_bytes", a line for each purpose;
  // other lines (a heading) are passed over.
  std::vector<WireTotal> Wire() {
    std::vector<WireTotal> totals;
    std::istringstream lines(Text("dlsm.wire"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      WireTotal total;
      if (fields >> total.purpose >> total.round_trips >> total.work_requests >> total.doorbells >>
          total.read_bytes >> total.write_bytes) {
        totals.push_back(total);
      }
    }
    return totals;
  }

  const std::string name_;
  const bool verify_checksums_;
  const bool prefix_same_as_start_;
  const bool follow_;
  const size_t secondary_index_;
  const bool read_only_;
  const ReadTier read_tier_;
  const uint64_t deadline_us_;  // Of each read; 0: none.
  const int metrics_port_;
  Options options_;
  // Before the database, which uses them to its end.
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<const FilterPolicy> filter_;
  std::unique_ptr<DB> db_;
  std::unique_ptr<IndexedDB> indexed_;  // Null without --secondary_index.
  std::unique_ptr<Metrics> metrics_;    // Ends before the database. May be null.
  static constexpr const char* kScheduleHere = "merge_scheduler";
  static constexpr const char* kScheduleThere = "memory_node_merge_scheduler";
  static constexpr const char* kLevel0Width = "max_level0_tables_per_merge";
  std::unordered_map<std::string, std::string> schedules_before_;
};

}  // namespace

// In the order of CompactionStyle.
std::vector<std::string> CompactionStyleNames() {
  return {"leveled", "guards", "leveled_choose_best", "full_leveling", "tiered", "size_tiered"};
}

std::unique_ptr<Engine> NewDlsmEngine(const EngineOptions& options) {
  return std::make_unique<DlsmEngine>(options);
}

}  // namespace dlsm::bench
