// What befalls a simulation in its rounds, and what must hold afterwards.
#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "benchmarks/simulation/simulation_run.h"
#include "port/clock.h"
#include "util/status_macros.h"

namespace dlsm::simulation {

SimulatedMemoryNode* Simulation::DrawNode(bool with_disk) {
  for (;;) {
    SimulatedMemoryNode* const node = nodes_[random_.Uniform(nodes_.size())].get();
    if (!with_disk || node->has_disk()) return node;
  }
}

void Simulation::Strike(Ordeal ordeal) {
  struck_ = true;
  until_strike_ = 0;
  if (ordeal == Ordeal::kDeath || ordeal == Ordeal::kBlackout) {
    client_.host->alive = false;
    for (const auto& node : nodes_) node->LoseHost(client_.host.get());
    network_.Count(NetworkFault::kHostKilled);
  }
  switch (ordeal) {
    case Ordeal::kDeath:
    case Ordeal::kTakeOver:  // Together with that, perhaps.
      if (disks_ > 0 && random_.OneIn(2)) StartAgain(DrawNode(/*with_disk=*/true), false);
      return;
    case Ordeal::kRestart: {
      SimulatedMemoryNode* const node = DrawNode(/*with_disk=*/false);
      node->Kill();
      network_.Count(NetworkFault::kNodeKilled);
      node->LoseDisk();
      node->Start().PermitUncheckedError();
      return;
    }
    case Ordeal::kResumption:
      return StartAgain(DrawNode(/*with_disk=*/true), /*lose_power=*/false);
    case Ordeal::kPowerFailure:
      return StartAgain(DrawNode(/*with_disk=*/true), /*lose_power=*/true);
    case Ordeal::kBlackout:
      for (const auto& node : nodes_) StartAgain(node.get(), /*lose_power=*/true);
      return;
    case Ordeal::kFullDisk:
      DrawNode(/*with_disk=*/true)->FillDisk(std::chrono::milliseconds(1 << random_.Uniform(14)));
      network_.Count(NetworkFault::kDiskFull);
      return;
    case Ordeal::kBrokenDisk:
      broken_ = DrawNode(/*with_disk=*/true);
      broken_->BreakDisk();
      return;
    case Ordeal::kNothing:
    case Ordeal::kFaults:
      return;
  }
}

void Simulation::StartAgain(SimulatedMemoryNode* node, bool lose_power) {
  // Between two calls of the disk more can go wrong than at any other time.
  for (uint64_t looks = random_.OneIn(2) ? 1000 : 0; looks > 0 && !node->in_disk_call(); --looks) {
    port::SleepFor(std::chrono::microseconds(100));
  }
  const BootId before = node->node().boot();
  node->Kill();
  if (lose_power) node->LosePower();
  network_.Count(lose_power ? NetworkFault::kPowerFailed : NetworkFault::kNodeResumed);
  for (uint64_t starts = random_.OneIn(3) ? 1 + random_.Uniform(2) : 0;; --starts) {
    if (random_.OneIn(2)) port::SleepFor(std::chrono::milliseconds(1 << random_.Uniform(12)));
    Status started = node->Start();
    while (started.IsBusy()) {  // Its disk is full.
      port::SleepFor(std::chrono::seconds(1));
      started = node->Start();
    }
    if (!started.ok() && start_failure_.ok()) start_failure_ = started;
    if (!started.ok()) return;
    if (lose_power && node->node().boot() == before && start_failure_.ok()) {
      start_failure_ = Status::Corruption("clients may go on, and what they wrote may be lost");
    }
    if (starts == 0) return;
    // It is killed as soon as it is there, or before it has written anything.
    if (random_.OneIn(2)) port::SleepFor(std::chrono::microseconds(1 << random_.Uniform(18)));
    node->Kill();
    if (lose_power && random_.OneIn(2)) node->LosePower();
  }
}

Status Simulation::Recover(Ordeal ordeal) {
  switch (ordeal) {
    case Ordeal::kNothing:
      return random_.OneIn(2) ? Verify() : Status::OK();
    case Ordeal::kFaults:
    case Ordeal::kResumption:
      return Settle();
    case Ordeal::kFullDisk:
      for (const auto& node : nodes_) {
        while (node->disk_is_full()) port::SleepFor(std::chrono::seconds(1));
      }
      return Settle();
    case Ordeal::kBrokenDisk:
      broken_->MendDisk();  // If nobody has used it.
      StartAgain(broken_, /*lose_power=*/false);
      // A log believes no file that has failed, so its handle has ended.
      if (Complete(client_).log == LogLevel::kNone) return Settle();
      client_.host->alive = false;
      for (const auto& node : nodes_) node->LoseHost(client_.host.get());
      network_.Count(NetworkFault::kHostKilled);
      DLSM_RETURN_IF_ERROR(Succeed(/*take_over=*/random_.OneIn(2)));
      return RecoverFromDeath(/*power_failed=*/false);
    case Ordeal::kDeath:
    case Ordeal::kBlackout: {
      const bool power_failed = ordeal == Ordeal::kBlackout;
      if (power_failed) state_.ForgetUnpersisted();
      open_accepts_log_loss_ = power_failed;
      const Status succeeded = Succeed(/*take_over=*/random_.OneIn(2));
      open_accepts_log_loss_ = false;
      DLSM_RETURN_IF_ERROR(succeeded);
      return RecoverFromDeath(power_failed);
    }
    case Ordeal::kTakeOver:
      if (former_.db == nullptr) DLSM_RETURN_IF_ERROR(Succeed(/*take_over=*/true));
      return RecoverFromDeath(/*power_failed=*/false);
    case Ordeal::kRestart:
      return StartAnew();
    case Ordeal::kPowerFailure:
      return OpenAfterPowerFailure();
  }
  return Status::OK();
}

// The former owner ends whenever it likes.
Status Simulation::RecoverFromDeath(bool power_failed) {
  for (const auto& worker : workers_) worker->ReleaseSnapshots(former_.db.get());
  const auto ends_in = std::chrono::milliseconds(random_.Uniform(2000));
  port::Thread end([this, ends_in] {
    port::SleepFor(ends_in);
    former_.db->Close().PermitUncheckedError();
    former_.db.reset();
  });
  state_.ForgetUndurable();
  const Status status = AfterLoss(power_failed);
  end.join();
  return status;
}

// Another process becomes the owner.
Status Simulation::Succeed(bool take_over) {
  former_ = std::move(client_);
  const Status status = Insist("opening after the former owner", [&] {
    const Status opened = Open(take_over);
    // What fails once may fail again for as long as the network does.
    if (!opened.ok()) network_.SetWhole(true);
    return opened;
  });
  if (!status.ok()) client_ = Client();
  return status;
}

// What was on the memory node is gone, and with it the database.
Status Simulation::StartAnew() {
  for (const auto& worker : workers_) worker->ReleaseSnapshots(client_.db.get());
  client_.db->Close().PermitUncheckedError();
  client_.db.reset();
  std::fill(state_memory_.begin(), state_memory_.end(), 0);
  torn_by_death_ = false;
  restarted_ = true;
  client_ = NewClient("compute node");
  DLSM_RETURN_IF_ERROR(Insist("destroying what is left after a restart",
                              [&] { return DestroyDB(kDatabase, Complete(client_)); }));
  DLSM_RETURN_IF_ERROR(
      Insist("opening after a restart", [&] { return Open(/*take_over=*/false); }));
  return Verify();
}

// The handle's sessions at the memory node have ended with its boot.
Status Simulation::OpenAfterPowerFailure() {
  CloseHandle(&client_).PermitUncheckedError();
  state_.ForgetUnpersisted();
  restarted_ = true;
  open_accepts_log_loss_ = true;
  const Status opened =
      Insist("opening after a power failure", [&] { return Open(random_.OneIn(2)); });
  open_accepts_log_loss_ = false;
  DLSM_RETURN_IF_ERROR(opened);
  return AfterLoss(/*power_failed=*/true);
}

// What was on its way when the faults ended may still fail.
Status Simulation::Settle() {
  port::SleepFor(std::chrono::seconds(3));
  DLSM_RETURN_IF_ERROR(
      Insist("background work after faults", [&] { return client_.db->WaitForBackgroundWork(); }));
  return Verify();
}

// Without a log, a batch over several shards may have survived in part; so it may where a log has
// lost its end, and another memory node has not. Nothing else may be torn.
Status Simulation::AfterLoss(bool power_failed) {
  stress::Worker& worker = *workers_[0];
  const bool has_log = drawn_.options.log != LogLevel::kNone;
  worker.TolerateTornGroups(!drawn_.options.shard_boundaries.empty() &&
                            (!has_log || (power_failed && nodes_.size() > 1)));
  DLSM_RETURN_IF_ERROR(With("after the loss of the owner", worker.VerifyAll(client_.db.get())));
  worker.TolerateTornGroups(false);
  for (const uint64_t group : worker.torn_groups()) {
    torn_by_death_ = true;
    DLSM_RETURN_IF_ERROR(worker.RewriteGroup(client_.db.get(), group));
  }
  return Status::OK();
}

}  // namespace dlsm::simulation
