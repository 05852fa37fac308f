// A port at which Prometheus finds metrics, over HTTP without password and TLS.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/status.h"

namespace dlsm {

class MetricsEndpoint {
 public:
  using Collectables = std::vector<std::shared_ptr<prometheus::Collectable>>;

  // `bind` is a numeric address. Port 0 is any free one. IOError if it cannot listen there.
  // No two of `told` have a name in common. Threads of the endpoint ask them.
  static Status Start(const std::string& bind, int port, Collectables told,
                      std::unique_ptr<MetricsEndpoint>* endpoint);

  int port() const { return port_; }

 private:
  MetricsEndpoint(Collectables told, std::unique_ptr<prometheus::Exposer> exposer, int port)
      : told_(std::move(told)), exposer_(std::move(exposer)), port_(port) {}

  const Collectables told_;
  const std::unique_ptr<prometheus::Exposer> exposer_;  // Ends before what it asks.
  const int port_;
};

}  // namespace dlsm
