// Opens a database on the memory node inside this process and has Prometheus find its metrics.
#include <iostream>
#include <memory>

#include "dLSM/db.h"
#include "dLSM/metrics.h"

int main() {
  dlsm::Options options;
  options.create_if_missing = true;
  std::unique_ptr<dlsm::DB> db;
  dlsm::Status status = dlsm::DB::Open(options, "sample", &db);
  std::unique_ptr<dlsm::Metrics> metrics;  // Ends before the database.
  if (status.ok()) status = dlsm::StartMetrics(db.get(), dlsm::MetricsOptions(), &metrics);
  if (status.ok()) status = db->Put(dlsm::WriteOptions(), "apple", "red");
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    return 1;
  }
  std::cout << (metrics->port() > 0 ? "metrics are served" : "no port") << "\n";
  return 0;
}
