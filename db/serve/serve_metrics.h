// What dlsm_serve tells Prometheus of its clients and commands. The database's own metrics are
// those of db/metrics.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "db/serve/server_state.h"

namespace dlsm::serve {

class ServeMetrics final : public prometheus::Collectable {
 public:
  // `server` outlives this.
  explicit ServeMetrics(const ServerState* server) : server_(server) {}

  // Returns none where there is no memory for them: Prometheus asks again at its next scrape.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const ServerState* const server_;
};

}  // namespace dlsm::serve
