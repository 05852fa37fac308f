#include "benchmarks/waiting_line.h"

#include <chrono>

#include "benchmarks/seconds_since.h"

namespace dlsm::bench {

WaitingLine::WaitingLine(const std::string& name, bool enabled)
    : line_(name, /*expected=*/0, enabled) {
  if (enabled) thread_ = std::thread([this] { Run(); });
}

WaitingLine::~WaitingLine() {
  {
    const port::MutexLock lock(mutex_);
    end_ = true;
    ended_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void WaitingLine::Run() {
  using Clock = std::chrono::steady_clock;
  const auto interval = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(line_.interval_seconds()));
  const auto began = Clock::now();
  auto next = began + interval;
  const port::MutexLock lock(mutex_);
  while (!end_) {
    if (Clock::now() < next) {
      ended_.WaitUntil(next);
      continue;
    }
    line_.PrintWaiting(SecondsSince(began));
    next += interval;
  }
}

Status AwaitQuiet(Engine& engine, const std::string& name, bool progress) {
  const WaitingLine line(name + " until quiet", progress);
  return engine.WaitForBackgroundWork();
}

}  // namespace dlsm::bench
