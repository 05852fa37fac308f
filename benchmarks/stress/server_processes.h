// Memory nodes that are processes of their own, with a directory each, and can be killed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/status.h"

namespace dlsm::stress {

class ServerProcesses {
 public:
  ServerProcesses() = default;
  ServerProcesses(const ServerProcesses&) = delete;
  ServerProcesses& operator=(const ServerProcesses&) = delete;
  ~ServerProcesses();

  // `program` is the Server. Each process has a directory in `directory`, and keeps its port for
  // all of its lives. They end with the calling thread.
  Status Start(const std::string& program, int count, const std::string& fabric,
               const std::string& directory);
  // SIGKILL.
  void Kill(size_t number);
  // After Kill(): with the directory that it has. Returns when it serves.
  Status Restart(size_t number);

  // All that do not run.
  Status RestartAll();

  size_t count() const { return processes_.size(); }
  // As in Options::memory_nodes.
  std::string addresses() const;
  // What all databases of all of them have.
  Status UsedBytes(uint64_t* bytes) const;

 private:
  struct Process {
    pid_t id = 0;  // 0: it does not run.
    uint16_t port = 0;
    std::vector<std::string> arguments;
  };

  Status Run(Process* process);

  std::string program_;
  std::vector<Process> processes_;
};

}  // namespace dlsm::stress
