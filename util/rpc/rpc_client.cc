#include "util/rpc/rpc_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "port/clock.h"
#include "util/log.h"
#include "util/rpc/frame.h"
#include "util/rpc/rpc_channel.h"
#include "util/rpc/socket.h"
#include "util/rpc/socket_channel.h"
#include "util/rpc/verbs_rpc_channel.h"
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

// `patient`: whether to try again while the connection is refused.
Status ConnectAndHello(const NodeAddress& address, const std::string& where,
                       const ClientIdentity& identity, bool patient, Deadline deadline,
                       Socket* socket, NodeInfo* info) {
  std::chrono::nanoseconds delay = kRetryDelayMin;
  Status refusal;
  for (;;) {
    bool refused = false;
    const Status status = ConnectSocket(address.host, address.port, deadline, socket, &refused);
    if (status.ok()) break;
    // The last try may have had no time for an answer; those before say more.
    if (!refused) return CannotReach(where, refusal.ok() ? status : refusal);
    if (!patient || deadline.Passed()) return CannotReach(where, status);
    refusal = status;
    port::SleepFor(std::min(delay, deadline.Remaining()));
    delay = std::min<std::chrono::nanoseconds>(delay * 2, kRetryDelayMax);
  }
  const Status hello = ClientHello(socket->get(), where, identity, deadline, info);
  return hello.IsTimedOut() ? Status::TimedOut(fmt::format(
                                  "memory node {} takes a connection and does not answer the "
                                  "hello; is it overloaded?",
                                  where))
                            : hello;
}

}  // namespace

Status NodeRpcClient::Connect(const NodeAddress& address, const std::string& secret,
                              const std::string& client_name, Deadline deadline, NodeInfo* info,
                              std::unique_ptr<NodeRpcClient>* client,
                              const RpcTransportOptions& transport) {
  ClientIdentity identity;
  identity.secret = secret;
  identity.name = client_name;
  std::unique_ptr<NodeRpcClient> made(new NodeRpcClient(address, std::move(identity), transport));
  Socket socket;
  DLSM_RETURN_IF_ERROR(ConnectAndHello(address, made->where_, made->identity_, /*patient=*/true,
                                       deadline, &socket, info));
  made->identity_.data_token = info->data_token;
  made->identity_.epoch = info->epoch;
  {
    std::shared_ptr<RpcChannel> channel;
    DLSM_RETURN_IF_ERROR(made->MakeChannel(std::move(socket), deadline, &channel));
    const port::MutexLock lock(made->mutex_);
    made->channel_ = std::move(channel);
  }
  *client = std::move(made);
  return Status::OK();
}

NodeRpcClient::NodeRpcClient(const NodeAddress& address, ClientIdentity identity,
                             const RpcTransportOptions& transport)
    : address_(address),
      where_(fmt::format("{}:{}", address.host, address.port)),
      transport_(transport),
      identity_(std::move(identity)) {}

NodeRpcClient::~NodeRpcClient() = default;

Status NodeRpcClient::lost() {
  const port::MutexLock lock(mutex_);
  return lost_;
}

RpcCounts NodeRpcClient::counts() {
  const port::MutexLock lock(mutex_);
  return channel_->counts();
}

Status NodeRpcClient::MakeChannel(Socket socket, Deadline deadline,
                                  std::shared_ptr<RpcChannel>* channel) const {
  if (transport_.kind == RpcTransport::kTcp) {
    *channel = std::make_shared<SocketChannel>(std::move(socket), where_);
    return Status::OK();
  }
  std::shared_ptr<VerbsRpcChannel> made;
  const Status opened =
      VerbsRpcChannel::Open(transport_, std::move(socket), where_, deadline, &made);
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
  const Status status = Reconnect(deadline, channel);
  const port::MutexLock lock(mutex_);
  if (status.ok()) channel_ = *channel;
  connecting_ = false;
  connected_.SignalAll();
  return lost_.ok() ? status : lost_;
}

Status NodeRpcClient::Reconnect(Deadline deadline, std::shared_ptr<RpcChannel>* channel) {
  Socket socket;
  NodeInfo info;
  // One try: a memory node that has to be started again has lost its memory anyway.
  DLSM_RETURN_IF_ERROR(
      ConnectAndHello(address_, where_, identity_, /*patient=*/false, deadline, &socket, &info));
  if (info.epoch != identity_.epoch) {
    const port::MutexLock lock(mutex_);
    lost_ = Status::IOError(
        fmt::format("memory node {} at {} was restarted and its memory is lost; open the database "
                    "again",
                    static_cast<uint32_t>(info.node), where_));
    Log().error("{}", lost_.ToString());
    return lost_;
  }
  DLSM_RETURN_IF_ERROR(MakeChannel(std::move(socket), deadline, channel));
  Log().info("connected to memory node {} again", where_);
  return Status::OK();
}

}  // namespace dlsm
