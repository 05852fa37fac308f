// A memory node and a client of it, over whatever RDMA device there is.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/status_testing.h"

namespace dlsm {

// Skips its tests where there is none.
class VerbsTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = (uint64_t{8} << 20) + 4096 + 24;

  void SetUp() override {
    const std::string why_not = TestMemoryNode::WhyNot(FabricKind::kVerbs);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    Start(kBytes, TestVerbsOptions(), TestVerbsOptions());
  }

  void Start(uint64_t bytes, std::shared_ptr<const VerbsDevice> device) {
    connection_.reset();
    node_ = std::make_unique<TestMemoryNode>(bytes, std::move(device));
    connection_ = ConnectAs(node_->token());
  }
  void Start(uint64_t bytes, const VerbsOptions& server, const VerbsOptions& client) {
    connection_.reset();
    node_ = std::make_unique<TestMemoryNode>(FabricKind::kVerbs, bytes, server);
    connection_ = ConnectAs(node_->token(), client);
  }
  std::unique_ptr<VerbsConnection> ConnectAs(const std::string& token,
                                             const VerbsOptions& options = TestVerbsOptions()) {
    FabricPeer peer = node_->Peer();
    peer.data_token = token;
    std::unique_ptr<FabricConnection> made;
    EXPECT_OK(VerbsConnection::Connect(options, kNoNumaNode, peer, &made));
    return std::unique_ptr<VerbsConnection>(static_cast<VerbsConnection*>(made.release()));
  }
  std::unique_ptr<QueuePair> NewQueuePair(VerbsConnection& connection) {
    std::unique_ptr<QueuePair> made;
    EXPECT_OK(connection.NewQueuePair(Soon(), &made));
    return made;
  }
  std::unique_ptr<QueuePair> NewQueuePair() { return NewQueuePair(*connection_); }
  RegisteredBuffer NewBuffer(size_t bytes) {
    RegisteredBuffer buffer;
    EXPECT_OK(connection_->NewBuffer(bytes, &buffer));
    return buffer;
  }

  static bool connects_by_manager() {
    std::shared_ptr<const VerbsDevice> device;
    EXPECT_OK(VerbsDevice::Open(TestVerbsOptions(), &device));
    return device->connects_by_manager();
  }

  // Reads a few bytes.
  Status Touch(QueuePair& queue_pair, Deadline deadline = Soon()) {
    std::string bytes(64, '\0');
    Ticket ticket{};
    const LocalSpan to{bytes.data(), bytes.size(), 0};
    const Status status =
        queue_pair.PostRead(node_->Span(0, bytes.size()), to, Purpose::kRead, &ticket);
    return status.ok() ? queue_pair.Wait(ticket, deadline) : status;
  }

  std::unique_ptr<TestMemoryNode> node_;
  std::unique_ptr<VerbsConnection> connection_;
};

}  // namespace dlsm
