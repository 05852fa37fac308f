// A memory node of a simulation: the production one behind the simulated network, which can be
// killed and started again with empty memory.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/simulation/simulated_network.h"
#include "benchmarks/simulation/simulated_queue_pair.h"
#include "benchmarks/simulation/simulated_rpc.h"
#include "dLSM/status.h"
#include "memory_node/memory_node.h"
#include "port/thread.h"
#include "util/rpc/auth/token_table.h"

namespace dlsm::simulation {

// Called by threads of the simulation.
class SimulatedMemoryNode final : public ControlServer {
 public:
  struct Config {
    MemoryNodeOptions node;
    uint64_t bytes = uint64_t{32} << 20;
    uint64_t cut_off_fails_one_in = 4;
    // With files. They keep nothing, and all that is lost with the process is lost all the same.
    bool has_files = false;
  };

  SimulatedMemoryNode(const Config& config, SimulatedNetwork* network)
      : config_(config), network_(network) {}
  ~SimulatedMemoryNode() override { Kill(); }

  // In another boot, with other contents: empty memory.
  Status Start();
  // Drops connections, merges and memory, without a word.
  void Kill();
  MemoryNode& node() { return *process_->node; }
  bool has_files() const { return config_.has_files; }

  // All control connections break, and both ends hear of it.
  void BreakConnections();
  // All that `host` had here breaks; what it has written may still arrive.
  void LoseHost(const SimulatedHost* host);

  Status Accept(const std::shared_ptr<SimulatedHost>& host, const std::string& client_name,
                const std::string& token, std::shared_ptr<ControlLink>* link,
                FabricPeer* info) override;
  // Null while it is down.
  std::shared_ptr<ServedMemory> memory() const {
    return process_ != nullptr ? process_->memory : nullptr;
  }

 private:
  struct Served {
    std::shared_ptr<ControlLink> link;
    bool done = false;
    port::Thread thread;
  };
  // Files that take their time. A call that comes while they are at work waits for the next turn,
  // and shares it.
  struct Disk {
    std::vector<std::function<void(const Status&)>> waiting;
    bool stopping = false;
    port::Thread thread;
  };
  struct Process {
    explicit Process(SimulatedMemoryNode* owner);

    std::unique_ptr<MemoryNode> node;
    std::shared_ptr<ServedMemory> memory;
    Disk disk;
    TokenTable tokens;
    std::list<std::unique_ptr<Served>> served;
    bool stopping = false;
    int accepting = 0;
    port::Thread housekeeper;
  };

  Status CutOff(Process* process, const std::string& token);
  void KeepHouse(Process* process);
  void WriteFiles(Disk* disk);
  Status AcceptAt(Process* process, const std::shared_ptr<SimulatedHost>& host,
                  const std::string& client_name, const std::string& token,
                  std::shared_ptr<ControlLink>* link, FabricPeer* info);
  static void Reap(Process* process);

  const Config config_;
  SimulatedNetwork* const network_;
  uint64_t connections_ = 0;
  std::unique_ptr<Process> process_;  // Null: it is down.
};

}  // namespace dlsm::simulation
