// What every decorator of a fabric passes on.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "util/fabric/decorators/faulty_fabric.h"
#include "util/fabric/decorators/guarded_fabric.h"
#include "util/fabric/decorators/simulated_fabric.h"
#include "util/fabric/factory/late_fabric_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

class NoGuard final : public TransferGuard {
 public:
  Status Check() const override { return Status::OK(); }
};

// Fails if a decorator hides that a write may still land: memory would be given to others under it.
TEST(DecoratorsTest, TellWhatMayStillLand) {
  std::atomic<bool> may_land{true};
  std::unique_ptr<FabricConnection> fabric = std::make_unique<LateFabric>(may_land);
  fabric = GuardTransfers(std::make_shared<NoGuard>(), std::move(fabric));
  fabric = InjectFaults(std::make_shared<FaultInjector>(), std::move(fabric));
  fabric = SimulateNetwork(SimulatedNetwork{}, std::move(fabric));
  EXPECT_TRUE(fabric->MayStillLand());
  may_land = false;
  EXPECT_FALSE(fabric->MayStillLand());
}

}  // namespace
}  // namespace dlsm
