// The memory nodes of one database, in this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/node_server.h"

namespace dlsm::stress {

class Nodes {
 public:
  struct Patience {
    std::chrono::milliseconds lease;  // Who is silent for so long has gone.
    std::chrono::milliseconds grace;  // Who has lost its connection for so long, too.
  };
  // `fabric`: as in Options.
  Status Start(int count, const std::string& fabric, const Patience& patience);
  // It dies without a word, with all that it has.
  void Kill(size_t number) { servers_[number].reset(); }
  Status Restart(size_t number) { return NodeServer::Start(options_[number], &servers_[number]); }

  const std::string& addresses() const { return addresses_; }
  uint64_t used_bytes() const;
  Status CheckInvariants() const;

 private:
  std::vector<NodeServerOptions> options_;
  std::vector<std::unique_ptr<NodeServer>> servers_;
  std::string addresses_;
};

}  // namespace dlsm::stress
