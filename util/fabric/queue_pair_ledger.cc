#include "util/fabric/queue_pair_ledger.h"

#include <algorithm>

namespace dlsm {
namespace {

void AddTo(WireTotals* sum, const WireTotals& more) {
  for (size_t i = 0; i < kPurposeCount; ++i) (*sum)[i] += more[i];
}

}  // namespace

void WireCostRegistry::Add(const WireCost* cost) {
  port::MutexLock lock(mutex_);
  live_.push_back(cost);
}

void WireCostRegistry::Retire(const WireCost* cost) {
  port::MutexLock lock(mutex_);
  const auto found = std::find(live_.begin(), live_.end(), cost);
  assert(found != live_.end());
  live_.erase(found);
  AddTo(&retired_, cost->Totals());
}

WireTotals WireCostRegistry::Totals() const {
  port::MutexLock lock(mutex_);
  WireTotals sum = retired_;
  for (const WireCost* cost : live_) AddTo(&sum, cost->Totals());
  return sum;
}

}  // namespace dlsm
