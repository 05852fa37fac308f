// A fabric in whose closed queue pairs requests may still be under way, for as long as a test says
// so. It carries nothing.
#pragma once

#include <atomic>
#include <memory>

#include "util/fabric/fabric.h"

namespace dlsm {

class LateFabric final : public FabricConnection {
 public:
  // Outlives this.
  explicit LateFabric(const std::atomic<bool>& may_land) : may_land_(may_land) {}

  FabricKind kind() const override { return FabricKind::kVerbs; }
  Status NewQueuePair(Deadline /*deadline*/, std::unique_ptr<QueuePair>* /*made*/) override {
    return Status::NotSupported("this fabric carries nothing");
  }
  Status NewBuffer(size_t /*bytes*/, RegisteredBuffer* /*buffer*/) override {
    return Status::NotSupported("this fabric carries nothing");
  }
  WireTotals Totals() const override { return {}; }
  bool MayStillLand() const override { return may_land_; }

 private:
  const std::atomic<bool>& may_land_;
};

}  // namespace dlsm
