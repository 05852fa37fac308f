// Calls over the simulated network, as over a TCP connection: in order, each way with delays, and
// gone with the connection. What a call did whose connection broke, its caller does not know.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "benchmarks/simulation/simulated_network.h"
#include "dLSM/status.h"
#include "port/thread.h"
#include "util/rpc/call_ledger.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/node_connection.h"

namespace dlsm::simulation {

// A control connection. Each end sees for itself, and at its own time, that it is broken.
class ControlLink : public std::enable_shared_from_this<ControlLink> {
 public:
  ControlLink(SimulatedNetwork* network, std::shared_ptr<SimulatedHost> host, RpcPeer peer)
      : network_(network), host_(std::move(host)), peer_(std::move(peer)) {}

  const RpcPeer& peer() const { return peer_; }
  const SimulatedHost* host() const { return host_.get(); }
  bool failed() const { return client_broken_; }

  // The client's end.
  Status Call(Method method, const Slice& request, std::string* reply, Deadline deadline);
  // Breaks it; the other end learns of it after `client`, `server`.
  void Break(std::chrono::nanoseconds client, std::chrono::nanoseconds server);
  // The memory node's process has died: from now on it neither takes calls nor answers.
  void EndServing();

  // The memory node's end: hands calls to `handler`, one after the other, until it is broken.
  void Serve(RpcHandler* handler);

 private:
  struct PendingCall {
    bool done = false;
    Status status;
    std::string reply;
  };
  struct Message {
    Method method{};
    std::string request;
    std::shared_ptr<PendingCall> call;
  };

  void Answer(const std::shared_ptr<PendingCall>& call, const Status& status, std::string reply);
  // Messages of one direction do not overtake each other.
  // Whether the message is lost, and with it all that come after it.
  bool Loses();
  port::Scheduler::TimePoint Arrival(port::Scheduler::TimePoint* last);

  SimulatedNetwork* const network_;
  const std::shared_ptr<SimulatedHost> host_;
  const RpcPeer peer_;
  bool client_broken_ = false;
  bool server_broken_ = false;
  bool silent_ = false;  // Nothing arrives any more, which neither end knows yet.
  std::deque<Message> inbox_;
  port::Scheduler::TimePoint last_request_{};
  port::Scheduler::TimePoint last_reply_{};
};

// Where control connections end.
class ControlServer {
 public:
  virtual ~ControlServer() = default;
  // A new connection of a client that shows `token`; *info is what the hello tells. IOError while
  // nobody listens.
  virtual Status Accept(const std::shared_ptr<SimulatedHost>& host, const std::string& client_name,
                        const std::string& token, std::shared_ptr<ControlLink>* link,
                        FabricPeer* info) = 0;
};

class SimulatedRpcClient final : public RpcClient {
 public:
  SimulatedRpcClient(SimulatedNetwork* network, ControlServer* server,
                     std::shared_ptr<SimulatedHost> host, std::string client_name,
                     std::shared_ptr<ControlLink> link, const FabricPeer& peer);
  ~SimulatedRpcClient() override;

  Status Call(Method method, const Slice& request, std::string* reply, Deadline deadline) override;
  CallTotals Totals() const override { return ledger_.Totals(); }
  Status lost() override { return lost_; }
  bool WhenDisconnected(std::function<void()> told) override;

 private:
  void Watch(const std::function<void()>& told);
  Status WorkingLink(Deadline deadline, std::shared_ptr<ControlLink>* link);
  Status Reconnect(Deadline deadline);

  SimulatedNetwork* const network_;
  ControlServer* const server_;
  const std::shared_ptr<SimulatedHost> host_;
  const std::string client_name_;
  const ContentsId contents_;
  const BootId boot_;
  std::string token_;  // As given at the last hello.
  CallLedger ledger_;
  bool connecting_ = false;
  std::shared_ptr<ControlLink> link_;
  Status lost_;
  bool watching_ = false;
  port::Thread watcher_;
};

}  // namespace dlsm::simulation
