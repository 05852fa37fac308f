#include "db/serve/latency_monitor.h"

#include <algorithm>

namespace dlsm::serve {

void LatencyMonitor::Add(const char* event, int64_t seconds, int64_t millis) {
  const port::MutexLock lock(mutex_);
  Event& of = events_[event];
  of.most_millis = std::max(of.most_millis, millis);
  if (!of.samples.empty() && of.samples.back().at == seconds) {
    of.samples.back().millis = std::max(of.samples.back().millis, millis);
    return;
  }
  of.samples.push_back({seconds, millis});
  if (of.samples.size() > kSamplesMost) of.samples.pop_front();
}

std::map<std::string, LatencyMonitor::Event> LatencyMonitor::All() const {
  const port::MutexLock lock(mutex_);
  return events_;
}

bool LatencyMonitor::Forget(const std::string& event) {
  const port::MutexLock lock(mutex_);
  return events_.erase(event) > 0;
}

size_t LatencyMonitor::ForgetAll() {
  const port::MutexLock lock(mutex_);
  const size_t count = events_.size();
  events_.clear();
  return count;
}

}  // namespace dlsm::serve
