// RocksDB behind the benchmark's interface, tuned as its users would for data in memory: the log
// off, large memtables and tables, concurrent memtable writes, a cache that holds the data.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "benchmarks/engine.h"
#include "port/mutex.h"

namespace dlsm::bench {
namespace {

rocksdb::Slice ToRocksdb(const Slice& slice) { return {slice.data(), slice.size()}; }
Slice FromRocksdb(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
Status FromRocksdb(const rocksdb::Status& status) {
  if (status.ok()) [[likely]]
    return Status::OK();
  if (status.IsNotFound()) return Status::NotFound("rocksdb", status.ToString());
  return Status::IOError("rocksdb", status.ToString());
}

class RocksdbCursor : public Cursor {
 public:
  RocksdbCursor(rocksdb::DB& db, const rocksdb::ReadOptions& options)
      : db_(db), options_(options) {}

  void Renew() {
    iterator_.reset();
    iterator_.reset(db_.NewIterator(options_));
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
    iterator_->Seek(ToRocksdb(target));
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
  Status status() const override { return FromRocksdb(iterator_->status()); }

 private:
  bool Current(Entry* entry) const {
    if (!iterator_->Valid()) return false;
    entry->key = FromRocksdb(iterator_->key());
    entry->value = FromRocksdb(iterator_->value());
    return true;
  }

  rocksdb::DB& db_;
  const rocksdb::ReadOptions options_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

class RocksdbSession : public Session {
 public:
  RocksdbSession(rocksdb::DB& db, const rocksdb::ReadOptions& read, bool log)
      : db_(db), read_(read), log_(log), cursor_(db, read) {
    write_.disableWAL = !log;
  }

  Status Put(const Slice& key, const Slice& value) override {
    return FromRocksdb(db_.Put(write_, ToRocksdb(key), ToRocksdb(value)));
  }
  Status Delete(const Slice& key) override {
    return FromRocksdb(db_.Delete(write_, ToRocksdb(key)));
  }
  Status DeleteRange(const Slice& begin, const Slice& end) override {
    return FromRocksdb(
        db_.DeleteRange(write_, db_.DefaultColumnFamily(), ToRocksdb(begin), ToRocksdb(end)));
  }
  // By files beside the database, which it then takes over by their names.
  Status BulkLoad(SortedSource* source) override {
    static std::atomic<uint64_t> next_file{0};
    std::vector<std::string> files;
    Slice key;
    Slice value;
    bool more = source->Next(&key, &value);
    while (more) {
      const std::string& file =
          files.emplace_back(db_.GetName() + "/bulkload-" + std::to_string(next_file.fetch_add(1)));
      rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db_.GetOptions());
      rocksdb::Status status = writer.Open(file);
      for (; more && status.ok(); more = source->Next(&key, &value)) {
        status = writer.Put(ToRocksdb(key), ToRocksdb(value));
        if (writer.FileSize() >= db_.GetOptions().target_file_size_base) {
          more = source->Next(&key, &value);
          break;
        }
      }
      if (status.ok()) status = writer.Finish();
      if (!status.ok()) return FromRocksdb(status);
    }
    if (!source->status().ok() || files.empty()) return source->status();
    rocksdb::IngestExternalFileOptions how;
    how.move_files = true;
    return FromRocksdb(db_.IngestExternalFile(files, how));
  }
  // Adding to a batch fails only if it outgrows limits that are not set here.
  void BatchPut(const Slice& key, const Slice& value) override {
    batch_.Put(ToRocksdb(key), ToRocksdb(value)).PermitUncheckedError();
  }
  void BatchDelete(const Slice& key) override {
    batch_.Delete(ToRocksdb(key)).PermitUncheckedError();
  }
  Status WriteBatch() override {
    Status status = FromRocksdb(db_.Write(write_, &batch_));
    batch_.Clear();
    return status;
  }
  // A synchronous write needs the log, so it is on for these.
  void SetSync(bool sync) override {
    write_.sync = sync;
    write_.disableWAL = !sync && !log_;
  }

  Outcome Get(const Slice& key, Slice* value) override {
    pinned_.Reset();
    const rocksdb::Status status =
        db_.Get(read_, db_.DefaultColumnFamily(), ToRocksdb(key), &pinned_);
    if (status.ok()) [[likely]] {
      *value = FromRocksdb(pinned_);
      return Outcome::kFound;
    }
    if (status.IsNotFound()) return Outcome::kMissing;
    status_ = FromRocksdb(status);
    return Outcome::kFailed;
  }
  Status MultiGet(const std::vector<Slice>& keys,
                  std::vector<std::optional<Slice>>* values) override {
    many_keys_.clear();
    for (const Slice& key : keys) many_keys_.push_back(ToRocksdb(key));
    many_pinned_.clear();
    many_pinned_.resize(keys.size());
    many_statuses_.resize(keys.size());
    db_.MultiGet(read_, db_.DefaultColumnFamily(), keys.size(), many_keys_.data(),
                 many_pinned_.data(), many_statuses_.data());
    values->assign(keys.size(), std::nullopt);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (many_statuses_[i].ok()) {
        (*values)[i] = FromRocksdb(many_pinned_[i]);
      } else if (!many_statuses_[i].IsNotFound()) {
        return FromRocksdb(many_statuses_[i]);
      }
    }
    return Status::OK();
  }
  Status status() const override { return status_; }

  Cursor& NewCursor() override {
    cursor_.Renew();
    return cursor_;
  }
  void DropCursor() override { cursor_.Drop(); }

 private:
  rocksdb::DB& db_;
  const rocksdb::ReadOptions read_;
  const bool log_;
  rocksdb::WriteOptions write_;
  rocksdb::WriteBatch batch_;
  rocksdb::PinnableSlice pinned_;
  std::vector<rocksdb::Slice> many_keys_;
  std::vector<rocksdb::PinnableSlice> many_pinned_;
  std::vector<rocksdb::Status> many_statuses_;
  RocksdbCursor cursor_;
  Status status_;
};

// Remembers the first flush or merge that failed. RocksDB takes no writes then, and says for ever
// that flushes are due.
class BackgroundFailure : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status* error) override
      LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    if (first_.empty()) first_ = error->ToString();
  }
  // Empty if none did.
  std::string First() LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return first_;
  }
  void Forget() LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    first_.clear();
  }

 private:
  port::Mutex mutex_;
  std::string first_ GUARDED_BY(mutex_);
};

class RocksdbEngine : public Engine {
 public:
  RocksdbEngine(const EngineOptions& options, bool mmap)
      : folder_(options.db), mmap_(mmap), log_(options.log > 0) {
    options_.compression = options.snappy ? rocksdb::kSnappyCompression : rocksdb::kNoCompression;
    options_.write_buffer_size = options.write_buffer_size;
    options_.max_write_buffer_number = options.max_write_buffer_number;
    options_.target_file_size_base = options.target_file_size_base;
    options_.max_background_jobs =
        options.max_background_flushes + options.max_background_compactions;
    options_.max_subcompactions = static_cast<uint32_t>(options.subcompactions);
    options_.level0_file_num_compaction_trigger = options.level0_file_num_compaction_trigger;
    options_.level0_stop_writes_trigger = options.level0_stop_writes_trigger;
    options_.max_bytes_for_level_base = options.max_bytes_for_level_base;
    options_.allow_concurrent_memtable_write = true;
    options_.allow_mmap_reads = mmap;
    options_.max_open_files = -1;
    options_.listeners.push_back(failure_);
    read_.verify_checksums = options.verify_checksums;
    SetTables(options);
  }

  std::vector<std::string> Notes() const override {
    std::vector<std::string> notes = {
        "version: " + rocksdb::GetRocksVersionAsString(),
        "folder: " + folder_,
        log_ ? "log: on" : "log: off (fillsync: on and synchronous)",
        "background jobs: " + std::to_string(options_.max_background_jobs),
    };
    notes.push_back(mmap_ ? "reads: mmap, no checksums, no block cache"
                          : "block cache: " + std::to_string(cache_bytes_ >> 20) + " MB");
    return notes;
  }

  Status Open(bool create) override {
    options_.create_if_missing = create;
    failure_->Forget();
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options_, folder_, &db);
    db_.reset(db);
    return FromRocksdb(status);
  }
  Status Close() override {
    if (db_ == nullptr) return Status::OK();
    Status status = Flush();  // There is no log to keep the memtables in.
    const rocksdb::Status closed = db_->Close();
    db_.reset();
    return status.ok() ? FromRocksdb(closed) : status;
  }
  Status Destroy() override { return FromRocksdb(rocksdb::DestroyDB(folder_, options_)); }

  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<RocksdbSession>(*db_, read_, log_);
  }
  Status Flush() override { return FromRocksdb(db_->Flush(rocksdb::FlushOptions())); }
  Status Compact() override {
    return FromRocksdb(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  }
  // This version has no call to wait with, so the counts are polled. A flush that ends may make a
  // merge due a moment later: quiet is two looks in a row.
  Status WaitForBackgroundWork() override {
    for (int quiet = 0; quiet < 2; quiet = Busy() ? 0 : quiet + 1) {
      const std::string failure = failure_->First();
      if (!failure.empty()) {
        return Status::IOError(
            "a flush or merge of rocksdb failed",
            failure + "; make room in " + folder_ + ", or name another folder with --db");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return Status::OK();
  }

  EngineCounters Counters() override {
    EngineCounters counters;
    counters.storage_bytes_written = BytesWritten();
    if (mmap_) return counters;  // Index and filter are pages of the mapped files.
    const uint64_t keys = Number(rocksdb::DB::Properties::kEstimateNumKeys);
    const uint64_t bytes = Number(rocksdb::DB::Properties::kEstimateTableReadersMem);
    if (keys > 0 && bytes > 0) {
      counters.index_bytes_per_key = static_cast<double>(bytes) / static_cast<double>(keys);
    }
    return counters;
  }
  // The time is that of all causes, delays and stops together: RocksDB does not share it out, but
  // counts how often each cause set in.
  std::vector<StallTotal> Stalls() override {
    std::vector<StallTotal> stalls;
    const auto of_database = Map(rocksdb::DB::Properties::kDBStats);
    const auto micros = of_database.find("db.user_write_stall_micros");
    if (micros != of_database.end()) {
      stalls.push_back({"any_cause", std::strtoull(micros->second.c_str(), nullptr, 10), {}});
    }
    for (const auto& [name, count] : Map(rocksdb::DB::Properties::kCFStats)) {
      constexpr std::string_view kStall = "io_stalls.";
      if (!name.starts_with(kStall) || name.starts_with("io_stalls.total_")) continue;
      stalls.push_back({name.substr(kStall.size()), {}, std::strtoull(count.c_str(), nullptr, 10)});
    }
    return stalls;
  }
  TreeState Tree() override {
    std::vector<uint64_t> tables;
    for (int level = 0; level < db_->NumberLevels(); ++level) {
      const std::string files =
          Text(rocksdb::DB::Properties::kNumFilesAtLevelPrefix + std::to_string(level));
      tables.push_back(std::strtoull(files.c_str(), nullptr, 10));
    }
    TreeState tree = TreeOfLevels(tables);
    tree.pending_bytes = Number(rocksdb::DB::Properties::kEstimatePendingCompactionBytes);
    return tree;
  }
  std::string Stats() override { return Text("rocksdb.stats"); }
  std::string LevelStats() override { return Text("rocksdb.levelstats"); }

 private:
  void SetTables(const EngineOptions& options) {
    rocksdb::BlockBasedTableOptions table;
    if (options.bloom_bits > 0) {
      table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(options.bloom_bits));
    }
    if (mmap_) {
      table.no_block_cache = true;
    } else {
      table.block_cache = rocksdb::NewLRUCache(options.cache_bytes);
      cache_bytes_ = options.cache_bytes;
    }
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  }

  bool Busy() {
    return Number(rocksdb::DB::Properties::kNumRunningFlushes) > 0 ||
           Number(rocksdb::DB::Properties::kMemTableFlushPending) > 0 ||
           Number(rocksdb::DB::Properties::kNumRunningCompactions) > 0 ||
           Number(rocksdb::DB::Properties::kCompactionPending) > 0;
  }

  // By flushes and merges. RocksDB tells it in GB, to six places.
  uint64_t BytesWritten() {
    const auto properties = Map(rocksdb::DB::Properties::kCFStats);
    const auto written = properties.find("compaction.Sum.WriteGB");
    if (written == properties.end()) return 0;
    return static_cast<uint64_t>(std::strtod(written->second.c_str(), nullptr) * 0x1p30);
  }

  std::map<std::string, std::string> Map(const std::string& property) {
    std::map<std::string, std::string> entries;
    return db_->GetMapProperty(property, &entries) ? entries : decltype(entries)();
  }
  uint64_t Number(const std::string& property) {
    uint64_t number = 0;
    return db_->GetIntProperty(property, &number) ? number : 0;
  }
  std::string Text(const std::string& property) {
    std::string text;
    return db_->GetProperty(property, &text) ? text : std::string();
  }

  const std::string folder_;
  const bool mmap_;
  const bool log_;
  const std::shared_ptr<BackgroundFailure> failure_ = std::make_shared<BackgroundFailure>();
  size_t cache_bytes_ = 0;
  rocksdb::Options options_;
  rocksdb::ReadOptions read_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

std::unique_ptr<Engine> NewRocksdbEngine(const EngineOptions& options, bool mmap) {
  return std::make_unique<RocksdbEngine>(options, mmap);
}

}  // namespace dlsm::bench
