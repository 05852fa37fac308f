#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace dlsm {

inline size_t ThreadsOfProcess() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

}  // namespace dlsm
