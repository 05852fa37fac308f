#include "util/fabric/verbs/verbs_counters.h"

#include <fmt/core.h>

#include <algorithm>

namespace dlsm {

std::string DescribeEvents(const VerbsEventCounts& counts) {
  std::string text;
  const auto add = [&](uint64_t count, const char* what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(counts.device_failures, "device failures");
  add(counts.queue_pair_failures, "queue pair failures");
  add(counts.port_downs, "port downs");
  add(counts.port_ups, "port ups");
  add(counts.address_changes, "address changes");
  add(counts.others, "others");
  return text;
}

VerbsCounters::VerbsCounters(VerbsCounterRegistry& registry) : registry_(registry) {
  const port::MutexLock lock(registry_.mutex_);
  registry_.live_.push_back(this);
}

VerbsCounters::~VerbsCounters() {
  const port::MutexLock lock(registry_.mutex_);
  std::erase(registry_.live_, this);
  AddTo(&registry_.retired_);
}

void VerbsCounters::AddTo(VerbsCounts* sum) const {
  sum->work_requests += work_requests.load(std::memory_order_relaxed);
  sum->doorbells += doorbells.load(std::memory_order_relaxed);
  sum->completions += completions.load(std::memory_order_relaxed);
  sum->sleeps += sleeps.load(std::memory_order_relaxed);
  sum->copied_bytes += copied_bytes.load(std::memory_order_relaxed);
}

VerbsCounts VerbsCounterRegistry::Sum() const {
  const port::MutexLock lock(mutex_);
  VerbsCounts sum = retired_;
  for (const VerbsCounters* each : live_) each->AddTo(&sum);
  return sum;
}

size_t VerbsCounterRegistry::live() const {
  const port::MutexLock lock(mutex_);
  return live_.size();
}

}  // namespace dlsm
