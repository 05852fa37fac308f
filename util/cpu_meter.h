// How busy this machine's processors are, all processes together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dlsm {

// Not thread-safe.
class CpuMeter {
 public:
  // In clock ticks of all processors, since boot.
  struct Ticks {
    uint64_t idle = 0;  // Waiting for a disk included.
    uint64_t all = 0;
  };
  // Of the text of /proc/stat; none if that is not what it is.
  static std::optional<Ticks> Parse(const std::string& stat);

  // The share of processor time that nobody used since the last call that gave one; none at the
  // first, and where the system does not tell. Reads one file: for every now and then.
  std::optional<double> IdleShare();

  // The same of two readings; none if no tick lies between them.
  static std::optional<double> IdleShare(const Ticks& earlier, const Ticks& now);

 private:
  std::optional<Ticks> last_;
};

}  // namespace dlsm
