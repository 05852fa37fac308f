#include "benchmarks/bench_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "port/mutex.h"

namespace dlsm::bench {
namespace {

using testing::HasSubstr;

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

// Puts that `loses` says are forgotten.
class MapSession : public Session {
 public:
  using Loses = std::function<bool(const Slice& key)>;
  MapSession(Map& map, const Loses& loses) : map_(map), loses_(loses) {}

  Status Put(const Slice& key, const Slice& value) override {
    if (!loses_ || !loses_(key)) map_.Put(key, value);
    return Status::OK();
  }
  Status Delete(const Slice& key) override {
    map_.Delete(key);
    return Status::OK();
  }
  void BatchPut(const Slice& key, const Slice& value) override { Put(key, value).ok(); }
  void BatchDelete(const Slice& key) override { Delete(key).ok(); }
  Status WriteBatch() override { return Status::OK(); }
  void SetSync(bool /*sync*/) override {}
  Outcome Get(const Slice& key, Slice* value) override {
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
  Status status() const override { return Status::OK(); }
  Cursor& NewCursor() override {
    cursor_ = std::make_unique<MapCursor>(map_.Copy());
    return *cursor_;
  }
  void DropCursor() override { cursor_.reset(); }

 private:
  Map& map_;
  const Loses& loses_;
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
    return std::make_unique<MapSession>(map_, loses);
  }
  Status Flush() override { return Status::OK(); }
  Status Compact() override { return Status::OK(); }
  Status WaitForBackgroundWork() override { return Status::OK(); }
  EngineCounters Counters() override { return {}; }
  std::string Stats() override { return "stats of a map"; }
  std::string LevelStats() override { return {}; }

  Map& map() { return map_; }
  MapSession::Loses loses;  // Set while no thread runs.

 private:
  Map map_;
};

class BenchRunnerTest : public testing::Test {
 protected:
  BenchRunnerTest() {
    options_.num = 300;
    options_.threads = 3;
    options_.value_bytes = 50;
    options_.progress = false;
  }

  BenchResult Run(BenchRunner& runner, const char* name) {
    BenchResult result = runner.Run(*FindWorkload(name));
    EXPECT_EQ(result.name, name);
    return result;
  }

  BenchOptions options_;
  MapEngine engine_;
};

// Fails if any write workload leaves something else than verify expects of it.
TEST_F(BenchRunnerTest, VerifyAgreesAfterEachWorkload) {
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  for (const Workload& workload : Workloads()) {
    SCOPED_TRACE(workload.name);
    const BenchResult result = runner.Run(workload);
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    EXPECT_GT(result.ops, 0u);
    const BenchResult verified = Run(runner, "verify");
    EXPECT_TRUE(verified.status.ok()) << verified.status.ToString();
    EXPECT_EQ(verified.ops, options_.num);
    EXPECT_EQ(verified.found, engine_.map().Copy().size());
  }
}

// Fails if verify overlooks one lost put, one key too many or one wrong value.
TEST_F(BenchRunnerTest, VerifySeesEveryKindOfDamage) {
  KeyFormatter keys(options_.key_bytes);
  const std::string victim = keys.Format(77).ToString();
  const std::function<void()> damages[] = {
      [&] { engine_.map().Delete(victim); },
      [&] { engine_.map().Put(victim, "another value"); },
      [&] { engine_.map().Put(victim + "0", "a key that nobody wrote"); },
  };
  for (const auto& damage : damages) {
    BenchRunner runner(options_, "map", engine_);
    ASSERT_TRUE(runner.Open().ok());
    EXPECT_TRUE(Run(runner, "fillseq").status.ok());
    EXPECT_TRUE(Run(runner, "verify").status.ok());
    damage();
    const BenchResult verified = Run(runner, "verify");
    EXPECT_TRUE(verified.status.IsCorruption()) << verified.status.ToString();
    EXPECT_THAT(verified.status.ToString(), HasSubstr(victim));
  }
}

// Fails if verify takes the value of an earlier workload for that of the last.
TEST_F(BenchRunnerTest, VerifySeesAStaleValue) {
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  EXPECT_TRUE(Run(runner, "fillseq").status.ok());
  engine_.loses = [](const Slice& key) { return key[key.size() - 1] == '5'; };
  EXPECT_TRUE(Run(runner, "overwrite").status.ok());
  EXPECT_TRUE(Run(runner, "verify").status.IsCorruption());
}

// Fails if a fill does not start from nothing, or an existing database is not left alone.
TEST_F(BenchRunnerTest, FillsStartEmptyAndSpareWhatExists) {
  options_.benchmarks = {"fillseq", "fillrandom"};
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  Run(runner, "fillseq");
  EXPECT_EQ(engine_.map().Copy().size(), options_.num);
  options_.threads = 1;
  Run(runner, "fillrandom");
  EXPECT_LT(engine_.map().Copy().size(), options_.num);

  options_.use_existing_db = true;
  options_.history = {"fillseq"};
  BenchRunner second(options_, "map", engine_);
  ASSERT_TRUE(second.Open().ok());
  EXPECT_TRUE(second.Skips(*FindWorkload("fillseq")));
  EXPECT_FALSE(second.Skips(*FindWorkload("overwrite")));
  EXPECT_TRUE(Run(second, "verify").status.IsCorruption()) << "not what fillseq leaves";
  options_.history.clear();
  BenchRunner third(options_, "map", engine_);
  ASSERT_TRUE(third.Open().ok());
  EXPECT_TRUE(Run(third, "verify").status.ok()) << "unknown history: any version will do";
}

// Fails if a duration does not end a workload, or numbers of operations do.
TEST_F(BenchRunnerTest, DurationTakesThePlaceOfNumbers) {
  options_.duration_seconds = 0.05;
  options_.reads = 1;
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  Run(runner, "fillrandom");
  const BenchResult result = Run(runner, "readrandom");
  EXPECT_GT(result.ops, 3u);
  EXPECT_GE(result.seconds, 0.045);
  EXPECT_LT(result.seconds, 5);
  EXPECT_TRUE(Run(runner, "verify").status.ok()) << "the steps taken in that time are known";
}

TEST_F(BenchRunnerTest, WholeWorkloadsPrintTheirText) {
  BenchRunner runner(options_, "map", engine_);
  ASSERT_TRUE(runner.Open().ok());
  EXPECT_THAT(Run(runner, "stats").text, HasSubstr("stats of a map"));
  EXPECT_EQ(FindWorkload("nonsense"), nullptr);
}

}  // namespace
}  // namespace dlsm::bench
