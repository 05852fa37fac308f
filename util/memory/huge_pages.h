// Whether this host gives huge pages to who asks for them with madvise(2), and what to do if not.
#pragma once

#include <string>

namespace dlsm {

struct HugePages {
  bool offered = false;
  std::string detail;  // What the host says.
  std::string remedy;  // Empty if offered.
};

// Of private memory. `root` ("/") is where /sys and /proc are looked for.
HugePages AnonymousHugePages(const std::string& root);

// Of files in /dev/shm, where it is the mount that decides; the kernel's switch for all shared
// memory only has a say with "deny" and "force".
HugePages ShmHugePages(const std::string& root);

}  // namespace dlsm
