// A memory node of a simulation: the production one behind the simulated network, which can be
// killed and started again: with empty memory, or with a disk that forgets.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/simulation/simulated_network.h"
#include "benchmarks/simulation/simulated_queue_pair.h"
#include "benchmarks/simulation/simulated_rpc.h"
#include "dLSM/status.h"
#include "memory_node/memory_node.h"
#include "memory_node/store/forgetful_disk.h"
#include "port/clock.h"
#include "port/thread.h"
#include "util/fabric/mapped/exported_region.h"
#include "util/rpc/auth/token_table.h"

namespace dlsm::simulation {

// Called by threads of the simulation.
class SimulatedMemoryNode final : public ControlServer {
 public:
  struct Config {
    MemoryNodeOptions node;
    uint64_t bytes = uint64_t{32} << 20;
    uint64_t cut_off_fails_one_in = 4;
    bool has_disk = false;
    std::chrono::nanoseconds disk_call_max{};  // How long the disk may take for a call.
  };

  SimulatedMemoryNode(const Config& config, SimulatedNetwork* network)
      : config_(config), network_(network) {
    LoseDisk();
  }
  ~SimulatedMemoryNode() override { Kill(); }

  // Without a disk in another boot, with other contents: empty memory. With one, with what that
  // has; after a power failure in another boot, else in the same.
  Status Start();
  // Drops connections, merges and memory, without a word. The disk keeps what was stored.
  void Kill();

  bool has_disk() const { return config_.has_disk; }
  ForgetfulDisk& disk() { return *disk_; }
  // While it is down: the disk forgets what was not persisted; or another takes its place.
  void LosePower();
  void LoseDisk();
  // The disk takes no more for so long; its next call that writes fails.
  void FillDisk(std::chrono::nanoseconds duration);
  bool in_disk_call() const { return disk_calls_under_way_ > 0; }
  bool disk_is_full() const { return port::Clock::now() < disk_full_until_; }
  void BreakDisk() { disk_breaks_ = true; }
  void MendDisk() { disk_breaks_ = false; }
  // The disk does `calls` more calls, and fails all that come then. Power that fails at this moment
  // finds nothing of them.
  void StopDiskAfter(uint64_t calls) { disk_calls_left_ = calls; }
  bool disk_has_stopped() const { return disk_calls_left_ == 0; }
  MemoryNode& node() { return *process_->node; }

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
  struct Process {
    explicit Process(SimulatedMemoryNode* owner);

    std::unique_ptr<MemoryNode> node;
    ForgetfulFiles* files = nullptr;  // The node's; null without a disk.
    std::shared_ptr<ServedMemory> memory;
    TokenTable tokens;
    std::list<std::unique_ptr<Served>> served;
    bool stopping = false;
    int accepting = 0;
    port::Thread housekeeper;
  };

  Status MakeMemory(std::unique_ptr<ExportedRegion>* region) const;
  Status OpenDisk(NodeStore* store, ForgetfulFiles** files);
  Status CallDisk(const std::string& call);
  Status CutOff(Process* process, const std::string& token);
  void KeepHouse(Process* process);
  Status AcceptAt(Process* process, const std::shared_ptr<SimulatedHost>& host,
                  const std::string& client_name, const std::string& token,
                  std::shared_ptr<ControlLink>* link, FabricPeer* info);
  static void Reap(Process* process);

  const Config config_;
  SimulatedNetwork* const network_;
  uint64_t connections_ = 0;
  std::unique_ptr<ForgetfulDisk> disk_;  // Null if it has none.
  port::Clock::time_point disk_full_until_{};
  bool disk_breaks_ = false;
  std::optional<uint64_t> disk_calls_left_;  // If the disk is to stop.
  int disk_calls_under_way_ = 0;
  std::unique_ptr<Process> process_;  // Null: it is down.
};

}  // namespace dlsm::simulation
