#include "util/metrics/metric_families.h"

#include <cassert>
#include <cstdint>
#include <utility>

namespace dlsm {
namespace {

constexpr size_t kFirstPower = 8;
constexpr size_t kLastPower = 35;
static_assert(kLastPower < HistogramData::kPowers);

}  // namespace

prometheus::ClientMetric& MetricFamilies::Add(const std::string& name, const std::string& help,
                                              prometheus::MetricType type, Labels labels) {
  assert((type == prometheus::MetricType::Counter) == name.ends_with("_total"));
  const auto [found, is_new] = by_name_.emplace(name, families_.size());
  if (is_new) families_.push_back({name, help, type, {}});
  prometheus::MetricFamily& family = families_[found->second];
  assert(family.type == type);
  prometheus::ClientMetric& sample = family.metric.emplace_back();
  sample.label = std::move(labels);
  return sample;
}

void MetricFamilies::Counter(const std::string& name, const std::string& help, double value,
                             Labels labels) {
  Add(name, help, prometheus::MetricType::Counter, std::move(labels)).counter.value = value;
}

void MetricFamilies::Gauge(const std::string& name, const std::string& help, double value,
                           Labels labels) {
  Add(name, help, prometheus::MetricType::Gauge, std::move(labels)).gauge.value = value;
}

void MetricFamilies::Latencies(const std::string& name, const std::string& help,
                               const HistogramData& data, Labels labels) {
  constexpr double kSecond = 1e9;  // Nanoseconds.
  auto& histogram = Add(name, help, prometheus::MetricType::Histogram, std::move(labels)).histogram;
  histogram.sample_count = data.count;
  histogram.sample_sum = static_cast<double>(data.sum) / kSecond;
  for (size_t power = kFirstPower; power <= kLastPower; ++power) {
    const double bound = static_cast<double>(uint64_t{1} << power) / kSecond;
    histogram.bucket.push_back({data.at_most[power], bound});
  }
}

std::vector<prometheus::MetricFamily> MetricFamilies::Take() {
  by_name_.clear();
  return std::exchange(families_, {});
}

}  // namespace dlsm
