#include "util/memory/huge_pages.h"

#include <fmt/core.h>

#include <sstream>

#include "util/small_file.h"

namespace dlsm {
namespace {

constexpr const char* kFolder = "sys/kernel/mm/transparent_hugepage/";

// The kernel marks the chosen word: "always [madvise] never". Empty: it does not know the switch.
std::string ChosenWord(const std::string& path) {
  std::istringstream file(TextOf(path));
  std::string line;
  std::getline(file, line);
  const size_t open = line.find('[');
  const size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return line.substr(open + 1, close - open - 1);
}

// The word behind "huge=" among the options of what is mounted at `folder`, where a line of
// /proc/mounts is: device, folder, type, options, two numbers. A later mount covers earlier ones.
std::string MountedWith(const std::string& path, const std::string& folder) {
  constexpr const char* kOption = "huge=";
  std::istringstream mounts(TextOf(path));
  std::string chosen = "never";
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, at, type, options;
    if (!(fields >> device >> at >> type >> options) || at != folder) continue;
    chosen = "never";
    std::istringstream each(options);
    for (std::string option; std::getline(each, option, ',');) {
      if (option.starts_with(kOption)) chosen = option.substr(std::string(kOption).size());
    }
  }
  return chosen;
}

}  // namespace

HugePages AnonymousHugePages(const std::string& root) {
  const std::string chosen = ChosenWord(root + kFolder + "enabled");
  if (chosen == "always" || chosen == "madvise") return {true, "transparent, " + chosen, ""};
  if (chosen.empty()) return {false, "this kernel has no transparent huge pages", ""};
  return {false, fmt::format("/{}enabled says \"{}\"", kFolder, chosen),
          fmt::format("as root: echo madvise > /{}enabled", kFolder)};
}

HugePages ShmHugePages(const std::string& root) {
  const std::string switched = ChosenWord(root + kFolder + "shmem_enabled");
  if (switched.empty()) return {false, "this kernel has none for shared memory", ""};
  if (switched == "deny") {
    return {false, fmt::format("/{}shmem_enabled says \"deny\"", kFolder),
            fmt::format("as root: echo never > /{}shmem_enabled; "
                        "mount -o remount,huge=advise /dev/shm",
                        kFolder)};
  }
  if (switched == "force") return {true, "forced", ""};
  const std::string mounted = MountedWith(root + "proc/self/mounts", "/dev/shm");
  if (mounted != "never") return {true, fmt::format("/dev/shm has huge={}", mounted), ""};
  return {false, "/dev/shm is mounted without them",
          "as root: mount -o remount,huge=advise /dev/shm"};
}

}  // namespace dlsm
