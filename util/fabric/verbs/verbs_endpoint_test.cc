// What an end of a queue pair asks of its device, over one that is not there.
#include "util/fabric/verbs/verbs_endpoint.h"

#include <gtest/gtest.h>

#include <memory>

#include "util/fabric/verbs/verbs_fake_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

class VerbsEndpointTest : public testing::Test {
 protected:
  // An end that talks to one which asks for, or grants, `peer_reads`.
  void Connect(VerbsEndpoint::Role role, uint8_t peer_reads, VerbsEnd* own) {
    std::shared_ptr<const VerbsDevice> device;
    std::shared_ptr<const VerbsDomain> domain;
    ASSERT_OK(fake_.Open({}, &device));
    ASSERT_OK(VerbsDomain::Create(device, &domain));
    ASSERT_OK(VerbsEndpoint::Create(domain, role, &endpoint_));
    VerbsEnd peer;
    peer.reads_at_once = peer_reads;
    peer.mtu = 5;
    peer.gid_type = GidType::kRoceV2;
    peer.gid[10] = peer.gid[11] = 0xff;
    ASSERT_OK(endpoint_->Describe(peer, {}, own));
    fake_.modified.clear();
    ASSERT_OK(endpoint_->Connect(peer));
  }
  // With what it came into that state.
  ibv_qp_attr In(ibv_qp_state state) const {
    for (const ibv_qp_attr& each : fake_.modified) {
      if (each.qp_state == state) return each;
    }
    ADD_FAILURE() << "it never came into state " << state;
    return {};
  }

  FakeVerbs fake_;
  std::unique_ptr<VerbsEndpoint> endpoint_;
};

// Fails if a device is asked to answer more reads than it can, which it refuses: one that sends
// more reads at once than it answers could not be used at all.
TEST_F(VerbsEndpointTest, NoDeviceIsAskedForMoreReadsThanItCan) {
  fake_.attributes.max_qp_init_rd_atom = 16;
  fake_.attributes.max_qp_rd_atom = 4;
  VerbsEnd own;
  Connect(VerbsEndpoint::Role::kClient, 16, &own);
  EXPECT_EQ(own.reads_at_once, 16u) << "what it sends";
  EXPECT_EQ(In(IBV_QPS_RTR).max_dest_rd_atomic, 1u) << "it answers none";
  EXPECT_EQ(In(IBV_QPS_RTS).max_rd_atomic, 16u);
  Connect(VerbsEndpoint::Role::kServer, 16, &own);
  EXPECT_EQ(own.reads_at_once, 4u);
  EXPECT_EQ(In(IBV_QPS_RTR).max_dest_rd_atomic, 4u);
  Connect(VerbsEndpoint::Role::kPeer, 16, &own);
  EXPECT_EQ(In(IBV_QPS_RTR).max_dest_rd_atomic, 4u);
  EXPECT_LE(In(IBV_QPS_RTS).max_rd_atomic, 4u);
}

}  // namespace
}  // namespace dlsm
