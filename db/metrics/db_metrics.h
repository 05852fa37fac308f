// What a database tells Prometheus, by its public interface.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "dLSM/db.h"

namespace dlsm {

class DbMetrics final : public prometheus::Collectable {
 public:
  // `db` outlives this.
  explicit DbMetrics(DB* db) : db_(db) {}

  // Returns none where there is no memory for them: Prometheus asks again at its next scrape.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  DB* const db_;
};

}  // namespace dlsm
