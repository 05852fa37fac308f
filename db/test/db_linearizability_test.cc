// What several threads do to a database at once, while it flushes and merges and its network fails,
// is recorded, and then one order of it is looked for that explains everything that was seen.
//
// A register is a key, or a group of keys spread over the whole range that batches write together.
// Two things must hold:
//   1. Of each register by itself, the history is linearizable, whatever way it was read.
//   2. Writes and reads at one moment (MultiGet, iterators, snapshots) of all registers together
//      have one order too: who sees a write sees everything that was written before it, wherever.
//      Point reads without a snapshot are not held to this: they see a write before older ones that
//      are still under way.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "db/test/history_testing.h"
#include "db/test/linearizability_checker_testing.h"
#include "db/test/register_worker_testing.h"
#include "db/test/shape_changes_testing.h"
#include "db/test/test_database_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/random.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kHistoryThreads = 5;
constexpr auto kPhase = milliseconds(1000);
// Of each thread in a phase: the checker's time is bounded by this.
constexpr int kStepsMax = 16000;

struct HistoryShape {
  const char* name;
  const char* fabric = "";  // "": embedded.
  std::function<void(Options*)> change = [](Options*) {};
  bool faults = false;
  size_t memory_nodes = 1;  // Not embedded: that many.
};
void PrintTo(const HistoryShape& shape, std::ostream* out) { *out << shape.name; }

// Holds up threads for a moment, wherever they are: as a busy machine does, but so often that it
// also happens between two instructions that belong together.
class Interrupter {
 public:
  Interrupter() {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      const int saved = errno;
      const timespec moment = {0, 100'000};
      nanosleep(&moment, nullptr);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    EXPECT_EQ(sigaction(SIGUSR1, &action, &before_), 0);
  }
  ~Interrupter() { EXPECT_EQ(sigaction(SIGUSR1, &before_, nullptr), 0); }
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;

  // The thread has not been joined.
  void HoldUp(std::thread& thread) { pthread_kill(thread.native_handle(), SIGUSR1); }

 private:
  struct sigaction before_ = {};
};

class LinearizabilityTest : public testing::TestWithParam<HistoryShape> {
 protected:
  void SetUp() override {
    const std::string why_not = TestNode::WhyNot(GetParam().fabric);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    options_ = TinyOptions();
    options_.compaction_style = CompactionStyle::kLeveled;  // Shapes of other styles say so.
    GetParam().change(&options_);
    if (GetParam().faults) {
      options_.fault_injector = faults_;
      options_.operation_timeout_ms = 1000;
      options_.write_stall_timeout_ms = 100;
      options_.paranoid_checks = true;  // Some of the faults are flipped bits.
    }
    if (GetParam().memory_nodes > 1) {
      nodes_.emplace(GetParam().memory_nodes, GetParam().fabric);
      options_ = nodes_->With(options_);
    } else {
      node_ = NodeServing(GetParam().fabric, &options_);
    }
    name_ = "linearizability " + std::string(GetParam().name);
    db_ = OpenOrDie(options_, name_);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, name_); }

  // All threads for some time; then, with the network well again, one that sees everything.
  void RunPhase() {
    const Clock::time_point end = Clock::now() + kPhase;
    std::vector<std::thread> threads;
    std::atomic<int> running{kHistoryThreads};
    for (int t = 0; t < kHistoryThreads; ++t) {
      threads.emplace_back([this, t, end, &running] {
        RegisterWorker worker(db_.get(), layout_, &recorder_.LogOf(t), GetParam().faults,
                              first_values_[t], kHistoryThreads);
        for (int i = 0; i < kStepsMax && Clock::now() < end && !HasFailure(); ++i) worker.Step();
        first_values_[t] = worker.next_value();
        --running;
      });
    }
    std::atomic<bool> stop{false};
    std::thread disturber([this, &stop] { Disturb(stop); });
    Interrupter interrupter;
    Random random(98);
    while (running > 0) {
      interrupter.HoldUp(threads[random.Uniform(kHistoryThreads)]);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    for (std::thread& thread : threads) thread.join();
    stop = true;
    disturber.join();
    faults_->Clear();
    ReadAll();
  }

  void ReadAll() {
    RegisterWorker(db_.get(), layout_, &recorder_.LogOf(kHistoryThreads), false, 1, 1).ReadAll();
  }

  // Flushes and merges what has come to be, of the whole range or a part of it, and changes what is
  // wrong with the network.
  void Disturb(const std::atomic<bool>& stop) {
    Random random(99);
    for (uint64_t round = 0; !stop; ++round) {
      if (GetParam().faults && round % 4 == 0) ChangeFaults(round / 4);
      const Status flushed = db_->Flush(FlushOptions());
      EXPECT_TRUE(flushed.ok() || GetParam().faults) << flushed.ToString();
      const std::string from = layout_.key(random.Uniform(RegisterLayout::kKeys));
      const std::string to = layout_.key(random.Uniform(RegisterLayout::kKeys));
      const Slice begin(std::min(from, to));
      const Slice limit(std::max(from, to));
      const bool all = random.OneIn(2);
      const Status merged = db_->CompactRange(all ? nullptr : &begin, all ? nullptr : &limit);
      EXPECT_TRUE(merged.ok() || GetParam().faults) << merged.ToString();
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  void ChangeFaults(uint64_t round) {
    faults_->Clear();
    faults_->OnlyPurpose(std::nullopt);
    switch (round % 4) {
      case 0:  // Transfers come late.
        faults_->SetDelay(milliseconds(2));
        faults_->SetProbability(FaultKind::kDelay, 0.1);
        break;
      case 1:  // Everything breaks now and then, and is connected again.
        faults_->SetProbability(FaultKind::kDelay, 0.02);
        faults_->SetProbability(FaultKind::kFail, 0.01);
        faults_->SetProbability(FaultKind::kHalfWrite, 0.01);
        faults_->SetProbability(FaultKind::kCorrupt, 0.01);
        faults_->SetProbability(FaultKind::kDisconnect, 0.02);
        break;
      case 2:  // One transfer is lost.
        faults_->FailNth(random_post_, FaultKind::kDrop);
        random_post_ = random_post_ * 5 % 97;
        break;
      default:  // Nothing can be flushed, for longer than writers wait.
        faults_->OnlyPurpose(Purpose::kFlush);
        faults_->SetProbability(FaultKind::kFail, 1);
        std::this_thread::sleep_for(milliseconds(300));
        faults_->Clear();
    }
  }

  const RegisterLayout layout_;
  std::shared_ptr<FaultInjector> faults_ = std::make_shared<FaultInjector>();
  uint64_t random_post_ = 7;
  std::unique_ptr<TestNode> node_;
  std::optional<TestNodes> nodes_;  // Several.
  Options options_;
  std::string name_;
  std::unique_ptr<DB> db_;
  HistoryRecorder recorder_{kHistoryThreads + 1};
  uint64_t first_values_[kHistoryThreads] = {1, 2, 3, 4, 5};
};

// Fails if any read, at any time and in any way, sees what no order of the writes explains: a stale
// or lost value, a part of a batch, one write without an earlier one. Before and after the database
// was closed and opened again.
TEST_P(LinearizabilityTest, HistoriesHaveAnOrder) {
  RunPhase();
  EXPECT_GT(db_->GetStatistics()->Get(Ticker::kFlushes), 3u);
  EXPECT_GT(db_->GetStatistics()->Get(Ticker::kMergesLocal) +
                db_->GetStatistics()->Get(Ticker::kMergesRemote),
            3u);
  ASSERT_OK(db_->Flush(FlushOptions()));
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, name_);
  ReadAll();
  RunPhase();
  if (GetParam().faults) {
    EXPECT_GT(faults_->CountFaults(), 0u);
  }

  const History history = recorder_.Collect();
  EXPECT_GT(history.size(), 200u);
  RecordProperty("operations", std::to_string(history.size()));
  RecordProperty("flushes", std::to_string(db_->GetStatistics()->Get(Ticker::kFlushes)));
  RecordProperty("faults", std::to_string(faults_->CountFaults()));
  const Verdict each = CheckLinearizability(CutIntoRegisters(history));
  EXPECT_TRUE(each.outcome == Verdict::Outcome::kLinearizable) << each;
  const Verdict together = CheckLinearizability(OrderedTogether(history));
  EXPECT_TRUE(together.outcome == Verdict::Outcome::kLinearizable) << together;
}

void FourShards(Options* options) {
  Guards(options);
  options->shards = 4;
  options->value_cache_size = uint64_t{64} << 10;
}
void SmallSnappyBlocks(Options* options) {
  options->table_format = TableFormat::kBlockBased;
  options->block_size = 2048;
  options->compression = kSnappyCompression;
}

void PlacedGuards(Options* options) {
  Guards(options);
  options->placement = TablePlacement::kPowerOfD;
  options->scatter_width = 2;
}

std::vector<HistoryShape> AllHistoryShapes() {
  return {
      {"Leveled"},
      {"LeveledMergedHere", "", MergeHere},
      {"Guards", "", Guards},
      {"Tiered", "", Style<CompactionStyle::kTiered>},
      {"SizeTiered", "", Style<CompactionStyle::kSizeTiered>},
      {"SnappyBlocks", "", SmallSnappyBlocks},
      {"TcpGuards", "tcp", Guards},
      {"Shards", "", FourShards},
      {"TcpShards", "tcp", FourShards},
      {"Verbs", "verbs"},
      {"Faults", "", MergeHere, true},
      {"TcpFaults", "tcp",
       [](Options* options) { options->compaction_place = CompactionPlace::kAutomatic; }, true},
      {"TcpGuardsFaults", "tcp",
       [](Options* options) {
         Guards(options);
         MergeHere(options);
       },
       true},
      {"TcpShardsFaults", "tcp", FourShards, true},
      {"ShmPlaced", "shm", PlacedGuards, false, 3},
      {"TcpPlacedFaults", "tcp", PlacedGuards, true, 3},
      {"VerbsFaults", "verbs", MergeHere, true},
  };
}

std::string HistoryShapeName(const testing::TestParamInfo<HistoryShape>& shape) {
  return shape.param.name;
}

INSTANTIATE_TEST_SUITE_P(EveryShape, LinearizabilityTest, testing::ValuesIn(AllHistoryShapes()),
                         HistoryShapeName);

}  // namespace
}  // namespace dlsm
