// What a program tells Prometheus, put together sample by sample.
//
// Names are in base units (seconds, bytes), and those of counters end in _total.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "dLSM/statistics.h"

namespace dlsm {

class MetricFamilies {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  // Samples of one name make one family, wherever they come. They differ in their labels' values.
  void Counter(const std::string& name, const std::string& help, double value, Labels labels = {});
  void Gauge(const std::string& name, const std::string& help, double value, Labels labels = {});
  // A histogram in seconds, whose bounds are powers of two of a nanosecond, from 256 ns to 34 s:
  // so its counts are exact.
  void Latencies(const std::string& name, const std::string& help, const HistogramData& data,
                 Labels labels = {});

  std::vector<prometheus::MetricFamily> Take();

 private:
  prometheus::ClientMetric& Add(const std::string& name, const std::string& help,
                                prometheus::MetricType type, Labels labels);

  std::vector<prometheus::MetricFamily> families_;
  std::map<std::string, size_t> by_name_;  // Where the family is.
};

}  // namespace dlsm
