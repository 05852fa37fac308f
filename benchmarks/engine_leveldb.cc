// LevelDB behind the benchmark's interface: large memtables and tables, a filter, a cache that
// holds the data. Its log cannot be turned off.
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "benchmarks/engine.h"

namespace dlsm::bench {
namespace {

leveldb::Slice ToLeveldb(const Slice& slice) { return {slice.data(), slice.size()}; }
Slice FromLeveldb(const leveldb::Slice& slice) { return {slice.data(), slice.size()}; }
Status FromLeveldb(const leveldb::Status& status) {
  if (status.ok()) [[likely]]
    return Status::OK();
  if (status.IsNotFound()) return Status::NotFound("leveldb", status.ToString());
  return Status::IOError("leveldb", status.ToString());
}

class LeveldbCursor : public Cursor {
 public:
  LeveldbCursor(leveldb::DB& db, const leveldb::ReadOptions& options)
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
    iterator_->Seek(ToLeveldb(target));
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
  Status status() const override { return FromLeveldb(iterator_->status()); }

 private:
  bool Current(Entry* entry) const {
    if (!iterator_->Valid()) return false;
    entry->key = FromLeveldb(iterator_->key());
    entry->value = FromLeveldb(iterator_->value());
    return true;
  }

  leveldb::DB& db_;
  const leveldb::ReadOptions options_;
  std::unique_ptr<leveldb::Iterator> iterator_;
};

class LeveldbSession : public Session {
 public:
  LeveldbSession(leveldb::DB& db, const leveldb::ReadOptions& read)
      : db_(db), read_(read), cursor_(db, read) {}

  Status Put(const Slice& key, const Slice& value) override {
    return FromLeveldb(db_.Put(write_, ToLeveldb(key), ToLeveldb(value)));
  }
  Status Delete(const Slice& key) override {
    return FromLeveldb(db_.Delete(write_, ToLeveldb(key)));
  }
  void BatchPut(const Slice& key, const Slice& value) override {
    batch_.Put(ToLeveldb(key), ToLeveldb(value));
  }
  void BatchDelete(const Slice& key) override { batch_.Delete(ToLeveldb(key)); }
  Status WriteBatch() override {
    Status status = FromLeveldb(db_.Write(write_, &batch_));
    batch_.Clear();
    return status;
  }
  void SetSync(bool sync) override { write_.sync = sync; }

  Outcome Get(const Slice& key, Slice* value) override {
    const leveldb::Status status = db_.Get(read_, ToLeveldb(key), &string_);
    if (status.ok()) [[likely]] {
      *value = Slice(string_);
      return Outcome::kFound;
    }
    if (status.IsNotFound()) return Outcome::kMissing;
    status_ = FromLeveldb(status);
    return Outcome::kFailed;
  }
  // LevelDB has no such call: one Get after the other.
  Status MultiGet(const std::vector<Slice>& keys,
                  std::vector<std::optional<Slice>>* values) override {
    if (strings_.size() < keys.size()) strings_.resize(keys.size());
    values->assign(keys.size(), std::nullopt);
    for (size_t i = 0; i < keys.size(); ++i) {
      const leveldb::Status status = db_.Get(read_, ToLeveldb(keys[i]), &strings_[i]);
      if (status.ok()) {
        (*values)[i] = Slice(strings_[i]);
      } else if (!status.IsNotFound()) {
        return FromLeveldb(status);
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
  leveldb::DB& db_;
  const leveldb::ReadOptions read_;
  leveldb::WriteOptions write_;
  leveldb::WriteBatch batch_;
  std::string string_;
  std::vector<std::string> strings_;
  LeveldbCursor cursor_;
  Status status_;
};

class LeveldbEngine : public Engine {
 public:
  explicit LeveldbEngine(const EngineOptions& options)
      : folder_(options.db), cache_bytes_(options.cache_bytes) {
    options_.compression = options.snappy ? leveldb::kSnappyCompression : leveldb::kNoCompression;
    options_.write_buffer_size = options.write_buffer_size;
    options_.max_file_size = options.target_file_size_base;
    options_.max_open_files = 10000;
    cache_.reset(leveldb::NewLRUCache(options.cache_bytes));
    options_.block_cache = cache_.get();
    if (options.bloom_bits > 0) {
      filter_.reset(leveldb::NewBloomFilterPolicy(options.bloom_bits));
      options_.filter_policy = filter_.get();
    }
    read_.verify_checksums = options.verify_checksums;
  }

  std::vector<std::string> Notes() const override {
    return {
        "version: " + std::to_string(leveldb::kMajorVersion) + "." +
            std::to_string(leveldb::kMinorVersion),
        "folder: " + folder_,
        ("log: ON, LevelDB cannot turn it off; the other engines write without one (the log's "
         "bytes "
         "are not in the write amplification)"),
        "background jobs: 1, LevelDB has no more",
        "block cache: " + std::to_string(cache_bytes_ >> 20) + " MB",
    };
  }

  Status Open(bool create) override {
    options_.create_if_missing = create;
    leveldb::DB* db = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options_, folder_, &db);
    db_.reset(db);
    return FromLeveldb(status);
  }
  Status Close() override {
    db_.reset();
    return Status::OK();
  }
  Status Destroy() override { return FromLeveldb(leveldb::DestroyDB(folder_, options_)); }

  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<LeveldbSession>(*db_, read_);
  }
  // There is no flush alone: a compaction of a range that holds no key writes the memtable out.
  Status Flush() override {
    const leveldb::Slice nothing("");
    db_->CompactRange(&nothing, &nothing);
    return Status::OK();
  }
  Status Compact() override {
    db_->CompactRange(nullptr, nullptr);
    return Status::OK();
  }
  // LevelDB does not tell whether its background thread is busy, but the processor time of this
  // process does: the caller has no thread running.
  Status WaitForBackgroundWork() override {
    int quiet = 0;
    while (quiet < 3) {
      const uint64_t before = ProcessorMicros();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      quiet = ProcessorMicros() - before < 500 ? quiet + 1 : 0;
    }
    return Status::OK();
  }

  EngineCounters Counters() override {
    EngineCounters counters;
    counters.storage_bytes_written = BytesWritten();
    return counters;
  }
  TreeState Tree() override { return TreeOfLevels(TablesAtLevels()); }
  std::string Stats() override { return Text("leveldb.stats"); }
  std::string LevelStats() override {
    std::string text = "Level Files\n";
    const std::vector<uint64_t> tables = TablesAtLevels();
    for (size_t level = 0; level < tables.size(); ++level) {
      text += "  " + std::to_string(level) + "   " + std::to_string(tables[level]) + "\n";
    }
    return text;
  }

 private:
  static uint64_t ProcessorMicros() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 +
           static_cast<uint64_t>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  }

  std::vector<uint64_t> TablesAtLevels() {
    std::vector<uint64_t> tables;
    std::string text;
    while (db_->GetProperty("leveldb.num-files-at-level" + std::to_string(tables.size()), &text)) {
      tables.push_back(std::strtoull(text.c_str(), nullptr, 10));
    }
    return tables;
  }

  // The sum of the column Write(MB) of leveldb.stats, without the log.
  uint64_t BytesWritten() {
    uint64_t megabytes = 0;
    std::istringstream lines(Text("leveldb.stats"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      uint64_t level, files, size, seconds, read, written;
      if (fields >> level >> files >> size >> seconds >> read >> written) megabytes += written;
    }
    return megabytes << 20;
  }
  std::string Text(const std::string& property) {
    std::string text;
    return db_->GetProperty(property, &text) ? text : std::string();
  }

  const std::string folder_;
  const size_t cache_bytes_;
  leveldb::Options options_;
  leveldb::ReadOptions read_;
  // Before the database, which uses them to its end.
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::DB> db_;
};

}  // namespace

std::unique_ptr<Engine> NewLeveldbEngine(const EngineOptions& options) {
  return std::make_unique<LeveldbEngine>(options);
}

}  // namespace dlsm::bench
