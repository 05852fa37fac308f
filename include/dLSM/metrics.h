// Metrics of a database for Prometheus: its counters, what GetProperty() knows of it, and how long
// its public calls take.
//
// Part of a library of its own, dlsm_metrics (CMake: find_package(dLSM COMPONENTS metrics) and
// dLSM::metrics), which needs prometheus-cpp. script/dashboards has a dashboard and alert rules.
#pragma once

#include <memory>
#include <string>

#include "dLSM/status.h"

namespace dlsm {

class DB;

struct MetricsOptions {
  // A numeric address. Whatever reaches it may read the metrics, without password and TLS. They
  // have no keys or values of the database.
  std::string bind = "127.0.0.1";
  int port = 0;  // 0: any free one.
  // Whether the database measures its calls from now on (StatsLevel::kLatencies).
  bool latencies = true;
};

// Serves http://bind:port/metrics until it is destroyed, by threads of its own.
class Metrics {
 public:
  Metrics() = default;
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  virtual ~Metrics() = default;

  virtual int port() const = 0;
};

// `db` outlives *metrics. After DB::Close() there are the counters alone. IOError if the port is in
// use, or the address cannot be listened on.
Status StartMetrics(DB* db, const MetricsOptions& options, std::unique_ptr<Metrics>* metrics);

}  // namespace dlsm
