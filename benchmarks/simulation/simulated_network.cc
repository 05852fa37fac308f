#include "benchmarks/simulation/simulated_network.h"

namespace dlsm::simulation {

const char* NetworkFaultName(NetworkFault fault) {
  constexpr std::array<const char*, kNetworkFaultCount> kNames = {
      "slow messages",       "resets",
      "lost messages",       "torn writes",
      "late writes",         "failed revocations",
      "memory nodes killed", "compute nodes killed",
      "resumptions",         "power failures",
      "full disks",          "broken disks"};
  return kNames[static_cast<size_t>(fault)];
}

std::chrono::nanoseconds SimulatedNetwork::Delay() {
  const auto up_to = [this](std::chrono::nanoseconds longest) {
    return std::chrono::nanoseconds(random_.Uniform(static_cast<uint64_t>(longest.count()) + 1));
  };
  if (Strikes(config_.slow_one_in, NetworkFault::kSlow)) return up_to(config_.slow_max);
  return config_.delay + up_to(config_.delay);
}

bool SimulatedNetwork::Strikes(uint64_t one_in, NetworkFault fault) {
  if (one_in == 0 || !random_.OneIn(one_in)) return false;
  Count(fault);
  return true;
}

}  // namespace dlsm::simulation
