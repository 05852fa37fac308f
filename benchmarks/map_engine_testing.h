// A store for tests of what measures stores: a std::map, which can be told to misbehave.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/bench_index.h"
#include "benchmarks/engine.h"
#include "port/mutex.h"

namespace dlsm::bench {

// A map behind a lock.
class Map {
 public:
  void Put(const Slice& key, const Slice& value) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    map_[key.ToString()] = value.ToString();
  }
  void Delete(const Slice& key) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    map_.erase(key.ToString());
  }
  void DeleteRange(const Slice& begin, const Slice& end) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    map_.erase(map_.lower_bound(begin.ToString()), map_.lower_bound(end.ToString()));
  }
  bool Get(const Slice& key, std::string* value) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    const auto found = map_.find(key.ToString());
    if (found == map_.end()) return false;
    *value = found->second;
    return true;
  }
  std::map<std::string, std::string> Copy() LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    return map_;
  }
  void Clear() LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    map_.clear();
  }

 private:
  port::Mutex mutex_;
  std::map<std::string, std::string> map_ GUARDED_BY(mutex_);
};

class MapCursor : public Cursor {
 public:
  explicit MapCursor(std::map<std::string, std::string> view) : view_(std::move(view)) {}

  bool SeekToFirst(Entry* entry) override { return At(view_.begin(), entry); }
  bool SeekToLast(Entry* entry) override {
    return At(view_.empty() ? view_.end() : std::prev(view_.end()), entry);
  }
  bool Seek(const Slice& target, Entry* entry) override {
    return At(view_.lower_bound(target.ToString()), entry);
  }
  bool Next(Entry* entry) override { return At(std::next(at_), entry); }
  bool Prev(Entry* entry) override {
    return At(at_ == view_.begin() ? view_.end() : std::prev(at_), entry);
  }
  Status status() const override { return Status::OK(); }

 private:
  using Place = std::map<std::string, std::string>::const_iterator;
  bool At(Place place, Entry* entry) {
    at_ = place;
    if (at_ == view_.end()) return false;
    entry->key = at_->first;
    entry->value = at_->second;
    return true;
  }

  const std::map<std::string, std::string> view_;
  Place at_;
};

// Reads that have begun.
struct ReadCounts {
  std::atomic<uint64_t> gets{0};
  std::atomic<uint64_t> cursors{0};
};

// How a store misbehaves. Set while no thread runs.
struct MapQuirks {
  std::function<bool(const Slice& key)> loses;    // Puts that are forgotten.
  std::function<bool(const Slice& key)> refuses;  // Puts that fail.
  std::function<bool(const Slice& key)> hides;    // Keys that Get() does not find.
  std::chrono::microseconds pipeline_wait{0};     // For each answer of a pipeline.
};

class MapPipeline : public GetPipeline {
 public:
  MapPipeline(Map& map, size_t depth, std::chrono::microseconds wait)
      : map_(map), depth_(depth), wait_(wait) {}

  Status Submit(const Slice& key, uint64_t tag) override {
    if (answers_.size() == depth_) return Status::Busy("take an answer first");
    Answer& answer = answers_.emplace_back();
    answer.tag = tag;
    if (!map_.Get(key, &answer.value)) answer.status = Status::NotFound(Slice());
    answer.status.PermitUncheckedError();  // Nobody need wait for it.
    return Status::OK();
  }
  bool Next(Answer* answer) override {
    if (answers_.empty()) return false;
    std::this_thread::sleep_for(wait_);
    *answer = std::move(answers_.front());
    answers_.pop_front();
    return true;
  }
  size_t outstanding() const override { return answers_.size(); }
  size_t depth() const override { return depth_; }

 private:
  Map& map_;
  const size_t depth_;
  const std::chrono::microseconds wait_;
  std::deque<Answer> answers_;
};

class MapSession : public Session {
 public:
  MapSession(Map& map, const MapQuirks& quirks, ReadCounts& reads)
      : map_(map), quirks_(quirks), reads_(reads) {}

  Status Put(const Slice& key, const Slice& value) override {
    if (quirks_.refuses && quirks_.refuses(key)) return Status::IOError("refused by the test");
    if (!quirks_.loses || !quirks_.loses(key)) map_.Put(key, value);
    return Status::OK();
  }
  Status Delete(const Slice& key) override {
    map_.Delete(key);
    return Status::OK();
  }
  Status DeleteRange(const Slice& begin, const Slice& end) override {
    map_.DeleteRange(begin, end);
    return Status::OK();
  }
  Status BulkLoad(SortedSource* source) override {
    Slice key;
    Slice value;
    while (source->Next(&key, &value)) {
      const Status put = Put(key, value);
      if (!put.ok()) return put;
    }
    return source->status();
  }
  void BatchPut(const Slice& key, const Slice& value) override { Put(key, value).ok(); }
  void BatchDelete(const Slice& key) override { Delete(key).ok(); }
  Status WriteBatch() override { return Status::OK(); }
  void SetSync(bool /*sync*/) override {}
  Outcome Get(const Slice& key, Slice* value) override {
    ++reads_.gets;
    if (quirks_.hides && quirks_.hides(key)) return Outcome::kMissing;
    if (!map_.Get(key, &value_)) return Outcome::kMissing;
    *value = value_;
    return Outcome::kFound;
  }
  Status MultiGet(const std::vector<Slice>& keys,
                  std::vector<std::optional<Slice>>* values) override {
    values_.resize(keys.size());
    values->assign(keys.size(), std::nullopt);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (map_.Get(keys[i], &values_[i])) (*values)[i] = values_[i];
    }
    return Status::OK();
  }
  std::unique_ptr<GetPipeline> NewGetPipeline(size_t depth) override {
    return std::make_unique<MapPipeline>(map_, depth, quirks_.pipeline_wait);
  }
  // By a look at all of them.
  Status QueryIndex(const Slice& begin, const Slice& end,
                    std::vector<std::string>* values) override {
    values->clear();
    for (const auto& [key, value] : map_.Copy()) {
      const std::string index_key = BenchIndexKey(key, value);
      if (begin.compare(index_key) <= 0 && end.compare(index_key) > 0) values->push_back(value);
    }
    return Status::OK();
  }
  Status status() const override { return Status::OK(); }
  Cursor& NewCursor() override {
    ++reads_.cursors;
    cursor_ = std::make_unique<MapCursor>(map_.Copy());
    return *cursor_;
  }
  void DropCursor() override { cursor_.reset(); }

 private:
  Map& map_;
  const MapQuirks& quirks_;
  ReadCounts& reads_;
  std::string value_;
  std::vector<std::string> values_;
  std::unique_ptr<MapCursor> cursor_;
};

class MapEngine : public Engine {
 public:
  std::vector<std::string> Notes() const override { return {}; }
  Status Open(bool /*create*/) override { return Status::OK(); }
  Status Close() override { return Status::OK(); }
  Status Destroy() override {
    map_.Clear();
    return Status::OK();
  }
  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<MapSession>(map_, quirks, reads);
  }
  Status Flush() override { return Status::OK(); }
  Status Compact() override { return Status::OK(); }
  Status WaitForBackgroundWork() override { return Status::OK(); }
  EngineCounters Counters() override { return {}; }
  std::string Stats() override { return "stats of a map"; }
  std::string LevelStats() override { return {}; }

  Map& map() { return map_; }
  MapQuirks quirks;
  ReadCounts reads;

 private:
  Map map_;
};

}  // namespace dlsm::bench
