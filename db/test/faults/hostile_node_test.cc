// A memory node whose answers and memory are anything at all. Whatever it says, nothing in this
// process crashes, hangs, reads out of bounds or allocates without bound; values may be wrong where
// checksums are not verified. What sees most of that is AddressSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/iterator.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/test/faults/fault_world_testing.h"
#include "port/thread_sanitizer.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/random.h"
#include "util/rounds_testing.h"

// Of one piece; what a small database needs is far below. Without it, a length from the memory node
// that is believed shows only where it is as large as the machine.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=256:allocator_may_return_null=0";
}

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

// Few where little of this is seen.
#ifdef DLSM_THREAD_SANITIZER
constexpr uint64_t kSeeds = 15;
#else
constexpr uint64_t kSeeds = kUnderSanitizer ? 60 : 15;
#endif

// Of one call, on a busy machine and with sanitizers.
constexpr auto kCallMax = std::chrono::seconds(60);

// Ends the process when a call takes too long: it would not come back.
class Watchdog {
 public:
  explicit Watchdog(uint64_t seed) : seed_(seed), thread_([this] { Run(); }) {}
  ~Watchdog() {
    stop_ = true;
    thread_.join();
  }
  void Begin(const char* call) {
    call_ = call;
    since_ = Clock::now().time_since_epoch().count();
  }

 private:
  void Run() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const Clock::time_point since{Clock::duration(since_.load())};
      if (Clock::now() - since < kCallMax) continue;
      std::fprintf(stderr, "seed %llu: %s does not return\n",
                   static_cast<unsigned long long>(seed_), call_.load());
      std::abort();
    }
  }

  const uint64_t seed_;
  std::atomic<bool> stop_{false};
  std::atomic<const char*> call_{"nothing"};
  std::atomic<Clock::rep> since_{Clock::now().time_since_epoch().count()};
  std::thread thread_;
};

template <typename Value, size_t count>
Value PickOf(const std::array<Value, count>& values, Random* random) {
  return values[random->Uniform(count)];
}

Options DrawOptions(Random* random) {
  Options options = TinyOptions();
  options.operation_timeout_ms = 500;
  options.open_timeout_ms = 100;
  options.write_stall_timeout_ms = 100;
  options.table_format =
      random->OneIn(3) ? TableFormat::kBlockBased : TableFormat::kByteAddressable;
  if (options.table_format == TableFormat::kBlockBased && random->OneIn(2)) {
    options.compression = kSnappyCompression;
  }
  options.compaction_style = PickOf(
      std::array{CompactionStyle::kGuards, CompactionStyle::kLeveled, CompactionStyle::kTiered},
      random);
  options.compaction_place =
      PickOf(std::array{CompactionPlace::kMemoryNode, CompactionPlace::kComputeNode}, random);
  options.paranoid_checks = random->OneIn(3);
  options.publish_interval_ms = random->OneIn(2) ? 5 : 0;
  options.placement =
      PickOf(std::array{TablePlacement::kByShard, TablePlacement::kRoundRobin}, random);
  if (random->OneIn(3)) {
    options.shards = 2;
    options.shard_boundaries = {VersionedKeys::Key(60)};
    options.write_buffer_size *= 2;
  }
  return options;
}

// What the process does with a memory node that it should not have trusted. Statuses are not looked
// at: any will do.
class Victim {
 public:
  Victim(TestNodes* nodes, uint64_t seed)
      : random_(seed),
        name_("victim " + std::to_string(seed)),
        faults_(std::make_shared<FaultInjector>(seed)),
        options_(nodes->With(DrawOptions(&random_))),
        watchdog_(seed) {
    options_.fault_injector = faults_;
    faults_->HarmAll(true);
  }

  void Live() {
    if (random_.OneIn(4)) Mangle();  // From the first open on.
    Open();
    Fill();
    Mangle();
    for (int step = 0; step < 25; ++step) Step();
    faults_->Clear();
  }

  void Die() {
    follower_.reset();
    db_.reset();
    Options clean = options_;
    clean.fault_injector = nullptr;
    clean.open_timeout_ms = 10000;
    Status destroyed;
    const auto until = Clock::now() + std::chrono::seconds(20);
    do {
      destroyed = DestroyDB(name_, clean);
    } while ((destroyed.IsTimedOut() || destroyed.IsBusy()) && Clock::now() < until);
    EXPECT_OK(destroyed);
  }

 private:
  void Mangle() {
    constexpr std::array<std::optional<Purpose>, 7> kPurposes = {
        std::nullopt,         std::nullopt,    std::nullopt,         Purpose::kRead,
        Purpose::kCompaction, Purpose::kFlush, Purpose::kPublication};
    faults_->OnlyPurpose(PickOf(kPurposes, &random_));
    faults_->SetProbability(FaultKind::kMangle,
                            PickOf(std::array{0.01, 0.05, 0.2, 0.5, 1.0}, &random_));
  }

  void Open() {
    watchdog_.Begin("Open");
    if (db_ == nullptr) DB::Open(options_, name_, &db_).PermitUncheckedError();
  }

  void Fill() {
    for (int round = 0; round < 3 && db_ != nullptr; ++round) {
      watchdog_.Begin("Put");
      for (uint32_t i = 0; i < VersionedKeys::kKeys; ++i) {
        const Status put = db_->Put(WriteOptions(), VersionedKeys::Key(i),
                                    VersionedKeys::Value(i, static_cast<uint32_t>(round) + 1));
        if (!put.ok()) break;  // Each may wait for its time-out.
      }
      watchdog_.Begin("Flush");
      db_->Flush(FlushOptions()).PermitUncheckedError();
    }
  }

  void Step() {
    Open();
    DB* const db = follower_ != nullptr && random_.OneIn(2) ? follower_.get() : db_.get();
    const uint64_t what = random_.Uniform(10);
    if (db == nullptr) return Follow();
    switch (what) {
      case 0:
      case 1:
        return Gets(db);
      case 2:
        return MultiGet(db);
      case 3:
      case 4:
        return Scan(db);
      case 5:
        return Fill();
      case 6:
        watchdog_.Begin("CompactRange");
        db->CompactRange(nullptr, nullptr).PermitUncheckedError();
        return;
      case 7:
        return Properties(db);
      case 8:
        return Follow();
      default:
        if (db_ == nullptr) return;
        watchdog_.Begin("Close");
        db_->Close().PermitUncheckedError();
        db_.reset();
        return;
    }
  }

  ReadOptions Reads() {
    ReadOptions reads;
    reads.verify_checksums = random_.OneIn(2);
    return reads;
  }
  std::string AnyKey() {
    return VersionedKeys::Key(static_cast<uint32_t>(random_.Uniform(VersionedKeys::kKeys)));
  }

  void Gets(DB* db) {
    watchdog_.Begin("Get");
    const ReadOptions reads = Reads();
    for (int i = 0; i < 20; ++i) {
      std::string value;
      db->Get(reads, AnyKey(), &value).PermitUncheckedError();
      PinnableSlice pinned;
      if (db->Get(reads, AnyKey(), &pinned).ok()) Touch(pinned);
    }
  }

  void MultiGet(DB* db) {
    watchdog_.Begin("MultiGet");
    std::vector<std::string> keys;
    for (int i = 0; i < 30; ++i) keys.push_back(AnyKey());
    std::vector<std::string> values;
    const auto statuses = db->MultiGet(Reads(), {keys.begin(), keys.end()}, &values);
    EXPECT_EQ(statuses.size(), keys.size());
    for (const Status& status : statuses) status.PermitUncheckedError();
    for (const std::string& value : values) Touch(value);
  }

  // Bad bytes may hold any number of keys, but not for ever.
  void Scan(DB* db) {
    watchdog_.Begin("iterators");
    const std::unique_ptr<Iterator> iterator(db->NewIterator(Reads()));
    const bool forward = random_.OneIn(2);
    switch (random_.Uniform(3)) {
      case 0:
        iterator->Seek(AnyKey());
        break;
      case 1:
        iterator->SeekForPrev(AnyKey());
        break;
      default:
        forward ? iterator->SeekToFirst() : iterator->SeekToLast();
    }
    for (int i = 0; i < 500 && iterator->Valid(); ++i) {
      Touch(iterator->key());
      Touch(iterator->value());
      forward == !random_.OneIn(10) ? iterator->Next() : iterator->Prev();
    }
    iterator->status().PermitUncheckedError();
  }

  void Properties(DB* db) {
    watchdog_.Begin("GetProperty");
    std::string text;
    for (const char* property : {"dlsm.stats", "dlsm.levels", "dlsm.merge-load", "dlsm.guards"}) {
      (void)db->GetProperty(property, &text);
    }
    const Range range("", "~");
    uint64_t size = 0;
    db->GetApproximateSizes(&range, 1, &size);
  }

  void Follow() {
    if (options_.publish_interval_ms == 0) return;
    if (follower_ != nullptr && random_.OneIn(2)) {
      watchdog_.Begin("TryCatchUp");
      follower_->TryCatchUp().PermitUncheckedError();
      return;
    }
    follower_.reset();
    Options following = options_;
    following.publish_interval_ms = 0;
    following.follow_interval_ms = random_.OneIn(2) ? 5 : 0;
    watchdog_.Begin("OpenFollower");
    DB::OpenFollower(following, name_, &follower_).PermitUncheckedError();
  }

  // Reads every byte.
  void Touch(const Slice& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) sum_ += static_cast<unsigned char>(bytes[i]);
  }

  Random random_;
  const std::string name_;
  const std::shared_ptr<FaultInjector> faults_;
  Options options_;
  Watchdog watchdog_;
  uint64_t sum_ = 0;
  std::unique_ptr<DB> db_;
  std::unique_ptr<DB> follower_;
};

class HostileNodeTest : public testing::TestWithParam<const char*> {};

TEST_P(HostileNodeTest, AnythingItSaysIsSurvived) {
  const char* const only = std::getenv("DLSM_HOSTILE_SEED");
  const char* const count = std::getenv("DLSM_HOSTILE_SEEDS");
  const uint64_t seeds = count != nullptr ? std::strtoull(count, nullptr, 10) : kSeeds;
  const uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 1;
  TestNode::Config config;
  config.bytes = uint64_t{64} << 20;
  config.lease = std::chrono::milliseconds(200);
  config.grace = std::chrono::milliseconds(50);
  TestNodes nodes(std::vector<TestNode::Config>(2, config), GetParam());
  for (uint64_t seed = first; seed < first + (only != nullptr ? 1 : seeds); ++seed) {
    SCOPED_TRACE(testing::Message() << "DLSM_HOSTILE_SEED=" << seed);
    Victim victim(&nodes, seed);
    victim.Live();
    victim.Die();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, HostileNodeTest, testing::Values("shm", "tcp"),
                         [](const auto& fabric) { return std::string(fabric.param); });

}  // namespace
}  // namespace dlsm
