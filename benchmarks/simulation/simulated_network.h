// The network of a simulation: how long a message takes, and what becomes of it. Whatever befalls a
// simulation is counted here.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "benchmarks/simulation/simulated_scheduler.h"
#include "util/random.h"

namespace dlsm::simulation {

enum class NetworkFault : uint8_t {
  kSlow = 0,      // A message or transfer takes thousands of times as long.
  kReset,         // A connection breaks, and both ends learn of it.
  kLost,          // It breaks, and who waits learns of it by its deadline.
  kTorn,          // Of a write that was under way only a part has taken place.
  kLateWrite,     // A write of a compute node that has died takes place after its death.
  kCutOffFailed,  // A memory node could not yet take access away from a client.
  kNodeKilled,
  kHostKilled,
  kNodeResumed,  // Its process was killed and started again, with its disk.
  kPowerFailed,  // That of a memory node with a disk.
  kDiskFull,     // For a while.
  kDiskBroken,   // It has failed a call.
};
inline constexpr size_t kNetworkFaultCount = 12;
const char* NetworkFaultName(NetworkFault fault);

// A process that connects to memory nodes.
struct SimulatedHost {
  std::string name;
  bool alive = true;
};

class SimulatedNetwork {
 public:
  struct Config {
    uint64_t seed = 1;
    std::chrono::nanoseconds delay = std::chrono::microseconds(5);  // One way; up to twice that.
    uint64_t slow_one_in = 200;  // Of messages and transfers, as all of these; 0: none.
    std::chrono::nanoseconds slow_max = std::chrono::milliseconds(20);
    uint64_t reset_one_in = 0;
    uint64_t lost_one_in = 0;
  };
  using Counts = std::array<uint64_t, kNetworkFaultCount>;

  // `scheduler` outlives the network.
  SimulatedNetwork(const Config& config, SimulatedScheduler* scheduler)
      : config_(config), scheduler_(scheduler), random_(config.seed) {}

  SimulatedScheduler& scheduler() { return *scheduler_; }
  Random& random() { return random_; }

  // How long the next message takes.
  std::chrono::nanoseconds Delay();
  // Whether the connection is to break now; never while the network is whole.
  bool Resets() { return !whole_ && Strikes(config_.reset_one_in, NetworkFault::kReset); }
  bool Loses() { return !whole_ && Strikes(config_.lost_one_in, NetworkFault::kLost); }
  // From now on no connection breaks by itself; or they do again.
  void SetWhole(bool whole) { whole_ = whole; }
  bool whole() const { return whole_; }

  void Count(NetworkFault fault) { ++counts_[static_cast<size_t>(fault)]; }
  const Counts& counts() const { return counts_; }

 private:
  bool Strikes(uint64_t one_in, NetworkFault fault);

  const Config config_;
  SimulatedScheduler* const scheduler_;
  Random random_;
  bool whole_ = true;
  Counts counts_{};
};

}  // namespace dlsm::simulation
