// The memory node's end of verbs and ring over a device that is not there: what it posts, and when.
// That calls arrive is rpc_transport_test.cc's subject.
#include "util/rpc/verbs/verbs_rpc_server_transport.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "util/checksum.h"
#include "util/fabric/verbs/verbs_fake_testing.h"
#include "util/rpc/verbs/verbs_rpc_server.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

class KeepingHandler : public RpcHandler {
 public:
  void Handle(const RpcPeer&, Method, const Slice&, RpcDone done) override {
    calls.push_back(std::move(done));
  }
  void Disconnected(const RpcPeer&) override {}

  std::vector<RpcDone> calls;
};

class VerbsServerTransportTest : public testing::Test {
 protected:
  // Messages of `message_bytes_max` at most, of which the send queue takes `depth`.
  void Start(RpcTransport kind, int depth, uint32_t message_bytes_max) {
    fake_.attributes.max_qp_wr = depth;
    fake_.port.max_msg_sz = message_bytes_max;
    std::shared_ptr<const VerbsDevice> device;
    ASSERT_OK(fake_.Open({}, &device));
    TransportOffer offer;
    offer.transport = kind;
    offer.end.gid_type = GidType::kRoceV2;
    offer.end.mtu = 5;
    offer.end.reads_at_once = 1;
    offer.end.gid[10] = offer.end.gid[11] = 0xff;
    ServerTransportContext context;
    context.handler = &handler_;
    context.wake_up = [] {};
    std::string answer;
    transport_ = std::make_shared<VerbsServerTransport>(context, offer);
    ASSERT_OK(transport_->Start(device, &answer));
  }
  void TearDown() override {
    for (const RpcDone& done : handler_.calls) done(Status::OK(), "");
    if (transport_ != nullptr) transport_->End();
  }

  // A request whose payload, `bytes` of zeros, the memory node is to read.
  void SendLarge(uint16_t slot, uint32_t bytes) {
    RequestHead head;
    head.kind = RequestKind::kRemote;
    head.slot = slot;
    head.place_segments = 8;
    head.payload_address = 4096;
    FrameHeader frame;
    frame.method = Method::kGrant;
    frame.call = slot + 1;
    frame.payload_bytes = bytes;
    frame.payload_checksum = Crc32c(std::string(bytes, '\0'));
    char message[kRequestHeadBytes + kFrameHeaderBytes];
    head.EncodeTo(message);
    frame.Encode().copy(message + kRequestHeadBytes, kFrameHeaderBytes);
    fake_.Arrive(message, sizeof(message));
  }
  size_t reads() const {
    size_t count = 0;
    for (const FakeVerbs::Sent& each : fake_.sent) count += each.opcode == IBV_WR_RDMA_READ;
    return count;
  }
  // Until there is nothing to do.
  void Poll() {
    bool progress = true;
    while (progress) {
      progress = false;
      ASSERT_OK(transport_->Poll(&progress));
    }
  }

  FakeVerbs fake_;
  KeepingHandler handler_;
  std::shared_ptr<VerbsServerTransport> transport_;
};

// Fails if large requests that come together end the connection because the send queue is full for
// the moment, or if one of them is never read.
TEST_F(VerbsServerTransportTest, LargeRequestsWaitForTheSendQueue) {
  constexpr uint32_t kPart = 16 << 20;
  Start(RpcTransport::kVerbs, /*depth=*/8, kPart);
  fake_.completes = false;
  for (uint16_t slot = 0; slot < 12; ++slot) SendLarge(slot, 3 * kPart / 2);
  Poll();
  EXPECT_EQ(reads(), 8u) << "two parts each of four";
  bool ready = false;
  for (int i = 0; i < 3; ++i) ASSERT_OK(transport_->PrepareToSleep(&ready));
  EXPECT_TRUE(ready);
  EXPECT_TRUE(handler_.calls.empty());
  for (size_t answered = 4; answered <= 12; answered += 4) {
    fake_.Complete();
    Poll();
    EXPECT_EQ(handler_.calls.size(), answered);
  }
  EXPECT_EQ(reads(), 24u);
}

// Fails if the memory that requests are read into is not bounded, or if those beyond the bound end
// the connection.
TEST_F(VerbsServerTransportTest, LargeRequestsWaitForMemory) {
  constexpr uint32_t kBytes = kFramePayloadBytesMax;
  Start(RpcTransport::kVerbs, /*depth=*/64, 1u << 30);
  fake_.completes = false;
  for (uint16_t slot = 0; slot < 5; ++slot) SendLarge(slot, kBytes);
  Poll();
  EXPECT_EQ(reads(), 2u);
  for (const size_t answered : {2, 4, 5}) {
    fake_.Complete();
    Poll();
    EXPECT_EQ(handler_.calls.size(), answered);
  }
}

// Fails if a client can make the memory node keep as many requests as it likes.
TEST_F(VerbsServerTransportTest, NoMoreLargeRequestsThanSlotsWait) {
  Start(RpcTransport::kVerbs, /*depth=*/8, 64u << 20);
  fake_.completes = false;
  Status status;
  size_t sent = 0;
  for (; status.ok() && sent < 1000; ++sent) {
    SendLarge(static_cast<uint16_t>(sent % kRpcSlots), 1 << 20);
    bool progress = false;
    status = transport_->Poll(&progress);
  }
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  EXPECT_LE(sent, kRpcSlots + 9);
}

// Fails if the thread of a ring keeps a processor busy for ever because the send queue is short.
TEST_F(VerbsServerTransportTest, ARingWithAShortSendQueueSleeps) {
  Start(RpcTransport::kRing, /*depth=*/8, 64u << 20);
  fake_.Arrive(nullptr, 0);  // Somebody wakes it.
  bool ready = false;
  const Deadline deadline = Deadline::In(std::chrono::seconds(20));
  while (!ready && !deadline.Passed()) {
    Poll();
    ASSERT_OK(transport_->PrepareToSleep(&ready));
  }
  EXPECT_TRUE(ready);
  EXPECT_EQ(fake_.sent.size(), 2u) << "it was awake, and is asleep";
}

// Fails if the memory node writes to a client that has not sent anything: its queue pair need not
// be ready yet, and where the device does not try again (retries=0), the connection would be lost.
TEST_F(VerbsServerTransportTest, ARingWritesNothingBeforeItsFirstRequest) {
  Start(RpcTransport::kRing, /*depth=*/256, 64u << 20);
  bool ready = false;
  const Deadline long_enough = Deadline::In(10 * kRingIdle);
  const Deadline deadline = Deadline::In(std::chrono::seconds(20));
  while (!long_enough.Passed() || (!ready && !deadline.Passed())) {
    Poll();
    ASSERT_OK(transport_->PrepareToSleep(&ready));
  }
  EXPECT_TRUE(ready) << "and it keeps no processor busy";
  EXPECT_TRUE(fake_.sent.empty());
  fake_.Arrive(nullptr, 0);
  Poll();
  EXPECT_EQ(fake_.sent.size(), 1u) << "it is awake";
}

}  // namespace
}  // namespace dlsm
