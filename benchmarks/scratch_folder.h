// A folder in memory (tmpfs) for the stores that need files.
#pragma once

#include <memory>
#include <string>

#include "dLSM/status.h"
#include "port/mutex.h"

namespace dlsm::bench {

// Made by Create(), removed with all that is in it by the destructor, or when SIGHUP, SIGINT or
// SIGTERM ends the process: what is left in tmpfs is memory that nobody can use. One for each
// process.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  // When a signal ends the process, this does not return.
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // In /dev/shm where there is one, else in /tmp. Before any other thread is started: it blocks the
  // signals, which the threads inherit, and waits for them in a thread of its own. Those that are
  // ignored, as SIGHUP is under nohup, remain so.
  Status Create();
  // Where a store may make its folder, and make it again: once all is removed, it cannot.
  std::string path() const { return folder_ + "/db"; }

 private:
  std::string folder_;
  // Held by who removes it, up to the end where that is a signal.
  const std::shared_ptr<port::Mutex> removing_ = std::make_shared<port::Mutex>();
};

}  // namespace dlsm::bench
