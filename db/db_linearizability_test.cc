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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/history_testing.h"
#include "db/linearizability_checker_testing.h"
#include "db/test_database_testing.h"
#include "util/fabric/fault_injector.h"
#include "util/random.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kThreads = 5;
constexpr auto kPhase = milliseconds(1000);
// Of each thread in a phase: the checker's time is bounded by this.
constexpr int kStepsMax = 16000;

constexpr uint32_t kGroups = 3;
constexpr uint32_t kKeysOfGroup = 8;
constexpr uint32_t kSingles = 5;
constexpr uint32_t kRegisters = kGroups + kSingles;
constexpr size_t kKeys = kGroups * kKeysOfGroup + kSingles;

// -------- Registers and their keys

// The keys of all registers, in order. Each group, and the single keys together, have their keys
// spread evenly over the first byte.
class Layout {
 public:
  Layout() {
    std::map<std::string, uint32_t> keys;
    for (uint32_t group = 0; group < kGroups; ++group) {
      for (uint32_t i = 0; i < kKeysOfGroup; ++i) {
        keys[KeyAt(256 * i / kKeysOfGroup + 3 * group, "group" + std::to_string(group))] = group;
      }
    }
    for (uint32_t i = 0; i < kSingles; ++i) {
      keys[KeyAt(256 * i / kSingles + 25, "single")] = kGroups + i;
    }
    for (const auto& [key, register_index] : keys) {
      keys_of_[register_index].push_back(keys_.size());
      registers_.push_back(register_index);
      keys_.push_back(key);
    }
  }

  const std::string& key(size_t index) const { return keys_[index]; }
  uint32_t RegisterOf(size_t key_index) const { return registers_[key_index]; }
  const std::vector<size_t>& KeysOf(uint32_t register_index) const {
    return keys_of_[register_index];
  }
  std::optional<size_t> Find(const std::string& key) const {
    const auto place = std::ranges::lower_bound(keys_, key);
    if (place == keys_.end() || *place != key) return std::nullopt;
    return static_cast<size_t>(place - keys_.begin());
  }

 private:
  static std::string KeyAt(uint32_t first_byte, const std::string& rest) {
    return static_cast<char>(first_byte) + rest;
  }

  std::vector<std::string> keys_;
  std::vector<uint32_t> registers_;  // Of each key.
  std::vector<size_t> keys_of_[kRegisters];
};

// Of different lengths, so that one value over another shows.
std::string ValueOf(uint64_t value) {
  std::string text = std::to_string(value) + ":";
  text.resize(20 + SplitMix64(value) % 1200, static_cast<char>('a' + value % 26));
  return text;
}

// What was seen of each key.
using Observation = std::vector<std::optional<uint64_t>>;

// -------- What a thread does

struct Shape {
  const char* name;
  const char* fabric = "";  // "": embedded.
  std::function<void(Options*)> change = [](Options*) {};
  bool faults = false;
  size_t memory_nodes = 1;  // Not embedded: that many.
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class Worker {
 public:
  // `may_fail`: errors are expected. Values are different from those of all other workers whose
  // `first_value` differs by less than `step`.
  Worker(DB* db, const Layout& layout, HistoryRecorder::Log* log, bool may_fail,
         uint64_t first_value, uint64_t step)
      : db_(db),
        layout_(layout),
        log_(*log),
        may_fail_(may_fail),
        next_value_(first_value),
        value_step_(step),
        random_(first_value) {}
  ~Worker() { LetGo(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Step() {
    const uint64_t dice = random_.Uniform(100);
    if (dice < 20) {
      WriteSingle();
    } else if (dice < 45) {
      WriteGroups();
    } else if (dice < 70) {
      GetSome();
    } else if (dice < 80) {
      MultiGetSome();
    } else if (dice < 90) {
      Iterate();
    } else {
      UseSnapshot();
    }
  }

  // Sees everything in every way.
  void ReadAll() {
    for (uint32_t i = 0; i < kRegisters; ++i) GetRegister(i);
    for (int i = 0; i < 4; ++i) {
      MultiGetSome();
      Iterate();
      UseSnapshot();
    }
    LetGo();
  }

  // Gives back what it holds of the database.
  void LetGo() {
    iterator_.reset();
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
  }

  uint64_t next_value() const { return next_value_; }

 private:
  uint64_t NewValue() {
    next_value_ += value_step_;
    return next_value_ - value_step_;
  }
  void NoteError(const Status& status) {
    if (!may_fail_) ADD_FAILURE() << status.ToString();
  }

  // -------- Writes

  // One key, and often a look at it right afterwards.
  void WriteSingle() {
    const auto register_index = static_cast<uint32_t>(kGroups + random_.Uniform(kSingles));
    const std::string& key = layout_.key(layout_.KeysOf(register_index).front());
    const uint64_t value = random_.OneIn(4) ? kNoValue : NewValue();
    const std::string bytes = ValueOf(value);
    WriteBatch batch;
    const bool batched = random_.OneIn(3);
    if (batched) {
      batch.Put(key, ValueOf(NewValue()));
      AddTo(&batch, register_index, value);
    }
    const Tick called = log_.Now();
    if (batched) {
      NoteWrite("Write", called, db_->Write(WriteOptions(), &batch), {{register_index, value}});
    } else if (value == kNoValue) {
      NoteWrite("Delete", called, db_->Delete(WriteOptions(), key), {{register_index, value}});
    } else {
      NoteWrite("Put", called, db_->Put(WriteOptions(), key, bytes), {{register_index, value}});
    }
    if (random_.OneIn(2)) GetRegister(register_index);
  }

  // Of several entries for a key the last one counts; nobody may see the others.
  void AddTo(WriteBatch* batch, uint32_t register_index, uint64_t value) {
    for (const size_t key_index : layout_.KeysOf(register_index)) {
      const std::string& key = layout_.key(key_index);
      if (random_.OneIn(8)) batch->Delete(key);
      if (random_.OneIn(8)) batch->Put(key, ValueOf(NewValue()));
      value == kNoValue ? batch->Delete(key) : batch->Put(key, ValueOf(value));
    }
  }

  // A group or two, and perhaps a single key.
  void WriteGroups() {
    std::vector<uint32_t> written = {static_cast<uint32_t>(random_.Uniform(kGroups))};
    if (random_.OneIn(3)) written.push_back((written.front() + 1) % kGroups);
    if (random_.OneIn(3)) {
      written.push_back(static_cast<uint32_t>(kGroups + random_.Uniform(kSingles)));
    }
    WriteBatch batch;
    std::vector<Access> accesses;
    for (const uint32_t register_index : written) {
      // An outcome that is not known explains too much if anybody else may have deleted the same.
      const bool may_delete = !may_fail_ || written.size() == 1;
      const uint64_t value = may_delete && random_.OneIn(5) ? kNoValue : NewValue();
      AddTo(&batch, register_index, value);
      accesses.push_back({register_index, value});
    }
    const Tick called = log_.Now();
    const Status status = db_->Write(WriteOptions(), &batch);
    NoteWrite("Write", called, status, std::move(accesses));
    if (random_.OneIn(2)) GetRegister(written.front());
  }

  void NoteWrite(const char* name, Tick called, const Status& status,
                 std::vector<Access> accesses) {
    const Tick returned = log_.Now();
    if (!status.ok()) NoteError(status);
    log_.Add({.kind = Operation::Kind::kWrite,
              .name = name,
              .called = called,
              .returned = status.ok() ? returned : kNever,
              .accesses = std::move(accesses)});
  }

  // -------- Point reads

  // Several in a row: what one has seen of a batch, the next may not miss.
  void GetSome() {
    const auto register_index = static_cast<uint32_t>(random_.Uniform(kRegisters));
    for (uint64_t i = random_.Uniform(8); i > 0; --i) GetRegister(register_index);
  }

  // Any key of a register tells its value.
  void GetRegister(uint32_t register_index) {
    const std::vector<size_t>& keys = layout_.KeysOf(register_index);
    const size_t key = keys[random_.Uniform(keys.size())];
    Observation seen(kKeys);
    const Tick called = log_.Now();
    if (!Get(ReadOptions(), key, &seen)) return;
    const Tick returned = log_.Now();
    log_.Add({.kind = Operation::Kind::kRead,
              .name = "Get",
              .called = called,
              .returned = returned,
              .accesses = {{register_index, *seen[key]}},
              .ordered_per_register = true});
  }

  bool Get(const ReadOptions& options, size_t key, Observation* seen) {
    Status status;
    if (random_.OneIn(2)) {
      std::string value;
      status = db_->Get(options, layout_.key(key), &value);
      return See(key, status, value, seen);
    }
    PinnableSlice value;
    status = db_->Get(options, layout_.key(key), &value);
    return See(key, status, value, seen);
  }

  // Whether anything was seen. Complains of what nobody has written.
  bool See(size_t key, const Status& status, const Slice& value, Observation* seen) {
    if (status.IsNotFound()) {
      (*seen)[key] = kNoValue;
      return true;
    }
    if (!status.ok()) {
      NoteError(status);
      return false;
    }
    const std::string text = value.ToString();
    const uint64_t number = std::strtoull(text.c_str(), nullptr, 10);
    EXPECT_EQ(text, ValueOf(number)) << "damaged";
    (*seen)[key] = number;
    return true;
  }

  // -------- Reads at one moment

  bool MultiGet(const ReadOptions& options, const std::vector<size_t>& keys, Observation* seen) {
    std::vector<Slice> slices;
    for (const size_t key : keys) slices.push_back(layout_.key(key));
    std::vector<std::string> values;
    const std::vector<Status> statuses = db_->MultiGet(options, slices, &values);
    bool all = true;
    for (size_t i = 0; i < keys.size(); ++i) all &= See(keys[i], statuses[i], values[i], seen);
    return all;
  }

  std::vector<size_t> SomeKeys() {
    std::vector<size_t> keys;
    const bool all = random_.OneIn(2);
    for (uint32_t i = 0; i < kRegisters; ++i) {
      if (!all && random_.OneIn(2)) continue;
      const std::vector<size_t>& of_register = layout_.KeysOf(i);
      keys.insert(keys.end(), of_register.begin(), of_register.end());
    }
    std::shuffle(keys.begin(), keys.end(), random_);
    return keys;
  }

  void MultiGetSome() {
    const std::vector<size_t> keys = SomeKeys();
    Observation seen(kKeys);
    const Tick called = log_.Now();
    const bool all = MultiGet(ReadOptions(), keys, &seen);
    const Tick returned = log_.Now();
    if (all) NoteRead("MultiGet", called, returned, seen);
  }

  // Walks the iterator that was made when it was last here, and makes the next one.
  void Iterate() {
    if (iterator_ != nullptr) {
      Observation seen(kKeys);
      if (Walk(iterator_.get(), &seen)) {
        NoteRead("NewIterator", iterator_called_, iterator_returned_, seen);
      }
    }
    iterator_.reset();
    iterator_called_ = log_.Now();
    iterator_.reset(db_->NewIterator(ReadOptions()));
    iterator_returned_ = log_.Now();
  }

  // Everything there is: forward, backward, or one key after the other.
  bool Walk(Iterator* iterator, Observation* seen) {
    std::ranges::fill(*seen, kNoValue);
    const uint64_t way = random_.Uniform(3);
    if (way == 2) {
      // Each Seek starts afresh, errors included.
      bool all = true;
      for (size_t key = 0; key < kKeys; ++key) {
        iterator->Seek(layout_.key(key));
        all &= NoteEnd(*iterator);
        if (!iterator->Valid() || iterator->key() != Slice(layout_.key(key))) continue;
        (void)See(key, Status::OK(), iterator->value(), seen);
      }
      return all;
    }
    way == 0 ? iterator->SeekToFirst() : iterator->SeekToLast();
    while (iterator->Valid()) {
      const std::optional<size_t> key = layout_.Find(iterator->key().ToString());
      EXPECT_TRUE(key.has_value()) << "nobody has written this key";
      if (key.has_value()) (void)See(*key, Status::OK(), iterator->value(), seen);
      way == 0 ? iterator->Next() : iterator->Prev();
    }
    return NoteEnd(*iterator);
  }

  bool NoteEnd(const Iterator& iterator) {
    const Status status = iterator.status();
    if (!status.ok()) NoteError(status);
    return status.ok();
  }

  // Reads twice at a snapshot, now and when it is next here.
  void UseSnapshot() {
    if (snapshot_ != nullptr) {
      Observation seen(kKeys);
      if (ReadAt(snapshot_, &seen)) {
        EXPECT_EQ(Differences(seen), "") << "the snapshot has changed";
      }
      db_->ReleaseSnapshot(snapshot_);
      snapshot_ = nullptr;
      return;
    }
    snapshot_seen_.assign(kKeys, std::nullopt);
    const Tick called = log_.Now();
    snapshot_ = db_->GetSnapshot();
    const Tick returned = log_.Now();
    if (ReadAt(snapshot_, &snapshot_seen_)) {
      NoteRead("GetSnapshot", called, returned, snapshot_seen_);
    } else {
      LetGo();
    }
  }

  bool ReadAt(const Snapshot* snapshot, Observation* seen) {
    ReadOptions options;
    options.snapshot = snapshot;
    std::vector<size_t> keys(kKeys);
    for (size_t i = 0; i < kKeys; ++i) keys[i] = i;
    std::shuffle(keys.begin(), keys.end(), random_);
    switch (random_.Uniform(3)) {
      case 0:
        return MultiGet(options, keys, seen);
      case 1: {
        const std::unique_ptr<Iterator> iterator(db_->NewIterator(options));
        return Walk(iterator.get(), seen);
      }
      default:
        return std::ranges::all_of(keys, [&](size_t key) { return Get(options, key, seen); });
    }
  }

  std::string Differences(const Observation& seen) const {
    std::string text;
    for (size_t key = 0; key < kKeys; ++key) {
      if (seen[key] == snapshot_seen_[key]) continue;
      text += "register " + std::to_string(layout_.RegisterOf(key)) + " was " +
              std::to_string(*snapshot_seen_[key]) + ", is " + std::to_string(*seen[key]) + "; ";
    }
    return text;
  }

  // Complains of registers of which only a part was seen.
  void NoteRead(const char* name, Tick called, Tick returned, const Observation& seen) {
    Operation operation{.kind = Operation::Kind::kRead,
                        .name = name,
                        .called = called,
                        .returned = returned,
                        .accesses = {}};
    for (uint32_t i = 0; i < kRegisters; ++i) {
      const std::vector<size_t>& keys = layout_.KeysOf(i);
      if (!seen[keys.front()].has_value()) continue;
      const uint64_t value = *seen[keys.front()];
      for (const size_t key : keys) {
        EXPECT_EQ(*seen[key], value) << "a torn batch: " << name << " of register " << i;
      }
      operation.accesses.push_back({i, value});
    }
    if (!operation.accesses.empty()) log_.Add(std::move(operation));
  }

  DB* const db_;
  const Layout& layout_;
  HistoryRecorder::Log& log_;
  const bool may_fail_;
  uint64_t next_value_;
  const uint64_t value_step_;
  Random random_;

  std::unique_ptr<Iterator> iterator_;
  Tick iterator_called_ = 0;
  Tick iterator_returned_ = 0;
  const Snapshot* snapshot_ = nullptr;
  Observation snapshot_seen_;
};

// -------- What is in its way

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

// -------- The test

class LinearizabilityTest : public testing::TestWithParam<Shape> {
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
    std::atomic<int> running{kThreads};
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, t, end, &running] {
        Worker worker(db_.get(), layout_, &recorder_.LogOf(t), GetParam().faults, first_values_[t],
                      kThreads);
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
      interrupter.HoldUp(threads[random.Uniform(kThreads)]);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    for (std::thread& thread : threads) thread.join();
    stop = true;
    disturber.join();
    faults_->Clear();
    ReadAll();
  }

  void ReadAll() { Worker(db_.get(), layout_, &recorder_.LogOf(kThreads), false, 1, 1).ReadAll(); }

  // Flushes and merges what has come to be, of the whole range or a part of it, and changes what is
  // wrong with the network.
  void Disturb(const std::atomic<bool>& stop) {
    Random random(99);
    for (uint64_t round = 0; !stop; ++round) {
      if (GetParam().faults && round % 4 == 0) ChangeFaults(round / 4);
      const Status flushed = db_->Flush(FlushOptions());
      EXPECT_TRUE(flushed.ok() || GetParam().faults) << flushed.ToString();
      const std::string from = layout_.key(random.Uniform(kKeys));
      const std::string to = layout_.key(random.Uniform(kKeys));
      const Slice begin(std::min(from, to));
      const Slice limit(std::max(from, to));
      random.OneIn(2) ? db_->CompactRange(nullptr, nullptr) : db_->CompactRange(&begin, &limit);
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

  const Layout layout_;
  std::shared_ptr<FaultInjector> faults_ = std::make_shared<FaultInjector>();
  uint64_t random_post_ = 7;
  std::unique_ptr<TestNode> node_;
  std::optional<TestNodes> nodes_;  // Several.
  Options options_;
  std::string name_;
  std::unique_ptr<DB> db_;
  HistoryRecorder recorder_{kThreads + 1};
  uint64_t first_values_[kThreads] = {1, 2, 3, 4, 5};
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

template <CompactionStyle style>
void Style(Options* options) {
  options->compaction_style = style;
}
void Guards(Options* options) {
  options->compaction_style = CompactionStyle::kGuards;
  options->max_tables_per_guard = 3;
}
void Shards(Options* options) {
  Guards(options);
  options->shards = 4;
  options->value_cache_size = uint64_t{64} << 10;
}
void SnappyBlocks(Options* options) {
  options->table_format = TableFormat::kBlockBased;
  options->block_size = 2048;
  options->compression = kSnappyCompression;
}
void MergeHere(Options* options) { options->compaction_place = CompactionPlace::kComputeNode; }

void Placed(Options* options) {
  Guards(options);
  options->placement = TablePlacement::kPowerOfD;
  options->scatter_width = 2;
}

std::vector<Shape> AllShapes() {
  return {
      {"Leveled"},
      {"LeveledMergedHere", "", MergeHere},
      {"Guards", "", Guards},
      {"Tiered", "", Style<CompactionStyle::kTiered>},
      {"SizeTiered", "", Style<CompactionStyle::kSizeTiered>},
      {"SnappyBlocks", "", SnappyBlocks},
      {"TcpGuards", "tcp", Guards},
      {"Shards", "", Shards},
      {"TcpShards", "tcp", Shards},
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
      {"TcpShardsFaults", "tcp", Shards, true},
      {"ShmPlaced", "shm", Placed, false, 3},
      {"TcpPlacedFaults", "tcp", Placed, true, 3},
      {"VerbsFaults", "verbs", MergeHere, true},
  };
}

std::string NameOf(const testing::TestParamInfo<Shape>& shape) { return shape.param.name; }

INSTANTIATE_TEST_SUITE_P(EveryShape, LinearizabilityTest, testing::ValuesIn(AllShapes()), NameOf);

}  // namespace
}  // namespace dlsm
