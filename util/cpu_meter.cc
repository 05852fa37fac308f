#include "util/cpu_meter.h"

#include <algorithm>
#include <sstream>

#include "port/scheduler.h"
#include "util/small_file.h"

namespace dlsm {

// cpu user nice system idle iowait irq softirq steal guest guest_nice; the last two are part of
// user and nice. See proc(5).
std::optional<CpuMeter::Ticks> CpuMeter::Parse(const std::string& stat) {
  std::istringstream fields(stat.substr(0, stat.find('\n')));
  std::string name;
  if (!(fields >> name) || name != "cpu") return std::nullopt;
  constexpr int kIdle = 3;
  constexpr int kIoWait = 4;
  constexpr int kSteal = 7;
  Ticks ticks;
  uint64_t value = 0;
  int count = 0;
  for (; count <= kSteal && fields >> value; ++count) {
    ticks.all += value;
    if (count == kIdle || count == kIoWait) ticks.idle += value;
  }
  if (count <= kIdle) return std::nullopt;
  return ticks;
}

std::optional<double> CpuMeter::IdleShare(const Ticks& earlier, const Ticks& now) {
  if (now.all <= earlier.all) return std::nullopt;
  // The kernel's count of idle ticks may go back a little.
  const uint64_t idle = now.idle > earlier.idle ? now.idle - earlier.idle : 0;
  return std::min(1.0, static_cast<double>(idle) / static_cast<double>(now.all - earlier.all));
}

std::optional<double> CpuMeter::IdleShare() {
  // What else this machine does is no part of a simulation.
  if (port::Scheduler::Current() != nullptr) return std::nullopt;
  std::istringstream file(TextOf("/proc/stat"));
  std::string line;
  std::getline(file, line);
  const std::optional<Ticks> now = Parse(line);
  if (!now.has_value()) return std::nullopt;
  if (!last_.has_value()) {
    last_ = now;
    return std::nullopt;
  }
  const std::optional<double> share = IdleShare(*last_, *now);
  if (share.has_value()) last_ = now;
  return share;
}

}  // namespace dlsm
