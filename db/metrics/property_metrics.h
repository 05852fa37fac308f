// What the properties of a database tell, as Prometheus has it.
#pragma once

#include "dLSM/db.h"
#include "util/metrics/metric_families.h"

namespace dlsm {

// Calls no memory node but one inside this process: a scrape waits for no network. What the handle
// does not tell, as a follower does not tell of stalls, is left out.
void AddProperties(DB* db, MetricFamilies* families);

}  // namespace dlsm
