#include "benchmarks/resource_usage.h"

#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

namespace dlsm::bench {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

rusage Usage() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);  // Cannot fail with these arguments.
  return usage;
}

}  // namespace

double ProcessCpuSeconds() {
  const rusage usage = Usage();
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

// See proc(5): 5 resets the peak. Where that is not allowed the peak stays that of the process.
void ResetPeakRss() { std::ofstream("/proc/self/clear_refs") << "5"; }

uint64_t PeakRssBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    uint64_t kilobytes = 0;
    if (std::istringstream(line.substr(6)) >> kilobytes) return kilobytes << 10;
  }
  return static_cast<uint64_t>(Usage().ru_maxrss) << 10;
}

}  // namespace dlsm::bench
