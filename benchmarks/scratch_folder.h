// A folder in memory (tmpfs) for the stores that need files.
#pragma once

#include <string>

#include "dLSM/status.h"

namespace dlsm::bench {

// Made by Create(), removed with all that is in it by the destructor, or when SIGINT or SIGTERM
// ends the process: what is left in tmpfs is memory that nobody can use. One for each process.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // In /dev/shm where there is one, else in /tmp. Before any other thread is started: it blocks the
  // signals, which the threads inherit, and waits for them in a thread of its own.
  Status Create();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dlsm::bench
