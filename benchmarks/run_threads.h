// Runs a workload in threads that start together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/engine.h"
#include "benchmarks/worker.h"

namespace dlsm::bench {

// Prints how far it is, on stderr: every two seconds, or five times a second to a terminal.
class ProgressLine {
 public:
  // expected: operations; 0 if the end is a time. Prints nothing if not `enabled`.
  ProgressLine(std::string name, uint64_t expected, bool enabled);
  ~ProgressLine();  // Wipes the line off a terminal.
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  double interval_seconds() const { return terminal_ ? 0.2 : 2; }
  void Print(uint64_t done, double seconds);
  // Of what does not tell how far it is.
  void PrintWaiting(double seconds);

 private:
  void Show(const std::string& line);

  const std::string name_;
  const uint64_t expected_;
  const bool enabled_;
  const bool terminal_;
  bool printed_ = false;
};

// Connects each worker and runs `body` with it, in a thread of its own; all start when the last is
// connected. Returns the seconds from the first start until the last measured worker was done.
double RunThreads(Engine& engine, SharedState& shared,
                  const std::vector<std::unique_ptr<Worker>>& workers,
                  const std::function<void(Worker&)>& body, ProgressLine& progress);

}  // namespace dlsm::bench
