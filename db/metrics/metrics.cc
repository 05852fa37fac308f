#include "dLSM/metrics.h"

#include <utility>

#include "dLSM/db.h"
#include "dLSM/statistics.h"
#include "db/metrics/db_metrics.h"
#include "util/metrics/metrics_endpoint.h"
#include "util/null_argument.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

class EndpointOfDatabase final : public Metrics {
 public:
  explicit EndpointOfDatabase(std::unique_ptr<MetricsEndpoint> endpoint)
      : endpoint_(std::move(endpoint)) {}
  int port() const override { return endpoint_->port(); }

 private:
  const std::unique_ptr<MetricsEndpoint> endpoint_;
};

}  // namespace

Status StartMetrics(DB* db, const MetricsOptions& options, std::unique_ptr<Metrics>* metrics) {
  if (db == nullptr) return NullArgument("db");
  if (metrics == nullptr) return NullArgument("metrics");
  std::unique_ptr<MetricsEndpoint> endpoint;
  DLSM_RETURN_IF_ERROR(MetricsEndpoint::Start(options.bind, options.port,
                                              {std::make_shared<DbMetrics>(db)}, &endpoint));
  if (options.latencies) db->GetStatistics()->SetLevel(StatsLevel::kLatencies);
  *metrics = std::make_unique<EndpointOfDatabase>(std::move(endpoint));
  return Status::OK();
}

}  // namespace dlsm
