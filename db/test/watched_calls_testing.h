// Memory nodes that are reached over tcp, or over another fabric if a test wants that, by a client
// whose calls a test hears of before they are sent, and may have fail instead, or answered
// otherwise; and of whose writes it may say that they are under way still.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm {

// Thread-safe, if the watch and the way are.
class WatchedConnector final : public NodeConnector {
 public:
  // Called with the memory node's port, on the thread of the call. Not OK: that is the answer, and
  // nothing is sent.
  using Watch = std::function<Status(uint16_t port, Method method, const Slice& request)>;

  // Sends a call and waits for its answer.
  using Send = std::function<Status(std::string* reply, Deadline deadline)>;
  // Called for each call that the watch lets pass: what it returns, with *reply, is the answer.
  using Way =
      std::function<Status(Method method, const Send& send, std::string* reply, Deadline deadline)>;

  // `may_still_land`: what FabricConnection::MayStillLand() returns. Empty: the same as over tcp.
  explicit WatchedConnector(
      Watch watch, std::function<bool()> may_still_land = {},
      Way way = [](Method, const Send& send, std::string* reply,
                   Deadline deadline) { return send(reply, deadline); })
      : watch_(std::move(watch)),
        may_still_land_(std::move(may_still_land)),
        way_(std::move(way)) {}

  // Instead of tcp; before the first connection is made.
  void GoOver(FabricKind kind) { kind_ = kind; }

  Status Connect(const NodeAddress& address, const NodeConnectionOptions& options,
                 Deadline deadline, std::unique_ptr<NodeConnection>* connection) override {
    NodeConnectionOptions over = options;
    over.fabric.kind = kind_;
    std::unique_ptr<NodeConnection> made;
    DLSM_RETURN_IF_ERROR(ConnectNode(address, over, deadline, &made));
    const std::shared_ptr<NodeConnection> inner = std::move(made);
    *connection = std::make_unique<NodeConnection>(
        std::make_unique<Client>(inner, address.port, watch_, way_), inner->peer(),
        std::make_unique<Fabric>(inner, may_still_land_));
    return Status::OK();
  }

 private:
  class Client final : public RpcClient {
   public:
    Client(std::shared_ptr<NodeConnection> inner, uint16_t port, Watch watch, Way way)
        : inner_(std::move(inner)), port_(port), watch_(std::move(watch)), way_(std::move(way)) {}

    Status Call(Method method, const Slice& request, std::string* reply,
                Deadline deadline) override {
      DLSM_RETURN_IF_ERROR(watch_(port_, method, request));
      const Send send = [&](std::string* answer, Deadline until) {
        return inner_->rpc().Call(method, request, answer, until);
      };
      return way_(method, send, reply, deadline);
    }
    CallTotals Totals() const override { return inner_->rpc().Totals(); }
    Status lost() override { return inner_->rpc().lost(); }

   private:
    const std::shared_ptr<NodeConnection> inner_;
    const uint16_t port_;
    const Watch watch_;
    const Way way_;
  };

  class Fabric final : public FabricConnection {
   public:
    Fabric(std::shared_ptr<NodeConnection> inner, std::function<bool()> may_still_land)
        : inner_(std::move(inner)), may_still_land_(std::move(may_still_land)) {}

    FabricKind kind() const override { return inner_->fabric().kind(); }
    Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override {
      return inner_->fabric().NewQueuePair(deadline, queue_pair);
    }
    Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
      return inner_->fabric().NewBuffer(bytes, buffer);
    }
    bool MayStillLand() const override {
      return may_still_land_ ? may_still_land_() : inner_->fabric().MayStillLand();
    }
    WireTotals Totals() const override { return inner_->fabric().Totals(); }

   private:
    const std::shared_ptr<NodeConnection> inner_;
    const std::function<bool()> may_still_land_;
  };

  const Watch watch_;
  const std::function<bool()> may_still_land_;
  const Way way_;
  FabricKind kind_ = FabricKind::kTcp;
};

}  // namespace dlsm
