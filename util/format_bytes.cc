#include "util/format_bytes.h"

#include <fmt/core.h>

namespace dlsm {

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  double amount = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // What would be rounded up to 1024.0 belongs to the next unit.
  while (amount >= 1023.95 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

}  // namespace dlsm
