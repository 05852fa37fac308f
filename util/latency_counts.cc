#include "util/latency_counts.h"

#include <algorithm>
#include <numeric>

namespace dlsm {

void LatencyCounts::AddTo(LatencySums* sums) const {
  for (size_t i = 0; i < counts_.size(); ++i) {
    sums->counts_[i] += counts_[i].load(std::memory_order_relaxed);
  }
  sums->nanos_ += nanos_.load(std::memory_order_relaxed);
}

void LatencySums::Subtract(const LatencySums& begin) {
  for (size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] -= std::min(counts_[i], begin.counts_[i]);
  }
  nanos_ -= std::min(nanos_, begin.nanos_);
}

// The middle of the bucket in which the call lies that `percent` of all calls do not exceed.
double LatencySums::Percentile(double percent, uint64_t count) const {
  const double wanted = static_cast<double>(count) * percent / 100;
  uint64_t passed = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    passed += counts_[i];
    if (counts_[i] == 0 || static_cast<double>(passed) < wanted) continue;
    const uint64_t lower = i == 0 ? 0 : LatencyBuckets::UpperBound(i - 1);
    return (static_cast<double>(lower) + static_cast<double>(LatencyBuckets::UpperBound(i))) / 2;
  }
  return 0;
}

HistogramData LatencySums::Data() const {
  HistogramData data;
  data.count = std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
  if (data.count == 0) return data;
  data.sum = nanos_;
  data.average = static_cast<double>(nanos_) / static_cast<double>(data.count);
  data.median = Percentile(50, data.count);
  data.percentile95 = Percentile(95, data.count);
  data.percentile99 = Percentile(99, data.count);
  data.percentile999 = Percentile(99.9, data.count);
  size_t power = 0;
  uint64_t passed = 0;
  for (size_t i = 0; i < LatencyBuckets::kBounded; ++i) {
    for (; LatencyBuckets::UpperBound(i) > (uint64_t{1} << power); ++power) {
      data.at_most[power] = passed;
    }
    passed += counts_[i];
  }
  data.at_most[power] = passed;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) data.max = static_cast<double>(LatencyBuckets::UpperBound(i));
  }
  return data;
}

}  // namespace dlsm
