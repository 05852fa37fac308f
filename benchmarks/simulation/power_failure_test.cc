// Power failures after each call to the disk, one after the other, in a run of all that makes
// something durable. (LevelDB's fault injection tests have the idea.)
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/simulation/cluster_testing.h"
#include "dLSM/db.h"
#include "dLSM/write_batch.h"
#include "util/rounds_testing.h"
#include "util/status_macros.h"
#include "util/status_testing.h"

namespace dlsm::simulation {
namespace {

using Contents = std::map<std::string, std::string>;

// What the database may have: that after each of its writes, one after the other, of which those up
// to the durable one must be there.
class History {
 public:
  // A write is about to be made.
  void Begin(const std::map<std::string, std::optional<std::string>>& changes) {
    Contents next = states_.back();
    for (const auto& [key, value] : changes) {
      if (value.has_value()) {
        next[key] = *value;
      } else {
        next.erase(key);
      }
    }
    states_.push_back(std::move(next));
  }
  // All that has begun is on disk.
  void SetDurable() { durable_ = states_.size() - 1; }

  bool MayBe(const Contents& found) const {
    for (size_t i = durable_; i < states_.size(); ++i) {
      if (states_[i] == found) return true;
    }
    return false;
  }
  // The contents that were found are the first of a new history.
  void Restart(const Contents& found) {
    states_ = {found};
    durable_ = 0;
  }
  const Contents& newest() const { return states_.back(); }

 private:
  std::vector<Contents> states_{Contents()};
  size_t durable_ = 0;
};

Status ReadAll(DB* db, Contents* found) {
  found->clear();
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    (*found)[iterator->key().ToString()] = iterator->value().ToString();
  }
  return iterator->status();
}

// Processes that do everything once, and stop at the first error.
class Scenario {
 public:
  Scenario(Cluster* cluster, History* history) : cluster_(*cluster), history_(*history) {}

  bool may_be_gone() const { return destroying_; }
  bool must_be_gone() const { return destroyed_; }

  Options OptionsOfNewHost() {
    host_ = cluster_.NewHost();
    Options options = cluster_.OptionsOn(host_);
    options.log = LogLevel::kDisk;
    options.log_bytes_max = 256 << 10;
    options.shard_boundaries = {"m"};
    return options;
  }

  Status Run() {
    Options options = OptionsOfNewHost();
    DLSM_RETURN_IF_ERROR(DB::Open(options, "db", &db_));
    for (int i = 0; i < 3; ++i) DLSM_RETURN_IF_ERROR(Put("a" + std::to_string(i), /*sync=*/true));
    for (int i = 0; i < 3; ++i) DLSM_RETURN_IF_ERROR(Put("z" + std::to_string(i), /*sync=*/false));
    DLSM_RETURN_IF_ERROR(WriteBatchOverShards(/*sync=*/false));
    DLSM_RETURN_IF_ERROR(Durable(db_->FlushLog(/*sync=*/true)));
    DLSM_RETURN_IF_ERROR(WriteBatchOverShards(/*sync=*/true));
    DLSM_RETURN_IF_ERROR(Delete("a1"));
    DLSM_RETURN_IF_ERROR(Durable(db_->Flush(FlushOptions())));
    DLSM_RETURN_IF_ERROR(Put("b", /*sync=*/false));
    DLSM_RETURN_IF_ERROR(Durable(db_->WaitDurable(db_->LatestSequence())));
    DLSM_RETURN_IF_ERROR(Durable(db_->CompactRange(nullptr, nullptr)));
    // More than the log may have: its segments are used again.
    for (int i = 0; i < 40; ++i) {
      DLSM_RETURN_IF_ERROR(Put("l" + std::to_string(i % 4), /*sync=*/i % 3 == 0, 9000));
    }
    DLSM_RETURN_IF_ERROR(Durable(db_->Close()));
    db_.reset();
    DLSM_RETURN_IF_ERROR(DB::Open(options, "db", &db_));
    DLSM_RETURN_IF_ERROR(Put("c", /*sync=*/true));
    DLSM_RETURN_IF_ERROR(WriteBatchOverShards(/*sync=*/false));
    // Another process takes over, and brings the log back.
    cluster_.Kill(host_.get());
    db_->Close().PermitUncheckedError();
    db_.reset();
    options = OptionsOfNewHost();
    DLSM_RETURN_IF_ERROR(DB::Open(options, "db", &db_));
    Contents found;
    DLSM_RETURN_IF_ERROR(ReadAll(db_.get(), &found));
    EXPECT_TRUE(history_.MayBe(found)) << "after a take-over";
    history_.Restart(found);
    DLSM_RETURN_IF_ERROR(Put("d", /*sync=*/true));
    DLSM_RETURN_IF_ERROR(Durable(db_->Close()));
    db_.reset();
    destroying_ = true;
    DLSM_RETURN_IF_ERROR(DestroyDB("db", options));
    destroyed_ = true;
    return Status::OK();
  }
  // The process dies, with the handle that it has open.
  void End() {
    cluster_.Kill(host_.get());
    if (db_ != nullptr) db_->Close().PermitUncheckedError();
    db_.reset();
  }

 private:
  Status Durable(const Status& status) {
    if (status.ok()) history_.SetDurable();
    return status;
  }
  Status Write(const std::map<std::string, std::optional<std::string>>& changes, bool sync) {
    history_.Begin(changes);
    WriteBatch batch;
    for (const auto& [key, value] : changes) {
      if (value.has_value()) {
        batch.Put(key, *value);
      } else {
        batch.Delete(key);
      }
    }
    WriteOptions options;
    options.sync = sync;
    const Status written = db_->Write(options, &batch);
    return sync ? Durable(written) : written;
  }
  Status Put(const std::string& key, bool sync, size_t bytes = 100) {
    return Write({{key, std::to_string(++writes_) + std::string(bytes, 'v')}}, sync);
  }
  Status Delete(const std::string& key) { return Write({{key, std::nullopt}}, /*sync=*/true); }
  Status WriteBatchOverShards(bool sync) {
    const std::string value = std::to_string(++writes_);
    return Write({{"b1", value}, {"k1", value}, {"x1", value}, {"z1", std::nullopt}}, sync);
  }

  Cluster& cluster_;
  History& history_;
  std::shared_ptr<SimulatedHost> host_;
  std::unique_ptr<DB> db_;
  int writes_ = 0;
  bool destroying_ = false;
  bool destroyed_ = false;
};

// After the failure; then once more, for what was found must stay.
void ExpectWhatMayBe(Cluster* cluster, Scenario* scenario, History* history) {
  for (int times = 0; times < 2; ++times) {
    Options options = scenario->OptionsOfNewHost();
    options.create_if_missing = false;
    options.shard_boundaries.clear();
    std::unique_ptr<DB> db;
    const Status opened = DB::Open(options, "db", &db);
    if (!opened.ok()) {
      // It was about to be made, or to be destroyed.
      const bool may_be_missing = scenario->may_be_gone() || history->MayBe(Contents());
      ASSERT_TRUE(may_be_missing && (opened.IsNotFound() || opened.IsInvalidArgument()))
          << opened.ToString();
      return;
    }
    ASSERT_FALSE(scenario->must_be_gone());
    Contents found;
    ASSERT_OK(ReadAll(db.get(), &found));
    ASSERT_TRUE(history->MayBe(found))
        << found.size() << " keys, and not " << history->newest().size();
    history->Restart(found);
    ASSERT_OK(db->Close());
    cluster->LosePower();
  }
}

// Fails if anything that was acknowledged as durable is lost, a batch is torn, what was destroyed
// comes back, or a database cannot be opened, after whichever call to the disk the power fails.
TEST(PowerFailureTest, AfterEachCallToTheDisk) {
  uint64_t calls = 0;
  // Of those that are slow, some.
  const uint64_t step = kUnderSanitizer ? 7 : 1;
  for (bool through = false; !through; calls += step) {
    SCOPED_TRACE(calls);
    Cluster cluster(calls + 1, /*has_disk=*/true, /*bytes=*/uint64_t{8} << 20);
    cluster.Run([&] {
      History history;
      Scenario scenario(&cluster, &history);
      cluster.StopDiskAfter(calls);
      const Status status = scenario.Run();
      through = !cluster.disk_has_stopped();
      if (through) {
        ASSERT_OK(status);
      }
      scenario.End();
      cluster.LosePower();
      ExpectWhatMayBe(&cluster, &scenario, &history);
    });
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(calls, 100u);
  RecordProperty("calls", static_cast<int>(calls));
}

}  // namespace
}  // namespace dlsm::simulation
