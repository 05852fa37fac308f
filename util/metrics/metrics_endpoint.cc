#include "util/metrics/metrics_endpoint.h"

#include <fmt/core.h>

#include <cstdint>
#include <exception>

#include "util/cluster_config.h"

namespace dlsm {

// The exporter's only way to report is an exception.
Status MetricsEndpoint::Start(const std::string& bind, int port, Collectables told,
                              std::unique_ptr<MetricsEndpoint>* endpoint) {
  constexpr int kPortMax = 65535;
  if (port < 0 || port > kPortMax) {
    return Status::InvalidArgument(fmt::format("the metrics port {} is not in 0 to 65535", port));
  }
  const std::string address = HostPort{bind, static_cast<uint16_t>(port)}.ToString();
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(address);
  } catch (const std::exception& error) {
    const bool ipv6 = bind.find(':') != std::string::npos;
    return Status::IOError(fmt::format(
        "cannot serve metrics on {}: {}; is the port in use{}", address, error.what(),
        ipv6 ? ", or the library civetweb built without IPv6, as Debian's is? Then metrics need an "
               "IPv4 address to --bind"
             : ", or the address not one of this machine?"));
  }
  for (const auto& collectable : told) exposer->RegisterCollectable(collectable);
  const std::vector<int> ports = exposer->GetListeningPorts();
  const int listening = ports.empty() ? port : ports.front();
  endpoint->reset(new MetricsEndpoint(std::move(told), std::move(exposer), listening));
  return Status::OK();
}

}  // namespace dlsm
