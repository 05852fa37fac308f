#include "util/rpc/rpc_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <utility>

#include "port/clock.h"
#include "port/thread.h"
#include "util/log.h"
#include "util/rpc/hello.h"
#include "util/rpc/server_connection.h"
#include "util/rpc/socket.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// How long a stranger may take to say what it wants and to prove itself.
constexpr auto kHelloTimeout = std::chrono::seconds(5);

// Of a table that nobody else has made: data connections outlive their control connection for so
// long.
constexpr auto kTokenGrace = std::chrono::milliseconds(1500);

constexpr auto kHousekeepingPeriod = std::chrono::milliseconds(250);

// Beyond the limit, so many more are told politely that there are too many; the rest is cut off.
constexpr int kRefusedAtOnceMax = 16;

// Without descriptors accept() fails at once, and again: not more often than this.
constexpr auto kAcceptRetryDelay = std::chrono::milliseconds(50);

class RpcServerImpl final : public RpcServer {
 public:
  RpcServerImpl(const RpcServerOptions& options, RpcHandler* handler)
      : options_(options),
        handler_(handler),
        identity_(MakeIdentity(options)),
        tokens_(options.tokens != nullptr ? *options.tokens : own_tokens_) {}
  ~RpcServerImpl() override;

  Status Listen();
  uint16_t port() const override { return port_; }

 private:
  struct Served {
    explicit Served(Socket socket)
        : connection(std::make_shared<ServerConnection>(std::move(socket))) {}
    const std::shared_ptr<ServerConnection> connection;
    std::atomic<bool> done{false};
    port::Thread thread;
  };

  static NodeIdentity MakeIdentity(const RpcServerOptions& options);

  void AcceptLoop();
  void AcceptOne();
  void ReapServed();
  void Serve(Served* served, uint64_t number, bool refuse);
  Status ServeControl(const std::shared_ptr<ServerConnection>& connection,
                      const std::string& address, uint64_t number);
  Status ServeAny(const std::shared_ptr<ServerConnection>& connection, const std::string& address,
                  uint64_t number, bool refuse, bool* handed_over);
  // Gives the fabric a descriptor of its own, so that this one can be closed like all others.
  static Status HandOver(int socket, const std::function<void(int socket)>& fabric,
                         bool* handed_over);

  const RpcServerOptions options_;
  RpcHandler* const handler_;
  const NodeIdentity identity_;
  TokenTable own_tokens_{kTokenGrace, {}, {}};
  TokenTable& tokens_;
  Socket listener_;
  Socket stop_;  // An eventfd that becomes readable when all is over.
  uint16_t port_ = 0;

  // Of the accept thread; of the destructor once that has been joined.
  std::list<Served> served_;
  uint64_t next_connection_ = 1;

  port::Thread accept_thread_;
};

NodeIdentity RpcServerImpl::MakeIdentity(const RpcServerOptions& options) {
  NodeIdentity identity;
  identity.secret = options.secret;
  identity.info.node = options.node;
  identity.info.epoch = options.epoch;
  identity.info.fabric = options.fabric;
  identity.info.regions = options.regions;
  return identity;
}

Status RpcServerImpl::Listen() {
  DLSM_RETURN_IF_ERROR(ListenSocket(options_.bind_address, options_.port, &listener_, &port_));
  stop_ = Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!stop_.valid()) return Status::IOError("no event descriptor", ErrorText(errno));
  accept_thread_ = port::Thread([this] { AcceptLoop(); });
  return Status::OK();
}

RpcServerImpl::~RpcServerImpl() {
  if (!accept_thread_.joinable()) return;
  const uint64_t one = 1;
  static_cast<void>(!write(stop_.get(), &one, sizeof(one)));
  accept_thread_.join();
  listener_.Close();
  for (Served& served : served_) served.connection->Stop();
  for (Served& served : served_) served.thread.join();
}

void RpcServerImpl::AcceptLoop() {
  for (;;) {
    pollfd waited[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    const int ready = poll(waited, 2, PollTimeout(Deadline::In(kHousekeepingPeriod)));
    if (waited[1].revents != 0) return;
    if (ready > 0 && waited[0].revents != 0) AcceptOne();
    ReapServed();
    tokens_.Expire(TokenTable::Clock::now());
  }
}

void RpcServerImpl::AcceptOne() {
  Socket socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      Log().warn("cannot accept a connection: {}; raise the limit of open files (ulimit -n)",
                 ErrorText(errno));
      port::SleepFor(kAcceptRetryDelay);
    }
    return;
  }
  ReapServed();
  const int count = static_cast<int>(served_.size());
  if (count >= options_.connections_max + kRefusedAtOnceMax) return;
  PrepareSocket(socket.get());
  const bool refuse = count >= options_.connections_max;
  Served& served = served_.emplace_back(std::move(socket));
  served.thread = port::Thread(
      [this, &served, number = next_connection_++, refuse] { Serve(&served, number, refuse); });
}

void RpcServerImpl::ReapServed() {
  for (auto next = served_.begin(); next != served_.end();) {
    // Pairs with the store that ends the thread: what it did is visible, and joining is short.
    if (!next->done.load(std::memory_order_acquire)) {
      ++next;
      continue;
    }
    next->thread.join();
    next = served_.erase(next);
  }
}

void RpcServerImpl::Serve(Served* served, uint64_t number, bool refuse) {
  const std::string address = PeerAddress(served->connection->socket());
  bool handed_over = false;
  const Status status = ServeAny(served->connection, address, number, refuse, &handed_over);
  if (!status.ok()) Log().warn("connection from {}: {}", address, status.ToString());
  if (!handed_over) served->connection->Stop();
  served->done.store(true, std::memory_order_release);
}

Status RpcServerImpl::ServeAny(const std::shared_ptr<ServerConnection>& connection,
                               const std::string& address, uint64_t number, bool refuse,
                               bool* handed_over) {
  const int socket = connection->socket();
  const Deadline deadline = Deadline::In(kHelloTimeout);
  char preamble[kPreambleBytes];
  Status status = ReceiveAll(socket, preamble, sizeof(preamble), deadline);
  if (!status.ok()) return Status::FromCode(status.code(), "it did not say what it wants");
  const Slice said(preamble, sizeof(preamble));
  if (said == Slice(kDataPreamble)) {
    return HandOver(socket, options_.on_data_connection, handed_over);
  }
  if (said == Slice(kQueuePairPreamble)) {
    return HandOver(socket, options_.on_queue_pair_connection, handed_over);
  }
  if (said != Slice(kControlPreamble)) return Status::Corruption("it does not speak dLSM");
  if (!refuse) return ServeControl(connection, address, number);
  const std::string reason =
      fmt::format("it has {} connections, its limit; close some", options_.connections_max);
  DLSM_RETURN_IF_ERROR(RefuseHello(socket, reason, deadline));
  return Status::Busy("refused", reason);
}

Status RpcServerImpl::HandOver(int socket, const std::function<void(int socket)>& fabric,
                               bool* handed_over) {
  if (!fabric) return Status::InvalidArgument("this fabric is not served here");
  Socket copy(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return Status::IOError("no descriptor for it", ErrorText(errno));
  fabric(copy.Release());
  *handed_over = true;
  return Status::OK();
}

Status RpcServerImpl::ServeControl(const std::shared_ptr<ServerConnection>& connection,
                                   const std::string& address, uint64_t number) {
  std::string token;
  AuthenticatedClient client;
  Status status = NodeHello(
      connection->socket(), identity_, Deadline::In(kHelloTimeout),
      [&](const std::string& shown, std::string* given) {
        DLSM_RETURN_IF_ERROR(tokens_.Acquire(shown, &token));
        *given = token;
        return Status::OK();
      },
      &client);
  if (status.ok()) {
    RpcPeer peer;
    peer.connection = number;
    peer.name = client.name.empty() ? address : fmt::format("{} ({})", client.name, address);
    peer.data_token = token;
    Log().info("{} connected", peer.name);
    status = connection->Serve(peer, handler_, options_.transports);
    handler_->Disconnected(peer);
    Log().info("{} disconnected: {}", peer.name, status.message().ToStringView());
    if (status.IsIOError()) status = Status::OK();  // How connections usually end.
  } else {
    status = Status::FromCode(status.code(), "refused: " + status.message().ToString());
  }
  if (!token.empty()) tokens_.Release(token, TokenTable::Clock::now());
  return status;
}

}  // namespace

Status RpcServer::Start(const RpcServerOptions& options, RpcHandler* handler,
                        std::unique_ptr<RpcServer>* server) {
  auto made = std::make_unique<RpcServerImpl>(options, handler);
  DLSM_RETURN_IF_ERROR(made->Listen());
  *server = std::move(made);
  return Status::OK();
}

}  // namespace dlsm
