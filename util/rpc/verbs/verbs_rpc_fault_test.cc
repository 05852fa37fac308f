// A peer of the verbs transport that posts no receive buffers: the device answers "receiver not
// ready" for it. Needs an RDMA device; skipped without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "util/fabric/factory/fabric_factory.h"
#include "util/rpc/channel/server_transport.h"
#include "util/rpc/rpc_client.h"
#include "util/rpc/rpc_server.h"
#include "util/rpc/verbs/transport_messages.h"
#include "util/rpc/verbs/verbs_rpc_link.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class VerbsRpcFaultTest : public testing::Test {
 protected:
  void SetUp() override {
    const Status status = CheckVerbsDevice({});
    if (!status.ok()) GTEST_SKIP() << status.message().ToStringView();
  }
};

// Two links of this process.
struct Pair {
  explicit Pair(const VerbsOptions& options) {
    std::shared_ptr<const VerbsDevice> device;
    EXPECT_OK(VerbsDevice::Open(options, &device));
    EXPECT_OK(VerbsRpcLink::Create(device, 4, &near));
    EXPECT_OK(VerbsRpcLink::Create(device, 4, &far));
    VerbsEnd near_end, far_end;
    EXPECT_OK(near->endpoint().Describe({}, {}, &near_end));
    EXPECT_OK(far->endpoint().Describe(near_end, {}, &far_end));
    EXPECT_OK(far->endpoint().Connect(near_end));
    EXPECT_OK(near->endpoint().Connect(far_end));
  }

  Status Send() {
    text = "hello";
    ibv_sge piece{reinterpret_cast<uintptr_t>(text.data()), static_cast<uint32_t>(text.size()), 0};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_INLINE;
    return near->Post(&request, 1, [this] { done = true; });
  }
  // Until the send is done, or has failed, or so long.
  Status Await(milliseconds most) {
    const Deadline deadline = Deadline::In(most);
    std::vector<VerbsRpcLink::Received> received;
    while (!done && !deadline.Passed()) {
      bool progress = false;
      const Status status = near->Poll(&received, &progress);
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  std::unique_ptr<VerbsRpcLink> near, far;
  std::string text;
  bool done = false;
};

// Fails if a receiver that is never ready is waited for without bound where a bound was asked for.
TEST_F(VerbsRpcFaultTest, AReceiverThatIsNeverReady) {
  VerbsOptions options;
  options.rnr_retries = 2;
  options.rnr_timer = 1;
  Pair pair(options);
  ASSERT_OK(pair.Send());
  const Status status = pair.Await(seconds(20));
  EXPECT_FALSE(pair.done);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("RNR"));
}

// Fails if a receiver that is late is taken for one that is dead: 7 stands for "for ever".
TEST_F(VerbsRpcFaultTest, AReceiverThatIsLate) {
  Pair pair({});
  ASSERT_OK(pair.Send());
  EXPECT_OK(pair.Await(milliseconds(500)));
  EXPECT_FALSE(pair.done);
  std::shared_ptr<RpcMemory> memory;
  ASSERT_OK(RpcMemory::Make(pair.far->domain(), 4096, IBV_ACCESS_LOCAL_WRITE, &memory));
  ASSERT_OK(pair.far->PostReceive(1, memory->data(), 4096, memory->registration->lkey));
  EXPECT_OK(pair.Await(seconds(20)));
  EXPECT_TRUE(pair.done);
  EXPECT_STREQ(memory->data(), "hello");
}

// A memory node whose end takes nothing.
class DeafTransport : public ServerTransport {
 public:
  static Status Make(const Slice& bytes, std::shared_ptr<ServerTransport>* transport,
                     std::string* answer) {
    TransportOffer offer;
    TransportAnswer made;
    std::shared_ptr<const VerbsDevice> device;
    auto deaf = std::make_shared<DeafTransport>();
    EXPECT_OK(offer.Decode(bytes));
    EXPECT_OK(VerbsDevice::Open({}, &device));
    EXPECT_OK(VerbsRpcLink::Create(device, 4, &deaf->link_));
    EXPECT_OK(deaf->link_->endpoint().Describe(offer.end, {}, &made.end));
    EXPECT_OK(deaf->link_->endpoint().Connect(offer.end));
    made.request_bytes_max = 2048;
    *answer = made.Encode();
    *transport = std::move(deaf);
    return Status::OK();
  }

  Status Poll(bool* progress) override {
    *progress = false;
    return Status::OK();
  }
  Status PrepareToSleep(bool* ready) override {
    *ready = true;
    return Status::OK();
  }
  int events() const override { return link_->events(); }
  void TakeEvent() override { link_->TakeEvent(); }
  void End() override { link_.reset(); }
  RpcCounts counts() override { return {}; }

 private:
  std::unique_ptr<VerbsRpcLink> link_;
};

class NoHandler : public RpcHandler {
 public:
  void Handle(const RpcPeer&, Method, const Slice&, RpcDone done) override {
    done(Status::NotSupported("nothing"), "");
  }
  void Disconnected(const RpcPeer&) override {}
};

// Fails if calls to a memory node that takes none do not end at their deadlines, or fill up the
// client: calls that were given up hold their places until the channel is made anew.
TEST_F(VerbsRpcFaultTest, CallsToAMemoryNodeThatTakesNoneEnd) {
  NoHandler handler;
  RpcServerOptions options;
  options.regions = {{RegionId{0}, 4096, ""}};
  options.transports = [](const ServerTransportContext&, const Slice& offer,
                          std::shared_ptr<ServerTransport>* transport, std::string* answer) {
    return DeafTransport::Make(offer, transport, answer);
  };
  std::unique_ptr<RpcServer> server;
  ASSERT_OK(RpcServer::Start(options, &handler, &server));
  for (const int rnr_retries : {7, 2}) {
    RpcTransportOptions transport;
    transport.kind = RpcTransport::kVerbs;
    transport.verbs.rnr_retries = rnr_retries;
    transport.verbs.rnr_timer = 1;
    NodeInfo info;
    std::unique_ptr<NodeRpcClient> client;
    ASSERT_OK(NodeRpcClient::Connect({"127.0.0.1", server->port()}, "", "tester",
                                     Deadline::In(seconds(20)), &info, &client, transport));
    for (int i = 0; i < 60; ++i) {
      const auto start = Deadline::Clock::now();
      std::string reply;
      const Status status =
          client->Call(Method::kGrant, "x", &reply, Deadline::In(milliseconds(20)));
      EXPECT_LT(Deadline::Clock::now() - start, seconds(5));
      EXPECT_TRUE(status.IsTimedOut() || status.IsIOError()) << status.ToString();
      EXPECT_THAT(status.ToString(), HasSubstr("memory node 127.0.0.1"));
      if (i == 0) std::printf("rnr_retries %d: %s\n", rnr_retries, status.ToString().c_str());
    }
  }
}

}  // namespace
}  // namespace dlsm
