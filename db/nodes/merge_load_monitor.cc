#include "db/nodes/merge_load_monitor.h"

#include <fmt/core.h>

#include <algorithm>

namespace dlsm {
namespace {

std::string Percent(const std::optional<double>& share) {
  return share.has_value() ? fmt::format("{:.0f}", *share * 100) : "unknown";
}

}  // namespace

PlaceChoice MergeLoadMonitor::Place(uint64_t bytes) {
  port::MutexLock lock(mutex_);
  const PlaceChoice choice = placement_.Choose(bytes, RemoteLocked(), LocalLocked());
  if (!choice.local) sent_bytes_ += bytes;
  return choice;
}

void MergeLoadMonitor::NoteSent(uint64_t bytes) {
  port::MutexLock lock(mutex_);
  sent_bytes_ += bytes;
}

void MergeLoadMonitor::NoteRefused(uint64_t bytes) {
  port::MutexLock lock(mutex_);
  refused_ = true;
  reported_bytes_ += bytes;  // It waits nowhere.
}

uint64_t MergeLoadMonitor::sent_bytes() const {
  port::MutexLock lock(mutex_);
  return sent_bytes_;
}

void MergeLoadMonitor::NoteReport(const MergeLoad& load, uint64_t sent_before) {
  port::MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  // A memory node that was started again begins to count anew: that is progress, too.
  if (report_.has_value() && report_->bytes_merged != load.bytes_merged) {
    merges_until_.store(now + config_.patience, std::memory_order_relaxed);
  }
  report_ = load;
  if (load.running + load.queued == 0) remote_unmerged_ = {load.cpu_idle, now};
  reported_at_ = now;
  reported_bytes_ = std::max(reported_bytes_, sent_before);
  refused_ = false;
}

void MergeLoadMonitor::NoteTransfer(uint64_t bytes, std::chrono::nanoseconds took) {
  port::MutexLock lock(mutex_);
  transfer_.Add(bytes, took);
}

void MergeLoadMonitor::SampleCpu() {
  port::MutexLock lock(mutex_);
  if (const std::optional<double> idle = cpu_.IdleShare(); idle.has_value()) cpu_idle_ = idle;
  if (local_->load().merges == 0) local_unmerged_ = {cpu_idle_, Clock::now()};
}

bool MergeLoadMonitor::HasSpareProcessor(bool local) const {
  // One of four processors, and of two most of one: the moments between what a program does leave
  // some time idle, but no processor.
  constexpr double kSpare = 0.25;
  port::MutexLock lock(mutex_);
  const Unmerged& unmerged = local ? local_unmerged_ : remote_unmerged_;
  if (!unmerged.cpu_idle.has_value()) return true;
  return *unmerged.cpu_idle >= kSpare && Clock::now() - unmerged.at <= config_.report_lifetime;
}

Deadline MergeLoadMonitor::MergeDeadline() const {
  return Deadline::Extendable(Clock::now() + config_.patience, &merges_until_);
}

RemoteMergeSide MergeLoadMonitor::RemoteLocked() const {
  RemoteMergeSide remote;
  remote.refused = refused_;
  if (!report_.has_value()) return remote;
  remote.known = Clock::now() - reported_at_ <= config_.report_lifetime;
  remote.load = *report_;
  remote.sent_bytes = sent_bytes_ > reported_bytes_ ? sent_bytes_ - reported_bytes_ : 0;
  return remote;
}

LocalMergeSide MergeLoadMonitor::LocalLocked() const {
  const MergeScheduler::Load load = local_->load();
  const MergeSchedulerOptions options = local_->options();
  LocalMergeSide local;
  local.bytes_left = load.bytes_left;
  local.threads = options.running_max;
  local.bytes_per_second = load.bytes_per_second;
  local.bytes_per_second_max = options.bytes_per_second;
  local.transfer_bytes_per_second = transfer_.BytesPerSecond();
  local.cpu_idle = cpu_idle_;
  return local;
}

std::string MergeLoadMonitor::Describe() const {
  port::MutexLock lock(mutex_);
  const RemoteMergeSide remote = RemoteLocked();
  const LocalMergeSide local = LocalLocked();
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
      report_.has_value() ? Clock::now() - reported_at_ : Clock::duration(0));
  return fmt::format(
      "memory-node-known {}\nmemory-node-report-age-ms {}\nmemory-node-refuses {}\n"
      "memory-node-merges-running {}\nmemory-node-merges-queued {}\n"
      "memory-node-bytes-waiting {}\nmemory-node-bytes-sent-since {}\nmemory-node-workers {}\n"
      "memory-node-bytes-per-second {}\nmemory-node-bytes-per-second-max {}\n"
      "memory-node-cpu-idle-percent {}\n"
      "compute-node-merges-running {}\ncompute-node-bytes-left {}\ncompute-node-threads {}\n"
      "compute-node-bytes-per-second {}\ncompute-node-bytes-per-second-max {}\n"
      "compute-node-transfer-bytes-per-second {}\ncompute-node-cpu-idle-percent {}\n",
      remote.known ? 1 : 0, age.count(), remote.refused ? 1 : 0, remote.load.running,
      remote.load.queued, remote.load.bytes_waiting, remote.sent_bytes, remote.load.workers,
      remote.load.bytes_per_second, remote.load.bytes_per_second_max, Percent(remote.load.cpu_idle),
      local_->load().merges, local.bytes_left, local.threads, local.bytes_per_second,
      local.bytes_per_second_max, local.transfer_bytes_per_second, Percent(local.cpu_idle));
}

}  // namespace dlsm
