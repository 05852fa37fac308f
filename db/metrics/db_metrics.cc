#include "db/metrics/db_metrics.h"

#include <new>
#include <string>
#include <string_view>

#include "dLSM/statistics.h"
#include "db/metrics/property_metrics.h"
#include "db/metrics/ticker_metrics.h"
#include "util/metrics/metric_families.h"

namespace dlsm {
namespace {

// "get" of "dlsm.get.nanos", "multi_get" of "dlsm.multi.get.nanos".
std::string CallOf(HistogramType type) {
  constexpr std::string_view kBefore = "dlsm.";
  constexpr std::string_view kBehind = ".nanos";
  std::string_view name = HistogramName(type);
  name.remove_prefix(kBefore.size());
  name.remove_suffix(kBehind.size());
  std::string call(name);
  for (char& c : call) c = c == '.' ? '_' : c;
  return call;
}

void AddLatencies(const Statistics& statistics, MetricFamilies* families) {
  for (size_t i = 0; i < static_cast<size_t>(HistogramType::kHistogramCount); ++i) {
    const auto type = static_cast<HistogramType>(i);
    families->Latencies("dlsm_db_call_seconds", "How long public calls take", statistics.Get(type),
                        {{"call", CallOf(type)}});
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> DbMetrics::Collect() const try {
  MetricFamilies families;
  const auto statistics = db_->GetStatistics();
  AddTickers(*statistics, &families);
  if (statistics->level() == StatsLevel::kLatencies) AddLatencies(*statistics, &families);
  AddProperties(db_, &families);
  return families.Take();
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace dlsm
