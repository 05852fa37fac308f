#include "benchmarks/run_threads.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <latch>
#include <thread>
#include <utility>

#include "benchmarks/seconds_since.h"
#include "port/mutex.h"

namespace dlsm::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Counts the threads that are done, so that the caller can wait with a progress line.
class DoneCount {
 public:
  explicit DoneCount(size_t threads) : left_(threads) {}

  void Arrive() LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    if (--left_ == 0) changed_.SignalAll();
  }
  // True if all are done before `until`.
  bool Wait(SteadyClock::time_point until) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    while (left_ > 0) {
      if (!changed_.WaitUntil(until)) return left_ == 0;
    }
    return true;
  }

 private:
  port::Mutex mutex_;
  port::CondVar changed_{mutex_};
  size_t left_ GUARDED_BY(mutex_);
};

uint64_t TotalProgress(const std::vector<std::unique_ptr<Worker>>& workers) {
  uint64_t total = 0;
  for (const auto& worker : workers) total += worker->Progress();
  return total;
}

}  // namespace

ProgressLine::ProgressLine(std::string name, uint64_t expected, bool enabled)
    : name_(std::move(name)),
      expected_(expected),
      enabled_(enabled),
      terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (printed_ && terminal_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Print(uint64_t done, double seconds) {
  std::string line = fmt::format("{}: {} ops", name_, done);
  if (expected_ > 0) {
    line += fmt::format(" of {} ({:.0f}%)", expected_,
                        100 * static_cast<double>(done) / static_cast<double>(expected_));
  }
  line += fmt::format(", {:.1f} s, {:.0f} ops/s", seconds, static_cast<double>(done) / seconds);
  Show(line);
}

void ProgressLine::PrintWaiting(double seconds) {
  Show(fmt::format("{}: {:.1f} s", name_, seconds));
}

void ProgressLine::Show(const std::string& line) {
  if (!enabled_) return;
  printed_ = true;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

double RunThreads(Engine& engine, SharedState& shared,
                  const std::vector<std::unique_ptr<Worker>>& workers,
                  const std::function<void(Worker&)>& body, ProgressLine& progress) {
  shared.measured_running = shared.measured_threads;
  std::latch start(static_cast<std::ptrdiff_t>(workers.size()) + 1);
  DoneCount done(workers.size());
  std::vector<SteadyClock::time_point> begins(workers.size());
  std::vector<SteadyClock::time_point> ends(workers.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers.size(); ++i) {
    threads.emplace_back([&, i] {
      Worker& worker = *workers[i];
      worker.Connect(engine);
      start.arrive_and_wait();
      begins[i] = SteadyClock::now();
      body(worker);
      ends[i] = SteadyClock::now();
      if (worker.measured()) --shared.measured_running;
      worker.Disconnect();
      done.Arrive();
    });
  }
  start.arrive_and_wait();
  const auto began = SteadyClock::now();
  const auto interval = std::chrono::duration_cast<SteadyClock::duration>(
      std::chrono::duration<double>(progress.interval_seconds()));
  while (!done.Wait(SteadyClock::now() + interval)) {
    progress.Print(TotalProgress(workers), SecondsSince(began));
  }
  for (std::thread& thread : threads) thread.join();
  // By the threads' own clocks: this one may have been woken late.
  const auto first = *std::min_element(begins.begin(), begins.begin() + shared.measured_threads);
  const auto last = *std::max_element(ends.begin(), ends.begin() + shared.measured_threads);
  return std::chrono::duration<double>(last - first).count();
}

}  // namespace dlsm::bench
