// connection.conf: which nodes a cluster has.
//
//   # Comments start with '#'; lines without anything else are skipped.
//   compute1 compute2:5000                <- first line: the compute nodes
//   memory1 10.0.0.7:19843 [fe80::1]:7    <- second line: the memory nodes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

inline constexpr uint16_t kDefaultPort = 19843;

struct HostPort {
  std::string host;  // A name or an address; IPv6 without its brackets.
  uint16_t port = kDefaultPort;

  bool operator==(const HostPort&) const = default;
  // As it is written in the file, always with the port.
  std::string ToString() const;
};

struct ClusterConfig {
  std::vector<HostPort> compute_nodes;
  std::vector<HostPort> memory_nodes;
};

// All return InvalidArgument with cause and remedy, and leave their output alone then.

// "host", "host:port", "[ipv6]", "[ipv6]:port".
Status ParseHostPort(const Slice& text, HostPort* node);
// Options::memory_nodes: separated by commas, white space around them does not matter.
Status ParseHostPorts(const Slice& text, std::vector<HostPort>* nodes);
// `name` is what messages call the text.
Status ParseClusterConfig(const std::string& name, const Slice& text, ClusterConfig* config);
Status ReadClusterConfig(const std::string& path, ClusterConfig* config);

}  // namespace dlsm
