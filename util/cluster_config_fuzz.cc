// Parses arbitrary text as a connection.conf. What it accepts must come back from what it prints.
#include <cstdlib>
#include <string>

#include "util/cluster_config.h"

namespace {

std::string Print(const dlsm::ClusterConfig& config) {
  std::string text;
  for (const auto* nodes : {&config.compute_nodes, &config.memory_nodes}) {
    for (const dlsm::HostPort& node : *nodes) text += node.ToString() + " ";
    text += "\n";
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice text(reinterpret_cast<const char*>(data), size);
  dlsm::ClusterConfig config;
  if (!dlsm::ParseClusterConfig("fuzz", text, &config).ok()) return 0;
  dlsm::ClusterConfig again;
  if (!dlsm::ParseClusterConfig("again", Print(config), &again).ok()) std::abort();
  if (again.compute_nodes != config.compute_nodes) std::abort();
  if (again.memory_nodes != config.memory_nodes) std::abort();
  return 0;
}
