// What the children that this process forks get of its memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace dlsm {

// Whether no child has the mapping that `at` is in: its flags in /proc/self/smaps have "dc".
inline bool IsKeptFromChildren(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(at);
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    const size_t dash = word.find('-');
    if (dash != std::string::npos) {
      const uintptr_t begin = std::stoull(word.substr(0, dash), nullptr, 16);
      const uintptr_t end = std::stoull(word.substr(dash + 1), nullptr, 16);
      is_it = begin <= address && address < end;
    } else if (is_it && word == "VmFlags:") {
      while (words >> word) {
        if (word == "dc") return true;
      }
      return false;
    }
  }
  return false;
}

}  // namespace dlsm
