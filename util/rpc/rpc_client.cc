#include "util/rpc/rpc_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "port/clock.h"
#include "util/fabric/tls/tls_context.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/auth/frame.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/auth/socket_channel.h"
#include "util/rpc/channel/rpc_channel.h"
#include "util/rpc/verbs/verbs_rpc_channel.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Between two tries while nobody listens: doubled from the first to the last.
constexpr auto kRetryDelayMin = std::chrono::milliseconds(10);
constexpr auto kRetryDelayMax = std::chrono::milliseconds(200);

Status CannotReach(const std::string& where, const Status& why) {
  return Status::IOError(fmt::format("cannot reach memory node {}: {}; is Server running there?",
                                     where, why.message().ToStringView()));
}

}  // namespace

Status NodeRpcClient::ConnectAndHello(bool patient, Deadline deadline, ControlStream* control,
                                      NodeInfo* info) const {
  const std::string& host = reached_host_.empty() ? address_.host : reached_host_;
  std::chrono::nanoseconds delay = kRetryDelayMin;
  Socket socket;
  Status refusal;
  for (;;) {
    ConnectFailure failure{};
    const Status status = ConnectSocket(host, address_.port, deadline, &socket, &failure);
    if (status.ok()) break;
    if (failure == ConnectFailure::kOwnLimit) {
      return Status::IOError("cannot reach memory node " + where_, status.message());
    }
    // The last try may have had no time for an answer; those before say more.
    if (failure != ConnectFailure::kRefused)
      return CannotReach(where_, refusal.ok() ? status : refusal);
    if (!patient || deadline.Passed()) return CannotReach(where_, status);
    refusal = status;
    port::SleepFor(std::min(delay, deadline.Remaining()));
    delay = std::min<std::chrono::nanoseconds>(delay * 2, kRetryDelayMax);
  }
  control->stream = TcpStream(std::move(socket));
  if (tls_ != nullptr) {
    DLSM_RETURN_IF_ERROR(tls_->Connect(control->stream, address_.host, where_, deadline));
  }
  FrameKeys keys;
  const Status hello = ClientHello(control->stream, where_, identity_, deadline, info, &keys);
  if (hello.IsTimedOut()) {
    return Status::TimedOut(fmt::format(
        "memory node {} takes a connection and does not answer the hello; is it overloaded?",
        where_));
  }
  DLSM_RETURN_IF_ERROR(hello);
  return control->seals.MakeForClient(keys);
}

Status NodeRpcClient::Connect(const NodeAddress& address, const Credentials& credentials,
                              const std::string& client_name, Deadline deadline, NodeInfo* info,
                              std::unique_ptr<NodeRpcClient>* client,
                              const RpcTransportOptions& transport) {
  ClientIdentity identity;
  identity.secret = credentials.secret;
  identity.access_name = credentials.access_name;
  identity.name = client_name;
  std::unique_ptr<NodeRpcClient> made(
      new NodeRpcClient(address, std::move(identity), credentials.tls, transport));
  ControlStream control;
  DLSM_RETURN_IF_ERROR(made->ConnectAndHello(/*patient=*/true, deadline, &control, info));
  made->reached_host_ = PeerHost(control.stream.get());
  made->identity_.data_token = info->data_token;
  made->identity_.boot = info->boot;
  made->contents_ = info->contents;
  {
    std::shared_ptr<RpcChannel> channel;
    DLSM_RETURN_IF_ERROR(made->MakeChannel(std::move(control), deadline, &channel));
    const port::MutexLock lock(made->mutex_);
    made->channel_ = std::move(channel);
  }
  *client = std::move(made);
  return Status::OK();
}

NodeRpcClient::NodeRpcClient(const NodeAddress& address, ClientIdentity identity,
                             std::shared_ptr<const TlsContext> tls,
                             const RpcTransportOptions& transport)
    : address_(address),
      where_(fmt::format("{}:{}", address.host, address.port)),
      tls_(std::move(tls)),
      transport_(transport),
      identity_(std::move(identity)) {}

NodeRpcClient::~NodeRpcClient() = default;

Status NodeRpcClient::lost() {
  const port::MutexLock lock(mutex_);
  return lost_;
}

bool NodeRpcClient::WhenDisconnected(std::function<void()> told) {
  const port::MutexLock lock(told_mutex_);
  told_ = std::move(told);
  return transport_.kind == RpcTransport::kTcp;
}

void NodeRpcClient::TellDisconnected() {
  const port::MutexLock lock(told_mutex_);
  if (told_) told_();
}

RpcCounts NodeRpcClient::counts() {
  const port::MutexLock lock(mutex_);
  return channel_->counts();
}

Status NodeRpcClient::MakeChannel(ControlStream control, Deadline deadline,
                                  std::shared_ptr<RpcChannel>* channel) {
  if (transport_.kind == RpcTransport::kTcp) {
    return StartingThreads([&] {
      return SocketChannel::Open(
          std::move(control), where_, [this] { TellDisconnected(); }, channel);
    });
  }
  std::shared_ptr<VerbsRpcChannel> made;
  const Status opened =
      VerbsRpcChannel::Open(transport_, std::move(control), where_, deadline, &made);
  if (opened.IsTimedOut()) {
    return Status::TimedOut(
        fmt::format("memory node {} does not answer the offer of the rpc transport {}; is it "
                    "overloaded?",
                    where_, RpcTransportName(transport_.kind)));
  }
  DLSM_RETURN_IF_ERROR(opened);
  *channel = std::move(made);
  return Status::OK();
}

Status NodeRpcClient::Call(Method method, const Slice& request, std::string* reply,
                           Deadline deadline) {
  std::shared_ptr<RpcChannel> channel;
  DLSM_RETURN_IF_ERROR(WorkingChannel(deadline, &channel));
  ledger_.Add(method, kFrameHeaderBytes + request.size());
  const Status status = channel->Call(method, request, reply, deadline);
  if (status.ok()) {
    ledger_.AddReply(method, kFrameHeaderBytes + reply->size());
  } else {
    ledger_.AddFailure(method);
  }
  return status;
}

Status NodeRpcClient::WorkingChannel(Deadline deadline, std::shared_ptr<RpcChannel>* channel) {
  {
    const port::MutexLock lock(mutex_);
    while (connecting_) {
      if (!connected_.WaitUntil(deadline.time_point()) && connecting_) {
        return Status::TimedOut(
            fmt::format("memory node {} cannot be reached; is its network up?", where_));
      }
    }
    if (!lost_.ok()) return lost_;
    if (!channel_->failed()) {
      *channel = channel_;
      return Status::OK();
    }
    connecting_ = true;
  }
  const Status status = WithinMemory([&] { return Reconnect(deadline, channel); });
  const port::MutexLock lock(mutex_);
  if (status.ok()) channel_ = *channel;
  connecting_ = false;
  connected_.SignalAll();
  return lost_.ok() ? status : lost_;
}

Status NodeRpcClient::Reconnect(Deadline deadline, std::shared_ptr<RpcChannel>* channel) {
  ControlStream control;
  NodeInfo info;
  // One try: a memory node that has to be started again is in another boot anyway.
  DLSM_RETURN_IF_ERROR(ConnectAndHello(/*patient=*/false, deadline, &control, &info));
  if (info.boot != identity_.boot) {
    const port::MutexLock lock(mutex_);
    lost_ = OtherBoot(fmt::format("memory node {} at {}", static_cast<uint32_t>(info.node), where_),
                      /*has_contents=*/info.contents == contents_);
    Log().Error("{}", lost_.ToString());
    return lost_;
  }
  // Another one where that shown was revoked meanwhile. Who goes on showing the old one is given
  // one more each time, and sessions, which remember all that they were called with, take only so
  // many.
  identity_.data_token = std::move(info.data_token);
  DLSM_RETURN_IF_ERROR(MakeChannel(std::move(control), deadline, channel));
  Log().Info("connected to memory node {} again", where_);
  return Status::OK();
}

}  // namespace dlsm
