// What befalls a simulation in its rounds, and what must hold afterwards.
#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "benchmarks/simulation/simulation_run.h"
#include "port/clock.h"
#include "util/status_macros.h"

namespace dlsm::simulation {

void Simulation::Strike(Ordeal ordeal) {
  struck_ = true;
  until_strike_ = 0;
  if (ordeal == Ordeal::kDeath) {
    client_.host->alive = false;
    for (const auto& node : nodes_) node->LoseHost(client_.host.get());
    network_.Count(NetworkFault::kHostKilled);
  } else if (ordeal == Ordeal::kRestart) {
    SimulatedMemoryNode& node = *nodes_[random_.Uniform(nodes_.size())];
    node.Kill();
    network_.Count(NetworkFault::kNodeKilled);
    node.Start().PermitUncheckedError();
  }
}

Status Simulation::Recover(Ordeal ordeal) {
  switch (ordeal) {
    case Ordeal::kNothing:
      return random_.OneIn(2) ? Verify() : Status::OK();
    case Ordeal::kFaults:
      return Settle();
    case Ordeal::kDeath: {
      DLSM_RETURN_IF_ERROR(Succeed(/*take_over=*/random_.OneIn(2)));
      break;
    }
    case Ordeal::kTakeOver:
      if (former_.db == nullptr) DLSM_RETURN_IF_ERROR(Succeed(/*take_over=*/true));
      break;
    case Ordeal::kRestart:
      return StartAnew();
  }
  for (const auto& worker : workers_) worker->ReleaseSnapshots(former_.db.get());
  // The former owner ends whenever it likes.
  const auto ends_in = std::chrono::milliseconds(random_.Uniform(2000));
  port::Thread end([this, ends_in] {
    port::SleepFor(ends_in);
    former_.db->Close().PermitUncheckedError();
    former_.db.reset();
  });
  state_.ForgetUndurable();
  const Status status = AfterLoss();
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

// What was on its way when the faults ended may still fail.
Status Simulation::Settle() {
  port::SleepFor(std::chrono::seconds(3));
  DLSM_RETURN_IF_ERROR(
      Insist("background work after faults", [&] { return client_.db->WaitForBackgroundWork(); }));
  return Verify();
}

// Without a log, a batch over several shards may have survived in part; nothing else may be torn.
Status Simulation::AfterLoss() {
  stress::Worker& worker = *workers_[0];
  worker.TolerateTornGroups(!drawn_.options.shard_boundaries.empty() &&
                            drawn_.options.log == LogLevel::kNone);
  DLSM_RETURN_IF_ERROR(With("after the loss of the owner", worker.VerifyAll(client_.db.get())));
  worker.TolerateTornGroups(false);
  for (const uint64_t group : worker.torn_groups()) {
    torn_by_death_ = true;
    DLSM_RETURN_IF_ERROR(worker.RewriteGroup(client_.db.get(), group));
  }
  return Status::OK();
}

}  // namespace dlsm::simulation
