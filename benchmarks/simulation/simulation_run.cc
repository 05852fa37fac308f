#include "benchmarks/simulation/simulation_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "benchmarks/stress/followed_close.h"
#include "port/clock.h"
#include "util/status_macros.h"

namespace dlsm::simulation {
namespace {

constexpr uint64_t kKeys = 256;
constexpr uint64_t kValueBytesMax = 16 << 10;
constexpr uint64_t kOperationsAfterRestart = 8;
constexpr auto kLease = std::chrono::seconds(10);

SimulatedScheduler::Config SchedulerOf(uint64_t seed) {
  Random random(seed ^ 0x7363686564756c65);
  SimulatedScheduler::Config config;
  config.seed = random.Next();
  config.switch_one_in = uint64_t{1} << (1 + random.Uniform(7));
  config.step = std::chrono::nanoseconds(50 << random.Uniform(6));
  config.hold_up_one_in = random.OneIn(3) ? 0 : 2000 << random.Uniform(5);
  config.hold_up_max = std::chrono::milliseconds(1 << random.Uniform(9));
  return config;
}

SimulatedNetwork::Config NetworkOf(uint64_t seed) {
  Random random(seed ^ 0x6e6574776f726b73);
  SimulatedNetwork::Config config;
  config.seed = random.Next();
  config.delay = std::chrono::nanoseconds(1000 << random.Uniform(8));
  config.slow_one_in = random.OneIn(4) ? 0 : 50 << random.Uniform(4);
  config.slow_max = std::chrono::milliseconds(1 << random.Uniform(7));
  config.reset_one_in = 20 << random.Uniform(6);
  config.lost_one_in = 100 << random.Uniform(6);
  return config;
}

// So that few operations fill memtables, tables and levels.
void MakeSmall(stress::DrawnOptions* drawn, Random* random) {
  Options& options = drawn->options;
  if (random->OneIn(4)) return;
  options.write_buffer_size = (64 << 10) * (options.shard_boundaries.size() + 1);
  options.max_file_size = 64 << 10;
  options.max_bytes_for_level_base = 64 << 10;
  options.level0_file_num_compaction_trigger =
      std::min(options.level0_file_num_compaction_trigger, 2);
  options.level0_stop_writes_trigger = options.level0_file_num_compaction_trigger * 4;
  drawn->text += " (small)";
}

bool PowerFails(Ordeal ordeal) {
  return ordeal == Ordeal::kPowerFailure || ordeal == Ordeal::kBlackout;
}

// Whether some of what was acknowledged may be gone afterwards.
bool LosesWrites(Ordeal ordeal) {
  return (ordeal >= Ordeal::kDeath && ordeal <= Ordeal::kRestart) || PowerFails(ordeal);
}

bool ComputeNodeDies(Ordeal ordeal) {
  return ordeal == Ordeal::kDeath || ordeal == Ordeal::kBlackout;
}

}  // namespace

Status Simulation::With(const std::string& what, const Status& status) {
  return status.ok() ? status
                     : Status::FromCode(status.code(), what + ": " + status.message().ToString());
}

const char* OrdealName(Ordeal ordeal) {
  constexpr std::array<const char*, kOrdealCount> kNames = {
      "nothing",    "faults",        "death",    "take-over", "restart",
      "resumption", "power failure", "blackout", "full disk", "broken disk"};
  return kNames[static_cast<size_t>(ordeal)];
}

void SimulationCounts::Add(const SimulationCounts& other) {
  operations += other.operations;
  observations += other.observations;
  tolerated += other.tolerated;
  publications += other.publications;
  flushes += other.flushes;
  merges += other.merges;
  merge_steps += other.merge_steps;
  for (size_t i = 0; i < rounds.size(); ++i) rounds[i] += other.rounds[i];
  for (size_t i = 0; i < faults.size(); ++i) faults[i] += other.faults[i];
  scheduler.steps += other.scheduler.steps;
  scheduler.switches += other.scheduler.switches;
  scheduler.threads += other.scheduler.threads;
  scheduler.events += other.scheduler.events;
  scheduler.hold_ups += other.scheduler.hold_ups;
  scheduler.jumps += other.scheduler.jumps;
  virtual_us += other.virtual_us;
  trace = SplitMix64(trace ^ other.trace);
}

Simulation::Simulation(const SimulationConfig& config, SimulatedScheduler::Failure failure)
    : config_(config),
      random_(config.seed),
      scheduler_(SchedulerOf(config.seed), std::move(failure)),
      network_(NetworkOf(config.seed), &scheduler_),
      space_(config.seed, kKeys, kValueBytesMax),
      state_memory_(stress::ExpectedState::BytesFor(kKeys)),
      state_(state_memory_.data(), kKeys) {}

Simulation::~Simulation() = default;

Status Simulation::Run(SimulationCounts* counts) {
  Status status;
  scheduler_.Run([&] { status = RunAll(); });
  for (const auto& worker : workers_) {
    for (const uint64_t count : worker->tally().operations) counts_.operations += count;
    counts_.observations += worker->tally().observations;
    counts_.tolerated += worker->tally().tolerated;
    scheduler_.Trace(worker->tally().observations);
  }
  counts_.flushes = statistics_->Get(Ticker::kFlushes);
  counts_.merges = statistics_->Get(Ticker::kMergesRemote) +
                   statistics_->Get(Ticker::kMergesLocal) + statistics_->Get(Ticker::kTrivialMoves);
  counts_.merge_steps = statistics_->Get(Ticker::kMergesBySteps);
  counts_.faults = network_.counts();
  counts_.scheduler = scheduler_.counts();
  counts_.virtual_us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(scheduler_.elapsed()).count());
  counts_.trace = scheduler_.trace();
  *counts = counts_;
  return status;
}

Status Simulation::RunAll() {
  DLSM_RETURN_IF_ERROR(StartNodes());
  drawn_ = stress::DrawDatabase(space_, 4, &random_);
  MakeSmall(&drawn_, &random_);
  const uint64_t workers = 1 + random_.Uniform(3);
  const uint64_t reshape_one_in = 5 << random_.Uniform(5);
  for (uint64_t i = 0; i < workers; ++i) {
    stress::Worker::Config config{i, workers, random_.Next(), reshape_one_in};
    config.sync_persists = drawn_.options.log == LogLevel::kNone;
    workers_.push_back(std::make_unique<stress::Worker>(config, &space_, &state_));
  }
  text_ = fmt::format("nodes={} disks={} threads={}", nodes_.size(), disks_, workers);
  Status status = Open(/*take_over=*/false);
  for (uint64_t round = random_.Uniform(config_.rounds_max) + 1; status.ok() && round > 0;
       --round) {
    const Ordeal ordeal = DrawOrdeal();
    status = With(fmt::format("round with {}", OrdealName(ordeal)), Round(ordeal));
    if (!status.ok() || !random_.OneIn(3)) continue;
    status = Close(&client_);
    drawn_ = stress::DrawReopening(drawn_, &random_);
    MakeSmall(&drawn_, &random_);
    if (status.ok()) status = Insist("reopening", [&] { return Open(/*take_over=*/false); });
    if (status.ok()) status = Verify();
  }
  if (status.ok()) status = Finish();
  for (Client* client : {&client_, &former_}) {
    if (client->db == nullptr) continue;
    workers_[0]->ReleaseSnapshots(client->db.get());
    client->db->Close().PermitUncheckedError();
    client->db.reset();
  }
  for (const auto& node : nodes_) node->Kill();
  return status;
}

// -------- Processes

Status Simulation::StartNodes() {
  const uint64_t count = 1 + random_.Uniform(3);
  // Drawn apart: seeds without disks do what they did before there were any.
  Random disks(config_.seed ^ 0x64697363);
  const bool has_disks = disks.OneIn(2);
  const bool has_only_disks = has_disks && !disks.OneIn(4);
  for (uint64_t i = 0; i < count; ++i) {
    SimulatedMemoryNode::Config config;
    config.has_disk = has_disks && (has_only_disks || disks.OneIn(2));
    if (config.has_disk) ++disks_;
    if (!disks.OneIn(4)) config.disk_call_max = std::chrono::microseconds(100 << disks.Uniform(12));
    config.node.node = NodeId{static_cast<uint32_t>(i + 1)};
    config.node.merge_threads = 1 + static_cast<int>(random_.Uniform(2));
    config.node.lease = kLease;
    config.node.grace = std::chrono::seconds(5);
    if (random_.OneIn(2)) config.node.free_bytes_told_max = (64 << 10) << random_.Uniform(3);
    const std::string address = fmt::format("node-{}:7", i + 1);
    config.node.node_connector = std::make_shared<SimulatedConnector>(
        &network_, &addresses_,
        std::make_shared<SimulatedHost>(SimulatedHost{"the host of " + address}));
    nodes_.push_back(std::make_unique<SimulatedMemoryNode>(config, &network_));
    addresses_[address] = nodes_.back().get();
    node_list_ += (i == 0 ? "" : ",") + address;
    DLSM_RETURN_IF_ERROR(nodes_.back()->Start());
  }
  return Status::OK();
}

Simulation::Client Simulation::NewClient(const char* role) {
  Client client;
  client.host =
      std::make_shared<SimulatedHost>(SimulatedHost{fmt::format("{} {}", role, ++hosts_)});
  client.connector = std::make_shared<SimulatedConnector>(&network_, &addresses_, client.host);
  return client;
}

Options Simulation::Complete(const Client& client) const {
  Options options = drawn_.options;
  options.memory_nodes = node_list_;
  options.fabric = "tcp";
  options.node_connector = client.connector;
  options.statistics = statistics_;
  options.operation_timeout_ms = 2000;
  options.open_timeout_ms = 60'000;
  options.write_stall_timeout_ms = 20'000;
  // The log is at the first memory node.
  if (options.log == LogLevel::kDisk && !nodes_.front()->has_disk()) {
    options.log = LogLevel::kMemory;
  }
  // So little that segments are used again; the largest value has 1 MiB.
  options.log_bytes_max = uint64_t{3} << 19;
  return options;
}

Status Simulation::Open(bool take_over) {
  client_ = NewClient("compute node");
  if (config_.verbose) {
    fmt::print(stderr, "{:.6f} opening{}: {}\n",
               std::chrono::duration<double>(scheduler_.elapsed()).count(),
               take_over ? " (take-over)" : "", drawn_.text);
  }
  Options options = Complete(client_);
  options.take_over = take_over;
  options.accept_log_loss = open_accepts_log_loss_;
  durable_at_open_ = state_.AllDurable();
  const Status opened = DB::Open(options, kDatabase, &client_.db);
  // The log's writes are in tables now.
  if (opened.ok()) state_.SetPersisted(state_.AllDurable());
  return With("opening the database", opened);
}

// What was acknowledged is durable then, and followers can tell.
Status Simulation::Close(Client* client) {
  if (drawn_.options.publish_interval_ms == 0) return CloseHandle(client);
  std::vector<Client> followers;
  stress::FollowedClose followed(random_.Next(), &space_, &state_,
                                 [&](std::unique_ptr<DB>* follower) {
                                   Client& opened = followers.emplace_back(NewClient("follower"));
                                   DLSM_RETURN_IF_ERROR(OpenFollower(&opened));
                                   *follower = std::move(opened.db);
                                   return Status::OK();
                                 });
  Status status = followed.Begin(client->db.get());
  const Status closed = CloseHandle(client);
  if (status.ok()) status = closed;
  return status.ok() ? followed.End() : status;
}

Status Simulation::CloseHandle(Client* client) {
  for (const auto& worker : workers_) worker->ReleaseSnapshots(client->db.get());
  const Status closed = client->db->Close();
  client->db.reset();
  if (closed.ok()) state_.SetPersisted(state_.AllAcknowledged());
  return With("closing the database", closed);
}

Status Simulation::Insist(const char* what, const std::function<Status()>& attempt) {
  Status status;
  for (int i = 0; i < 20; ++i) {
    status = attempt();
    if (status.ok() || !stress::IsDueToFaults(status)) break;
    ++counts_.tolerated;
    port::SleepFor(std::chrono::seconds(2));
  }
  return With(what, status);
}

// -------- A round

Ordeal Simulation::DrawOrdeal() {
  if (disks_ > 0 && random_.OneIn(2)) return DrawDiskOrdeal();
  const uint64_t drawn = random_.Uniform(16);
  if (drawn < 5) return Ordeal::kNothing;
  if (drawn < 10) return Ordeal::kFaults;
  if (drawn < 13) return Ordeal::kDeath;
  return drawn < 15 ? Ordeal::kTakeOver : Ordeal::kRestart;
}

Ordeal Simulation::DrawDiskOrdeal() {
  const uint64_t drawn = random_.Uniform(16);
  if (drawn < 6) return Ordeal::kResumption;
  if (drawn < 9) return Ordeal::kPowerFailure;
  if (drawn < 12) return disks_ == nodes_.size() ? Ordeal::kBlackout : Ordeal::kPowerFailure;
  return drawn < 14 ? Ordeal::kFullDisk : Ordeal::kBrokenDisk;
}

Status Simulation::Round(Ordeal ordeal) {
  ++counts_.rounds[static_cast<size_t>(ordeal)];
  if (config_.verbose) {
    fmt::print(stderr, "{:.6f} a round with {}\n",
               std::chrono::duration<double>(scheduler_.elapsed()).count(), OrdealName(ordeal));
  }
  const uint64_t operations = random_.Uniform(config_.operations_max) + 1;
  network_.SetWhole(ordeal == Ordeal::kNothing || random_.OneIn(2));
  if (ordeal == Ordeal::kFaults) network_.SetWhole(false);
  struck_ = failed_ = round_ended_ = false;
  until_strike_ = ordeal > Ordeal::kFaults ? 1 + random_.Uniform(operations) : 0;
  std::vector<Status> statuses(workers_.size());
  std::vector<port::Thread> threads;
  for (size_t i = 0; i < workers_.size(); ++i) {
    threads.emplace_back([this, i, db = client_.db.get(), ordeal, operations, &statuses] {
      Work(i, db, ordeal, operations, &statuses[i]);
    });
  }
  Status followed;
  port::Thread follower([this, ordeal, floor = durable_at_open_, &followed] {
    if (drawn_.options.publish_interval_ms > 0) followed = Follow(ordeal, floor);
  });
  Status succeeded;
  if (ordeal == Ordeal::kTakeOver) {
    while (!struck_ && !failed_) port::SleepFor(std::chrono::microseconds(100));
    if (struck_) succeeded = Succeed(/*take_over=*/true);
    failed_ = true;  // The former owner's threads have seen enough.
  }
  for (port::Thread& thread : threads) thread.join();
  round_ended_ = true;
  follower.join();
  network_.SetWhole(true);
  DLSM_RETURN_IF_ERROR(With("starting a memory node again", start_failure_));
  for (Status& status : statuses) DLSM_RETURN_IF_ERROR(status);
  DLSM_RETURN_IF_ERROR(With("a follower", followed));
  DLSM_RETURN_IF_ERROR(succeeded);
  if (ordeal > Ordeal::kFaults && !struck_) Strike(ordeal);
  return Recover(ordeal);
}

void Simulation::Work(size_t worker, DB* db, Ordeal ordeal, uint64_t operations, Status* status) {
  uint64_t after_strike = 0;
  for (uint64_t done = 0; done < operations && !failed_; ++done) {
    // A memory node that is gone, or an owner that is no longer one, fails in ways of its own.
    Status step = workers_[worker]->Step(db, /*faults=*/ordeal != Ordeal::kNothing);
    if (!step.ok() && LosesWrites(ordeal) && struck_ && !step.IsCorruption()) {
      ++counts_.tolerated;
      step = Status::OK();
    }
    if (!step.ok()) {
      *status =
          With(fmt::format("thread {}, operation {} ({})", worker, done, workers_[worker]->last()),
               step);
      failed_ = true;
      return;
    }
    if (ComputeNodeDies(ordeal) && struck_) return;
    // Each may wait for as long as writes may stall.
    if (ordeal >= Ordeal::kRestart && struck_ && ++after_strike > kOperationsAfterRestart) return;
    if (until_strike_ > 0 && --until_strike_ == 0) Strike(ordeal);
  }
}

Status Simulation::OpenFollower(Client* client) const {
  Options options = Complete(*client);
  options.publish_interval_ms = 0;
  options.open_timeout_ms = 1000;
  return DB::OpenFollower(options, kDatabase, &client->db);
}

Status Simulation::Follow(Ordeal ordeal, std::vector<uint32_t> floor) {
  Client client = NewClient("follower");
  stress::Worker reader(stress::Worker::Config{0, 1, config_.seed}, &space_, &state_);
  const auto explained = [&](const Status& status) {
    return ordeal != Ordeal::kNothing && !status.IsCorruption();
  };
  // What a former owner had not flushed, the one that follows it may publish in part.
  reader.TolerateTornGroups(torn_by_death_ ||
                            (LosesWrites(ordeal) && !drawn_.options.shard_boundaries.empty()));
  const Status opened = OpenFollower(&client);
  if (!opened.ok()) return opened.IsBusy() || explained(opened) ? Status::OK() : opened;
  for (int verified = 0; !round_ended_;) {
    Status status = client.db->TryCatchUp();
    // Nobody persists publications. A follower that begins anew may find an older one then.
    if (PowerFails(ordeal) && struck_) std::ranges::fill(floor, 0);
    if (status.ok()) status = reader.VerifyFollower(client.db.get(), &floor);
    if (!status.ok()) {
      if (!explained(status)) return status;
      ++counts_.tolerated;
    }
    if (status.ok()) ++counts_.publications;
    // Eager at first; but a round in which writers wait may last for minutes.
    const bool eager = status.ok() && ++verified < 30;
    port::SleepFor(eager ? std::chrono::microseconds(200) : std::chrono::milliseconds(100));
  }
  const Status closed = client.db->Close();
  return explained(closed) ? Status::OK() : closed;
}

// -------- The end

Status Simulation::Verify() {
  DLSM_RETURN_IF_ERROR(With("waiting for background work", client_.db->WaitForBackgroundWork()));
  return workers_[0]->VerifyAll(client_.db.get());
}

Status Simulation::Finish() {
  DLSM_RETURN_IF_ERROR(Verify());
  DLSM_RETURN_IF_ERROR(Close(&client_));
  for (const auto& node : nodes_) DLSM_RETURN_IF_ERROR(node->node().databases().CheckInvariants());
  DLSM_RETURN_IF_ERROR(
      Insist("destroying the database", [&] { return DestroyDB(kDatabase, Complete(client_)); }));
  // What a dead process may still reach is kept until it no longer can.
  const auto until = port::Clock::now() + 10 * kLease;
  while (UsedBytes() > 0 && port::Clock::now() < until) {
    port::SleepFor(std::chrono::seconds(1));
    // Where a memory node was lost, nobody knows of all that others have: DestroyDB does what it
    // can, and says that it may be called again.
    if (restarted_) DestroyDB(kDatabase, Complete(client_)).PermitUncheckedError();
  }
  for (const auto& node : nodes_) DLSM_RETURN_IF_ERROR(node->node().databases().CheckInvariants());
  if (UsedBytes() == 0) return CheckDisks();
  std::string left;
  for (const auto& node : nodes_) {
    for (const auto& database : node->node().databases().List().databases) {
      left += fmt::format(", {} of {} on memory node {}", database.bytes, database.name,
                          static_cast<uint32_t>(node->node().id()));
    }
  }
  return Status::Corruption(
      fmt::format("{} bytes are left on the memory nodes by a database that was destroyed{}",
                  UsedBytes(), left));
}

// A database that was destroyed does not come back, and nothing was written where the disk had
// promised no room.
Status Simulation::CheckDisks() {
  for (const auto& node : nodes_) {
    if (!node->has_disk()) continue;
    StartAgain(node.get(), /*lose_power=*/random_.OneIn(2));
    if (const uint64_t bytes = node->disk().untaken_bytes(); bytes > 0) {
      return Status::Corruption(
          fmt::format("{} bytes were written for which the disk might have had no room", bytes));
    }
  }
  if (UsedBytes() == 0) return Status::OK();
  return Status::Corruption("a database that was destroyed is back after a restart");
}

uint64_t Simulation::UsedBytes() const {
  uint64_t bytes = 0;
  for (const auto& node : nodes_) bytes += node->node().Statistics().used_bytes;
  return bytes;
}

}  // namespace dlsm::simulation
