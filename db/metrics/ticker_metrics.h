// The counters of a Statistics as Prometheus has them.
#pragma once

#include "dLSM/statistics.h"
#include "util/metrics/metric_families.h"

namespace dlsm {

// All tickers, each once. Those that say the same of several causes or places share a name.
void AddTickers(const Statistics& statistics, MetricFamilies* families);

}  // namespace dlsm
