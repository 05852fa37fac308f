#include "benchmarks/simulation/simulated_rpc.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "port/clock.h"
#include "port/thread.h"
#include "util/rpc/auth/frame.h"
#include "util/status_macros.h"

namespace dlsm::simulation {
namespace {

// As soon as a real client hears of a connection's end.
constexpr auto kLooksForEnds = std::chrono::milliseconds(50);

}  // namespace

// -------- The connection

port::Scheduler::TimePoint ControlLink::Arrival(port::Scheduler::TimePoint* last) {
  *last = std::max(*last, network_->scheduler().now() + network_->Delay());
  return *last;
}

bool ControlLink::Loses() {
  if (!silent_ && network_->Loses()) {
    silent_ = true;
    const std::chrono::nanoseconds noticed(network_->random().Uniform(1'000'000'000));
    Break(noticed, 2 * noticed);
  }
  return silent_;
}

Status ControlLink::Call(Method method, const Slice& request, std::string* reply,
                         Deadline deadline) {
  SimulatedScheduler& scheduler = network_->scheduler();
  if (network_->Resets()) Break(network_->Delay(), network_->Delay());
  auto call = std::make_shared<PendingCall>();
  if (!Loses()) {
    scheduler.At(
        Arrival(&last_request_),
        [self = shared_from_this(), message = Message{method, request.ToString(), call}]() mutable {
          if (self->server_broken_) return;
          self->inbox_.push_back(std::move(message));
          self->network_->scheduler().Signal(&self->inbox_, /*all=*/true);
        });
  }
  while (!call->done && !client_broken_) {
    if (deadline.Passed()) return Status::TimedOut("the memory node did not answer a call in time");
    static_cast<void>(scheduler.Await(this, deadline.time_point()));
  }
  if (!call->done) return Status::IOError("the control connection to the memory node is lost");
  if (call->status.ok()) *reply = std::move(call->reply);
  return call->status;
}

void ControlLink::Break(std::chrono::nanoseconds client, std::chrono::nanoseconds server) {
  SimulatedScheduler& scheduler = network_->scheduler();
  scheduler.At(scheduler.now() + client, [self = shared_from_this()] {
    self->client_broken_ = true;
    self->network_->scheduler().Signal(self.get(), /*all=*/true);
  });
  scheduler.At(scheduler.now() + server, [self = shared_from_this()] {
    self->server_broken_ = true;
    self->network_->scheduler().Signal(&self->inbox_, /*all=*/true);
  });
}

void ControlLink::EndServing() {
  server_broken_ = true;
  network_->scheduler().Signal(&inbox_, /*all=*/true);
}

void ControlLink::Answer(const std::shared_ptr<PendingCall>& call, const Status& status,
                         std::string reply) {
  // What is lost on the way nobody can look at.
  status.PermitUncheckedError();
  if (server_broken_ || Loses()) return;
  network_->scheduler().At(Arrival(&last_reply_),
                           [self = shared_from_this(), call, status, reply = std::move(reply)] {
                             status.PermitUncheckedError();
                             if (self->client_broken_) return;
                             call->done = true;
                             call->status = status;
                             call->reply = reply;
                             self->network_->scheduler().Signal(self.get(), /*all=*/true);
                           });
}

void ControlLink::Serve(RpcHandler* handler) {
  for (;;) {
    while (inbox_.empty() && !server_broken_) {
      static_cast<void>(network_->scheduler().Await(&inbox_, port::Scheduler::TimePoint::max()));
    }
    if (server_broken_) break;
    const Message message = std::move(inbox_.front());
    inbox_.pop_front();
    handler->Handle(
        peer_, message.method, message.request,
        [self = shared_from_this(), call = message.call](const Status& status, std::string reply) {
          self->Answer(call, status, std::move(reply));
        });
  }
  handler->Disconnected(peer_);
}

// -------- The client

SimulatedRpcClient::SimulatedRpcClient(SimulatedNetwork* network, ControlServer* server,
                                       std::shared_ptr<SimulatedHost> host, std::string client_name,
                                       std::shared_ptr<ControlLink> link, const FabricPeer& peer)
    : network_(network),
      server_(server),
      host_(std::move(host)),
      client_name_(std::move(client_name)),
      contents_(peer.contents),
      boot_(peer.boot),
      token_(peer.data_token),
      link_(std::move(link)) {}

SimulatedRpcClient::~SimulatedRpcClient() {
  WhenDisconnected({});
  link_->Break({}, network_->Delay());
}

bool SimulatedRpcClient::WhenDisconnected(std::function<void()> told) {
  watching_ = false;
  if (watcher_.joinable()) watcher_.join();
  if (!told) return true;
  watching_ = true;
  watcher_ = port::Thread([this, told = std::move(told)] { Watch(told); });
  return true;
}

// What happens in the scheduler's name may not call others.
void SimulatedRpcClient::Watch(const std::function<void()>& told) {
  std::shared_ptr<ControlLink> ended;  // Of which it was told.
  while (watching_) {
    if (link_->failed() && link_ != ended) {
      ended = link_;
      told();
    }
    port::SleepFor(kLooksForEnds);
  }
}

Status SimulatedRpcClient::Call(Method method, const Slice& request, std::string* reply,
                                Deadline deadline) {
  std::shared_ptr<ControlLink> link;
  DLSM_RETURN_IF_ERROR(WorkingLink(deadline, &link));
  ledger_.Add(method, kFrameHeaderBytes + request.size());
  const Status status = link->Call(method, request, reply, deadline);
  if (status.ok()) {
    ledger_.AddReply(method, kFrameHeaderBytes + reply->size());
  } else {
    ledger_.AddFailure(method);
  }
  return status;
}

Status SimulatedRpcClient::WorkingLink(Deadline deadline, std::shared_ptr<ControlLink>* link) {
  while (connecting_) {
    if (deadline.Passed()) return Status::TimedOut("the memory node cannot be reached");
    static_cast<void>(network_->scheduler().Await(&connecting_, deadline.time_point()));
  }
  DLSM_RETURN_IF_ERROR(lost_);
  if (link_->failed()) {
    connecting_ = true;
    const Status status = Reconnect(deadline);
    connecting_ = false;
    network_->scheduler().Signal(&connecting_, /*all=*/true);
    DLSM_RETURN_IF_ERROR(status);
  }
  *link = link_;
  return Status::OK();
}

Status SimulatedRpcClient::Reconnect(Deadline deadline) {
  const auto answer = network_->scheduler().now() + network_->Delay() + network_->Delay();
  port::SleepUntil(std::min(answer, deadline.time_point()));
  if (answer > deadline.time_point()) return Status::TimedOut("no connection in time");
  std::shared_ptr<ControlLink> link;
  FabricPeer peer;
  DLSM_RETURN_IF_ERROR(server_->Accept(host_, client_name_, token_, &link, &peer));
  if (peer.boot != boot_) {
    link->Break({}, network_->Delay());
    lost_ = OtherBoot("the memory node", /*has_contents=*/peer.contents == contents_);
    return lost_;
  }
  token_ = std::move(peer.data_token);  // Another one where that shown was revoked meanwhile.
  link_ = std::move(link);
  return Status::OK();
}

}  // namespace dlsm::simulation
