// What a link asks of its device. A real device is not needed.
#include "util/rpc/verbs/verbs_rpc_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "util/fabric/children_testing.h"
#include "util/fabric/verbs/verbs_fake_testing.h"
#include "util/rpc/verbs/rpc_ring.h"
#include "util/rpc/verbs/transport_messages.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

class VerbsRpcLinkTest : public testing::Test {
 protected:
  Status Make(const VerbsOptions& options) {
    link_.reset();
    std::shared_ptr<const VerbsDevice> device;
    const Status opened = fake_.Open(options, &device);
    return opened.ok() ? VerbsRpcLink::Create(device, 4, &link_) : opened;
  }
  // As many as there is room for, up to `most`, none of which anybody waits for.
  size_t PostSilently(size_t most) {
    size_t posted = 0;
    for (; posted < most && link_->HasRoom(1); ++posted) {
      ibv_send_wr request{};
      request.opcode = IBV_WR_RDMA_WRITE;
      EXPECT_OK(link_->Post(&request, 1, {}));
      std::vector<VerbsRpcLink::Received> received;
      bool progress = false;
      EXPECT_OK(link_->Poll(&received, &progress));
    }
    return posted;
  }

  FakeVerbs fake_;
  std::unique_ptr<VerbsRpcLink> link_;
};

// Fails if work requests that nobody waits for fill a short send queue for good: none of them would
// ask for a completion, and calls hang for ever.
TEST_F(VerbsRpcLinkTest, AShortSendQueueIsSignaledInTime) {
  for (const int depth : {2, 3, 8, 20, 64}) {
    SCOPED_TRACE(depth);
    fake_.attributes.max_qp_wr = depth;
    ASSERT_OK(Make({}));
    EXPECT_EQ(link_->endpoint().depth(), static_cast<uint32_t>(depth));
    EXPECT_EQ(PostSilently(200), 200u);
    // And the largest message has room whenever the device has nothing to do.
    EXPECT_TRUE(link_->HasRoom(link_->PartsOf(kReplySegmentsMax * kSegmentBytes)));
  }
}

// Fails if each work request of a long send queue costs a completion.
TEST_F(VerbsRpcLinkTest, ALongSendQueueIsSignaledSeldom) {
  ASSERT_OK(Make({}));
  EXPECT_EQ(PostSilently(160), 160u);
  EXPECT_EQ(link_->counts().completions, 10u);
}

// Fails if options for transfers make the send queue of calls so short, or their parts so small,
// that a large call does not fit in.
TEST_F(VerbsRpcLinkTest, CallsFitInWhateverTheOptionsSay) {
  VerbsOptions options;
  options.send_queue_depth = 8;
  options.message_bytes_max = 4096;
  ASSERT_OK(Make(options));
  EXPECT_GE(link_->endpoint().depth(), 64u);
  const size_t parts = link_->PartsOf(kReplySegmentsMax * kSegmentBytes);
  EXPECT_GT(parts, 1u);
  EXPECT_LE(parts, link_->endpoint().depth() / 2);
  options.send_queue_depth = 1000;
  options.message_bytes_max = uint64_t{2} << 20;
  ASSERT_OK(Make(options));
  EXPECT_EQ(link_->endpoint().depth(), 1000u);
  EXPECT_EQ(link_->message_bytes_max(), uint64_t{2} << 20);
}

// Fails if a device that can never carry a large call is found out by a call that hangs.
TEST_F(VerbsRpcLinkTest, ADeviceThatTakesTooLittleIsRefused) {
  fake_.attributes.max_qp_wr = 8;
  fake_.port.max_msg_sz = 1 << 20;
  const Status status = Make({});
  EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("rpc_transport=tcp"));
}

// Fails if a process that forks may have its device write where nobody reads any more.
TEST_F(VerbsRpcLinkTest, NoChildHasItsMemory) {
  ASSERT_OK(Make({}));
  std::shared_ptr<RpcMemory> memory;
  ASSERT_OK(RpcMemory::Make(link_->domain(), 4096, IBV_ACCESS_LOCAL_WRITE, &memory));
  EXPECT_TRUE(IsKeptFromChildren(memory->data()));
}

// Fails if there are fewer completions than a device takes together with the receives.
TEST_F(VerbsRpcLinkTest, ReceivesHaveCompletionsToo) {
  fake_.attributes.max_cqe = 20;
  ASSERT_OK(Make({}));
  EXPECT_EQ(link_->endpoint().depth(), 16u);
}

}  // namespace
}  // namespace dlsm
