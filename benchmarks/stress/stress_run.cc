#include "benchmarks/stress/stress_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>
#include <utility>

#include "benchmarks/stress/followed_close.h"
#include "port/sync_point.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/status_macros.h"

namespace dlsm::stress {
namespace {

using Steady = std::chrono::steady_clock;

// Every draw of the run comes from its seed; what the database is must come out the same in each
// process that opens it.
constexpr uint64_t kDatabaseSalt = 0x6461746162617365;

Status With(const std::string& what, const Status& status) {
  return status.ok() ? status
                     : Status::FromCode(status.code(), what + ": " + status.message().ToString());
}

// What a process does; the first one's seed is the run's own.
uint64_t SeedOf(const RunConfig& config) {
  return config.processes_before == 0
             ? config.seed
             : SplitMix64(config.seed ^ SplitMix64(config.processes_before));
}

// Now and then for a moment: long enough for other threads to get through what they are about.
void HoldUp(const char* /*place*/) {
  thread_local Random random(std::hash<std::thread::id>()(std::this_thread::get_id()));
  if (!random.OneIn(4)) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random.Uniform(1000)));
}

}  // namespace

StressRun::StressRun(const RunConfig& config, const KeySpace* space, ExpectedState* state)
    : config_(config),
      space_(space),
      state_(state),
      random_(SeedOf(config)),
      injector_(std::make_shared<FaultInjector>(SeedOf(config))) {
  Random database(config.seed ^ kDatabaseSalt);
  drawn_ = DrawDatabase(*space, config.shards_max, &database);
  always_by_shard_ = drawn_.options.placement == TablePlacement::kByShard;
  injector_->HarmAll(true);
  if (config.delays) port::SyncPointHookOfProcess().store(&HoldUp);
  for (uint64_t i = 0; i < config.threads; ++i) {
    Worker::Config worker{i, config.threads, random_.Next()};
    worker.every_option = true;
    workers_.push_back(std::make_unique<Worker>(worker, space, state));
  }
}

StressRun::~StressRun() { port::SyncPointHookOfProcess().store(nullptr); }

LogLevel StressRun::LogOf(const RunConfig& config, const KeySpace& space) {
  Random database(config.seed ^ kDatabaseSalt);
  return DrawDatabase(space, config.shards_max, &database).options.log;
}

Options StressRun::Complete(const DrawnOptions& drawn) const {
  Options options = drawn.options;
  options.memory_nodes = config_.memory_nodes;
  options.fabric = config_.fabric;
  options.embedded_dir = config_.embedded_dir;
  if (config_.embedded_dir.empty()) options.embedded_memory_bytes = uint64_t{1} << 30;
  // Where transfers may fail, nothing is written where the memory node has it.
  if (config_.fault_rate > 0) options.fault_injector = injector_;
  if (config_.memory_nodes.empty() && !config_.has_files) options.log = LogLevel::kNone;
  if (options.log == LogLevel::kDisk && !config_.has_files) options.log = LogLevel::kMemory;
  // The largest write goes into it.
  options.log_bytes_max = kValueBytesMax + (uint64_t{8} << 20);
  options.open_timeout_ms = static_cast<uint64_t>(config_.lease_patience().count());
  // Lost requests are waited for so long.
  constexpr uint64_t kTimeoutMs = 2000;
  options.operation_timeout_ms =
      TimeoutMs(config_.fault_rate > 0 ? kTimeoutMs : options.operation_timeout_ms);
  return options;
}

Status StressRun::Open() {
  result_.options = drawn_.text;
  if (config_.verbose) std::fprintf(stderr, "opening: %s\n", drawn_.text.c_str());
  durable_at_open_ = state_->AllDurable();
  Options options = Complete(drawn_);
  options.take_over = config_.take_over;
  return With("opening the database", DB::Open(options, config_.database, &db_));
}

// What was acknowledged is durable then, and followers can tell.
Status StressRun::Close() {
  if (!publishes()) return CloseHandle();
  FollowedClose followed(config_.seed ^ result_.rounds, space_, state_,
                         [this](std::unique_ptr<DB>* follower) { return OpenFollower(follower); });
  Status status = followed.Begin(db_.get());
  const Status closed = CloseHandle();
  if (status.ok()) status = closed;
  return status.ok() ? followed.End() : status;
}

Status StressRun::CloseHandle() {
  for (const auto& worker : workers_) worker->ReleaseSnapshots(db_.get());
  if (publishes()) WaitForRoom();
  const Status closed = db_->Close();
  db_.reset();
  if (closed.ok()) state_->SetDurable(state_->AllAcknowledged());
  return With("closing the database", closed);
}

// Close() keeps nothing that it cannot flush, and readers that were killed may fill a memory node.
void StressRun::WaitForRoom() {
  const auto until = Steady::now() + config_.lease_patience() / 2;  // Still longer than a lease.
  while (Steady::now() < until && db_->Flush(FlushOptions()).IsBusy()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

Status StressRun::Destroy() { return DestroyDB(config_.database, Complete(drawn_)); }

Status StressRun::Round(bool faults) {
  if (faults) {
    for (const FaultKind kind : {FaultKind::kFail, FaultKind::kDelay, FaultKind::kHalfWrite}) {
      injector_->SetProbability(kind, config_.fault_rate);
    }
    // Every one of these makes a connection anew.
    injector_->SetProbability(FaultKind::kDisconnect, config_.fault_rate / 10);
  }
  std::atomic<bool> failed{false};
  std::vector<Status> statuses(workers_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers_.size(); ++i) {
    threads.emplace_back([&, i] {
      Worker& worker = *workers_[i];
      for (uint64_t done = 0; done < config_.operations_per_round; ++done) {
        if (failed.load(std::memory_order_relaxed)) return;
        const uint64_t tolerated = worker.tally().tolerated;
        const Status status = worker.Step(db_.get(), faults);
        if (status.ok()) {
          if (config_.tally == nullptr) continue;
          ++config_.tally->steps;
          if (worker.tally().tolerated == tolerated) ++config_.tally->succeeded;
          continue;
        }
        statuses[i] = With(fmt::format("thread {}, round {}, operation {} ({})", i, result_.rounds,
                                       done, worker.last()),
                           status);
        failed.store(true, std::memory_order_relaxed);
        return;
      }
    });
  }
  std::atomic<bool> rounds_end{false};
  Status followed;
  std::thread follower([&] {
    if (publishes()) followed = Follow(rounds_end);
  });
  for (std::thread& thread : threads) thread.join();
  rounds_end = true;
  follower.join();
  injector_->Clear();
  ++result_.rounds;
  if (config_.tally != nullptr) {
    for (const auto& worker : workers_) config_.tally->Add(worker->TakeTally());
    ++config_.tally->rounds;
  }
  for (Status& status : statuses) {
    if (!status.ok()) return std::move(status);
  }
  return With("a follower", followed);
}

// What a call may take after a loss: it waits for a time-out a few times, and for some retries.
constexpr uint64_t kLossTimeoutMs = 500;
constexpr int kTimeoutsOfCall = 40;

Status StressRun::UseInSpiteOfLoss(Worker* worker, const std::atomic<bool>& stop) {
  const auto bound = std::chrono::milliseconds(TimeoutMs(kLossTimeoutMs)) * kTimeoutsOfCall;
  while (!stop.load(std::memory_order_relaxed)) {
    const auto start = Steady::now();
    const Status status = worker->Step(db_.get(), /*faults=*/true);
    if (!status.ok()) return With(worker->last(), status);
    const std::chrono::duration<double> took = Steady::now() - start;
    if (took > bound) {
      return Status::Corruption(fmt::format("{} has taken {:.1f} s", worker->last(), took.count()));
    }
  }
  return Status::OK();
}

// The memory node of the ith shard is the ith, round and round.
Status StressRun::VerifySurvivors() {
  if (!always_by_shard_) return Status::OK();
  const size_t shards = drawn_.options.shard_boundaries.size() + 1;
  Worker reader(Worker::Config{0, 1, config_.seed}, space_, state_);
  for (size_t i = 0; i < shards; ++i) {
    if (i % config_.nodes == config_.lost_node) continue;
    const uint64_t begin = space_->count() * i / shards;
    const uint64_t end = space_->count() * (i + 1) / shards;
    for (uint64_t key = begin; key < end; key += 1 + random_.Uniform(40)) {
      DLSM_RETURN_IF_ERROR(With(fmt::format("key {} of shard {}, which has lost nothing", key, i),
                                reader.VerifyOne(db_.get(), key)));
    }
    ++result_.shards_that_survived;
  }
  return Status::OK();
}

Status StressRun::LoseNode() {
  DLSM_RETURN_IF_ERROR(Close());
  Options options = Complete(drawn_);
  options.operation_timeout_ms = TimeoutMs(kLossTimeoutMs);
  options.write_stall_timeout_ms = TimeoutMs(kLossTimeoutMs);
  DLSM_RETURN_IF_ERROR(With("opening the database", DB::Open(options, config_.database, &db_)));
  std::atomic<bool> stop{false};
  std::vector<Status> statuses(workers_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers_.size(); ++i) {
    threads.emplace_back([&, i] { statuses[i] = UseInSpiteOfLoss(workers_[i].get(), stop); });
  }
  const auto wait = [this](uint64_t ms_max) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.Uniform(ms_max)));
  };
  wait(300);
  Status status = config_.lose_node(true);
  if (status.ok()) status = VerifySurvivors();
  wait(2000);
  const bool returns_before_close = random_.OneIn(2);
  if (returns_before_close) {
    const Status back = config_.lose_node(false);
    if (status.ok()) status = back;
    wait(1000);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ++result_.losses;
  for (const auto& worker : workers_) worker->ReleaseSnapshots(db_.get());
  if (publishes()) WaitForRoom();
  const Status closed = db_->Close();
  db_.reset();
  if (!returns_before_close) {
    const Status back = config_.lose_node(false);
    if (status.ok()) status = back;
  }
  for (const Status& of_thread : statuses) {
    if (status.ok()) status = of_thread;
  }
  if (status.ok() && !closed.ok() && !IsDueToFaults(closed)) status = closed;
  return With("after the loss of a memory node", status);
}

Status StressRun::OpenFollower(std::unique_ptr<DB>* follower) const {
  Options options = Complete(drawn_);
  options.fault_injector = nullptr;
  options.publish_interval_ms = 0;
  options.open_timeout_ms = 1000;
  return DB::OpenFollower(options, config_.database, follower);
}

// A follower whose memory nodes die is opened again.
Status StressRun::Follow(const std::atomic<bool>& stop) {
  while (true) {
    const Status followed = FollowOnce(stop);
    if (!config_.nodes_die || !IsDueToFaults(followed)) return followed;
    if (stop.load(std::memory_order_relaxed)) return Status::OK();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// It reads without faults; but the owner, who has them, may have nothing whole published.
Status StressRun::FollowOnce(const std::atomic<bool>& stop) {
  std::unique_ptr<DB> follower;
  const Status opened = OpenFollower(&follower);
  if (!opened.ok()) return opened.IsBusy() ? Status::OK() : opened;
  std::vector<uint32_t> floor = durable_at_open_;
  Worker reader(Worker::Config{0, 1, config_.seed}, space_, state_);
  // What a crash has torn was published before it was written again.
  reader.TolerateTornGroups(result_.torn_by_crash > 0);
  while (!stop.load(std::memory_order_relaxed)) {
    DLSM_RETURN_IF_ERROR(follower->TryCatchUp());
    const Status read = reader.VerifyFollower(follower.get(), &floor);
    if (read.IsTimedOut()) {
      // A memory node that is full takes back what a slow reader holds; after the next catching up
      // all is well again.
      ++result_.leases_ended;
      continue;
    }
    DLSM_RETURN_IF_ERROR(read);
    ++result_.publications_followed;
  }
  return follower->Close();
}

// Without faults, nothing may fail.
Status StressRun::Verify() {
  DLSM_RETURN_IF_ERROR(With("waiting for background work", db_->WaitForBackgroundWork()));
  return workers_[0]->VerifyAll(db_.get());
}

// Without a log, a batch over several shards may have survived in part; nothing else may be torn.
Status StressRun::AfterCrash() {
  Worker& worker = *workers_[0];
  worker.TolerateTornGroups(!drawn_.options.shard_boundaries.empty() &&
                            Complete(drawn_).log == LogLevel::kNone);
  DLSM_RETURN_IF_ERROR(With("after a crash", worker.VerifyAll(db_.get())));
  worker.TolerateTornGroups(false);
  for (const uint64_t group : worker.torn_groups()) {
    ++result_.torn_by_crash;
    DLSM_RETURN_IF_ERROR(worker.RewriteGroup(db_.get(), group));
  }
  return Status::OK();
}

// What the former handle had acknowledged and not flushed is gone with it. It writes no more, and
// says why.
Status StressRun::TakeOver() {
  for (const auto& worker : workers_) worker->ReleaseSnapshots(db_.get());
  const std::unique_ptr<DB> former = std::move(db_);
  Options options = Complete(drawn_);
  options.take_over = true;
  durable_at_open_ = state_->AllDurable();
  const Status opened = DB::Open(options, config_.database, &db_);
  if (!opened.ok()) return With("taking over the database", opened);
  state_->ForgetUndurable();
  ++result_.take_overs;
  const Status flushed = former->Flush(FlushOptions());
  if (!former->Put(WriteOptions(), space_->KeyBytes(0), "late").ok() || flushed.IsIOError()) {
    former->Close().PermitUncheckedError();  // What it could not flush is no loss of this handle's.
    return AfterCrash();
  }
  // The word of its owner is asked for with each heartbeat only; what it writes goes nowhere.
  const Status closed = former->Close();
  return closed.ok() ? Status::Corruption("a handle that lost its database has flushed to it")
                     : AfterCrash();
}

Status StressRun::Run(RunResult* result) {
  Status status = Open();
  if (status.ok() && config_.processes_before > 0) status = AfterCrash();
  while (status.ok() && (config_.rounds > 0 ? result_.rounds < config_.rounds
                                            : std::chrono::steady_clock::now() < config_.until)) {
    status =
        Round(/*faults=*/config_.nodes_die || (config_.fault_rate > 0 && result_.rounds % 2 == 1));
    if (config_.nodes_die) continue;
    if (status.ok() && random_.OneIn(3)) status = Verify();
    if (status.ok() && random_.OneIn(8)) status = TakeOver();
    if (status.ok() && random_.OneIn(3)) {
      status = Close();
      drawn_ = DrawReopening(drawn_, &random_);
      always_by_shard_ &= drawn_.options.placement == TablePlacement::kByShard;
      if (status.ok()) status = Open();
      if (status.ok()) status = workers_[0]->VerifyAll(db_.get());
      ++result_.reopenings;
    }
  }
  if (status.ok()) status = Verify();
  if (status.ok() && config_.lose_node) status = LoseNode();
  if (!status.ok() && db_ != nullptr) {
    std::string state;
    if (db_->GetProperty("dlsm.stats", &state)) std::fprintf(stderr, "%s\n", state.c_str());
  }
  if (db_ != nullptr) {
    const Status closed = Close();
    if (status.ok()) status = closed;
  }
  for (const auto& worker : workers_) result_.tally.Add(worker->tally());
  result_.faults = injector_->CountFaults();
  *result = result_;
  return status;
}

}  // namespace dlsm::stress
