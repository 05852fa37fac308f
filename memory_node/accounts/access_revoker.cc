#include "memory_node/accounts/access_revoker.h"

#include <algorithm>
#include <utility>

#include "port/allocation_point.h"
#include "port/sync_point.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

AccessRevoker::AccessRevoker() : thread_([this] { Run(); }) {}

AccessRevoker::~AccessRevoker() { Stop(); }

void AccessRevoker::SetCutOff(CutOff cut_off) {
  const port::MutexLock lock(mutex_);
  cut_off_ = std::move(cut_off);
}

void AccessRevoker::Revoke(std::vector<std::string> tokens, Outcome outcome) {
  {
    const port::MutexLock lock(mutex_);
    if (!stopping_) {
      // And for the one that is being tried, which may come back.
      if (jobs_.capacity() < jobs_.size() + 2) jobs_.reserve(2 * jobs_.size() + 2);
      jobs_.push_back(Job{std::move(tokens), std::move(outcome), Clock::now(), kRetryDelayMin});
      changed_.SignalAll();
      return;
    }
  }
  // Whoever asks may hold locks that the outcome takes; and the memory goes with this memory node.
}

void AccessRevoker::Stop() {
  {
    const port::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (!thread_.joinable()) return;
  thread_.join();
  std::vector<Job> left;
  {
    const port::MutexLock lock(mutex_);
    left.swap(jobs_);
  }
  for (const Job& job : left) {
    IfMemoryPermits([&] { job.outcome(Status::Aborted("the memory node is shutting down")); });
  }
}

AccessRevoker::Statistics AccessRevoker::statistics() const {
  const port::MutexLock lock(mutex_);
  Statistics statistics = statistics_;
  statistics.pending = jobs_.size() + (running_ ? 1 : 0);
  return statistics;
}

void AccessRevoker::Run() {
  Job job;
  while (NextJob(&job)) {
    Status status = WithinMemory(
        [&] {
          port::AllocationPoint("memory node: revocation");
          CutOff cut_off;
          {
            const port::MutexLock lock(mutex_);
            cut_off = cut_off_;
          }
          return Try(cut_off, &job);
        },
        &OutOfNodeMemory);
    // First, so that who waits for the failure finds it counted.
    {
      const port::MutexLock lock(mutex_);
      ++(status.ok() ? statistics_.revocations : statistics_.failures);
    }
    // An outcome that cannot be told has not come about.
    const Status told = WithinMemory(
        [&] {
          job.outcome(status);
          return Status::OK();
        },
        &OutOfNodeMemory);
    KeepFirstError(told, &status);
    const port::MutexLock lock(mutex_);
    running_ = false;
    if (status.ok()) continue;
    job.due = Clock::now() + job.delay;
    job.delay = std::min(2 * job.delay, kRetryDelayMax);
    jobs_.push_back(std::move(job));
  }
}

bool AccessRevoker::NextJob(Job* job) {
  const auto by_due = [](const Job& a, const Job& b) { return a.due < b.due; };
  const port::MutexLock lock(mutex_);
  while (!stopping_) {
    const auto next = std::min_element(jobs_.begin(), jobs_.end(), by_due);
    if (next == jobs_.end()) {
      changed_.Wait();
      continue;
    }
    if (Clock::now() < next->due) {
      static_cast<void>(changed_.WaitUntil(next->due));
      continue;
    }
    *job = std::move(*next);
    jobs_.erase(next);
    running_ = true;
    return true;
  }
  return false;
}

Status AccessRevoker::Try(const CutOff& cut_off, Job* job) {
  if (!cut_off) return Status::OK();
  Status first;
  std::erase_if(job->tokens, [&](const std::string& token) {
    port::SyncPoint("revoker: cut off");
    Status status = cut_off(token);
    const bool gone = status.ok();
    if (first.ok()) first = std::move(status);
    return gone;
  });
  return first;
}

}  // namespace dlsm
