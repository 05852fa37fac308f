#include "util/rpc/rpc_server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <new>
#include <system_error>
#include <utility>

#include "port/allocation_point.h"
#include "port/clock.h"
#include "port/error_text.h"
#include "port/thread.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/auth/failure_limiter.h"
#include "util/rpc/auth/hello.h"
#include "util/rpc/auth/socket.h"
#include "util/rpc/auth/socket_watch.h"
#include "util/rpc/auth/stranger_log.h"
#include "util/rpc/served_connection.h"
#include "util/status_macros.h"
#include "util/thread_pool.h"

namespace dlsm {
namespace {

// How long a stranger may take to say what it wants and to prove itself.
constexpr auto kHelloTimeout = std::chrono::seconds(5);

// Of a table that nobody else has made: data connections outlive their control connection for so
// long.
constexpr auto kTokenGrace = std::chrono::milliseconds(1500);

// Of control connections, before the pool hesitates to add threads.
constexpr size_t kServedAtOnce = 64;

constexpr auto kHousekeepingPeriod = std::chrono::milliseconds(250);

// Without descriptors accept() fails at once, and again: not more often than this.
constexpr auto kAcceptRetryDelay = std::chrono::milliseconds(50);
constexpr auto kAcceptPause = std::chrono::milliseconds(1);

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

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
  ConnectionCounts Counts() const override {
    const int trusted = trusted_.load(std::memory_order_relaxed);
    return {static_cast<uint64_t>(trusted), refused_.load(std::memory_order_relaxed),
            evicted_.load(std::memory_order_relaxed)};
  }

 private:
  using Served = ServedConnection;
  using Standing = ServedConnection::Standing;

  static NodeIdentity MakeIdentity(const RpcServerOptions& options);

  void AcceptLoop();
  void AcceptOne();
  Socket Accept();
  void KeepSpare();
  void ReapServed();
  // They may come again, and are refused then.
  void EndRevoked();
  // False: there is none.
  bool EvictOldestStranger();
  void Serve(Served* served, uint64_t number);
  // Of a control connection: the hello; then it is the pool's. *handed_over: it is.
  Status ServeControl(Served* served, const std::string& address, uint64_t number,
                      bool* handed_over);
  Status GreetControl(Served* served, const std::string& address, uint64_t number,
                      AuthenticatedClient* client);
  ThreadPool::Clock::time_point ServeRequests(Served* served);
  void EndControl(Served* served, Status why);
  // What a control connection has taken in its hello.
  void GiveBack(const Served& served);
  void NoteRefused(const std::string& address, const Status& why);
  Status ServeAny(Served* served, const std::string& address, uint64_t number, bool* handed_over);
  // The TLS handshake where there is to be one, and the first bytes behind it.
  Status Begin(Served* served, const std::string& host, Deadline deadline, char* preamble);
  Status AcceptTls(Served* served, const std::string& host, Deadline deadline);
  Status ServeData(Served* served, Deadline deadline, bool* handed_over);
  Status ServeQueuePair(Served* served, Deadline deadline, bool* handed_over);
  // What clients with rights of their own are told of this memory node.
  void Restrict(NodeInfo* info) const;

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
  // Kept for when no descriptor is left: given up, it lets one more client in, to be told of that.
  FileDescriptor spare_;
  uint64_t next_connection_ = 1;

  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> evicted_{0};
  std::atomic<int> trusted_{0};  // Control connections that have proved themselves.
  FailureLimiter failures_;
  StrangerLog log_;

  std::unique_ptr<ThreadPool> pool_;    // Serves control connections.
  std::shared_ptr<SocketWatch> watch_;  // Of those.
  port::Thread accept_thread_;
};

NodeIdentity RpcServerImpl::MakeIdentity(const RpcServerOptions& options) {
  NodeIdentity identity;
  identity.secret = options.secret;
  identity.access = options.access;
  identity.info.node = options.node;
  identity.info.contents = options.contents;
  identity.info.boot = options.boot;
  identity.info.persistence = options.persistence;
  identity.info.has_files = options.has_files;
  identity.info.fabric = options.fabric;
  identity.info.regions = options.regions;
  return identity;
}

Status RpcServerImpl::Listen() {
  DLSM_RETURN_IF_ERROR(ListenSocket(options_.bind_address, options_.port, &listener_, &port_));
  stop_ = Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!stop_.valid()) return CannotOpen("an event", errno);
  KeepSpare();
  ThreadPool::Config pool;
  pool.workers_at_once = kServedAtOnce;
  pool_ = std::make_unique<ThreadPool>(pool);
  DLSM_RETURN_IF_ERROR(SocketWatch::Start("dlsm calls", &watch_));
  accept_thread_ = port::Thread([this] { AcceptLoop(); });
  return Status::OK();
}

RpcServerImpl::~RpcServerImpl() {
  if (!accept_thread_.joinable()) return;
  const uint64_t one = 1;
  static_cast<void>(!write(stop_.get(), &one, sizeof(one)));
  accept_thread_.join();
  listener_.Close();
  for (Served& served : served_) {
    if (!served.Evict()) served.connection->Stop();
  }
  for (Served& served : served_) {
    if (served.thread.joinable()) served.thread.join();
    if (served.serving != nullptr) served.serving->Wake();
    served.AwaitDone();
  }
  served_.clear();
}

void RpcServerImpl::AcceptLoop() {
  for (;;) {
    pollfd waited[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    const int ready = poll(waited, 2, PollTimeout(Deadline::In(kHousekeepingPeriod)));
    if (waited[1].revents != 0) return;
    const Status done = WithinMemory(
        [&] {
          port::AllocationPoint("memory node: accept");
          if (ready > 0 && waited[0].revents != 0) AcceptOne();
          ReapServed();
          EndRevoked();
          tokens_.Expire(TokenTable::Clock::now());
          return Status::OK();
        },
        &OutOfNodeMemory);
    if (done.ok()) continue;
    IfMemoryPermits([&] { log_.Warn("cannot accept a connection: {}", done.ToString()); });
    port::SleepFor(kAcceptRetryDelay);
  }
}

void RpcServerImpl::AcceptOne() {
  ReapServed();
  int strangers = 0;
  int unfinished = 0;
  for (const Served& served : served_) {
    if (served.done.load(std::memory_order_relaxed)) continue;
    const Standing standing = served.standing.load(std::memory_order_relaxed);
    strangers += standing == Standing::kStranger ? 1 : 0;
    unfinished += standing != Standing::kTrusted ? 1 : 0;
  }
  if (unfinished >= 2 * options_.strangers_max) {
    // Those that were evicted are ending: no more threads until they have.
    port::SleepFor(kAcceptPause);
    return;
  }
  Socket accepted = Accept();
  if (!accepted.valid()) {
    if (IsOutOfDescriptors(errno) || errno == ENOBUFS || errno == ENOMEM) {
      log_.Warn("cannot accept a connection: {}; raise the limit of open files (ulimit -n)",
                port::ErrorText(errno));
      if (!EvictOldestStranger()) port::SleepFor(kAcceptRetryDelay);
    }
    return;
  }
  if (strangers >= options_.strangers_max && EvictOldestStranger()) {
    log_.Warn("more than {} connections have not proved themselves: the oldest is closed",
              options_.strangers_max);
  }
  PrepareSocket(accepted.get());
  Served& served = served_.emplace_back(std::move(accepted), options_.progress_timeout);
  try {
    served.thread =
        port::Thread([this, &served, number = next_connection_++] { Serve(&served, number); });
  } catch (const std::system_error& error) {
    served_.pop_back();  // Without a thread it is not to be joined.
    log_.Warn("cannot serve a connection: {}; raise the limit of processes (ulimit -u)",
              error.what());
    port::SleepFor(kAcceptRetryDelay);
  } catch (const std::bad_alloc&) {
    served_.pop_back();
    throw;
  }
}

void RpcServerImpl::KeepSpare() {
  if (!spare_.valid()) spare_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
}

Socket RpcServerImpl::Accept() {
  KeepSpare();
  Socket accepted(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (accepted.valid() || !IsOutOfDescriptors(errno) || !spare_.valid()) return accepted;
  spare_.Close();
  return Socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

bool RpcServerImpl::EvictOldestStranger() {
  for (Served& served : served_) {
    if (!served.Evict()) continue;
    evicted_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

void RpcServerImpl::ReapServed() {
  for (auto next = served_.begin(); next != served_.end();) {
    const auto each = next++;
    // Joining is short then.
    if (!each->thread_done.load(std::memory_order_acquire)) continue;
    if (each->thread.joinable()) each->thread.join();
    if (each->done.load(std::memory_order_acquire)) served_.erase(each);
  }
}

void RpcServerImpl::EndRevoked() {
  for (Served& served : served_) {
    if (served.IsRevoked()) served.connection->Stop();
  }
}

void RpcServerImpl::Serve(Served* served, uint64_t number) {
  bool handed_over = false;
  std::string address;
  const Status status = WithinMemory(
      [&] {
        port::AllocationPoint("memory node: serve");
        address = PeerAddress(served->connection->socket());
        return ServeAny(served, address, number, &handed_over);
      },
      &OutOfNodeMemory);
  if (!status.ok()) NoteRefused(address, status);
  if (!handed_over) served->connection->Stop();
  // A control connection that was handed over ends in EndControl().
  if (!handed_over || served->serving == nullptr) served->NoteDone();
  served->thread_done.store(true, std::memory_order_release);
}

void RpcServerImpl::NoteRefused(const std::string& address, const Status& why) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  IfMemoryPermits([&] { log_.Warn("connection from {}: {}", address, why.ToString()); });
}

// In a handshake that knows clients by their key, a guess of the secret can be tried: one that
// fails costs what a wrong proof costs, and the next one as well.
Status RpcServerImpl::AcceptTls(Served* served, const std::string& host, Deadline deadline) {
  served->Pause(failures_.DelayOf(host, FailureLimiter::Clock::now()));
  const Status status = options_.tls->Accept(served->connection->stream(), deadline);
  // An evicted one was not answered.
  if (status.IsInvalidArgument() &&
      served->standing.load(std::memory_order_relaxed) == Standing::kStranger) {
    failures_.Failed(host, FailureLimiter::Clock::now());
    served->Pause(FailureLimiter::kRefusalDelay);
  }
  return status;
}

Status RpcServerImpl::Begin(Served* served, const std::string& host, Deadline deadline,
                            char* preamble) {
  TcpStream& stream = served->connection->stream();
  // What is not TLS is looked at as it is: verbs arranges its queue pairs without, and others are
  // to be told what is wrong.
  char first[2];
  DLSM_RETURN_IF_ERROR(PeekAll(stream.get(), first, sizeof(first), deadline));
  const bool tls = IsTlsHandshake(first, sizeof(first));
  if (tls && options_.tls == nullptr) {
    return Status::InvalidArgument("it speaks TLS, and this memory node was started without",
                                   "start Server with --tls or --tls_certificate_file");
  }
  if (tls) DLSM_RETURN_IF_ERROR(AcceptTls(served, host, deadline));
  return ReceiveAll(stream, preamble, kPreambleBytes, deadline);
}

Status RpcServerImpl::ServeAny(Served* served, const std::string& address, uint64_t number,
                               bool* handed_over) {
  TcpStream& stream = served->connection->stream();
  const Deadline deadline = Deadline::In(kHelloTimeout);
  char preamble[kPreambleBytes];
  const Status begun = Begin(served, HostOf(address), deadline, preamble);
  if (begun.IsIOError() || begun.IsTimedOut()) {
    return Status::FromCode(begun.code(), "it did not say what it wants");
  }
  DLSM_RETURN_IF_ERROR(begun);
  const Slice said(preamble, sizeof(preamble));
  if (said == Slice(kQueuePairPreamble)) return ServeQueuePair(served, deadline, handed_over);
  const bool too_open = options_.tls != nullptr && !stream.secure();
  if (said == Slice(kDataPreamble)) {
    if (too_open) return Status::InvalidArgument("its data connection does not use TLS");
    return ServeData(served, deadline, handed_over);
  }
  if (said != Slice(kControlPreamble)) return Status::Corruption("it does not speak dLSM");
  if (too_open) {
    const std::string reason = "it speaks TLS only; set Options::tls (--tls), or a tls_ca_file";
    DLSM_RETURN_IF_ERROR(RefuseHello(stream, reason, deadline, /*busy=*/false));
    return Status::InvalidArgument("refused", "it does not use TLS");
  }
  std::string reason;
  if (!served->connection->can_serve()) {
    reason = "it has no descriptor left; raise the limit of open files of its Server (ulimit -n)";
  } else if (trusted_.load(std::memory_order_relaxed) < options_.connections_max) {
    return ServeControl(served, address, number, handed_over);
  } else {
    reason = fmt::format("it has {} connections, its limit; close some", options_.connections_max);
  }
  DLSM_RETURN_IF_ERROR(RefuseHello(stream, reason, deadline));
  return Status::Busy("refused", reason);
}

// The fabric gets a descriptor of its own, so that this one can be closed like all others.
Status RpcServerImpl::ServeData(Served* served, Deadline deadline, bool* handed_over) {
  if (!options_.greet_data_connection || !options_.on_data_connection) {
    return Status::InvalidArgument("this fabric is not served here");
  }
  TcpStream& stream = served->connection->stream();
  std::string token;
  DLSM_RETURN_IF_ERROR(options_.greet_data_connection(stream, deadline, &token));
  if (!served->Become(Standing::kTrusted)) return Status::Busy("evicted", "there are too many");
  TcpStream theirs;
  const Status copied = stream.HandOver(&theirs);
  if (!copied.ok()) {
    if (!options_.refuse_data_connection) return copied;
    const Status told = options_.refuse_data_connection(stream, deadline);
    return told.ok() ? copied : told;
  }
  options_.on_data_connection(std::move(theirs), token);
  *handed_over = true;
  return Status::OK();
}

Status RpcServerImpl::ServeQueuePair(Served* served, Deadline deadline, bool* handed_over) {
  if (!options_.greet_queue_pair_connection || !options_.on_queue_pair_connection) {
    return Status::InvalidArgument("this fabric is not served here");
  }
  std::string token;
  DLSM_RETURN_IF_ERROR(
      options_.greet_queue_pair_connection(served->connection->socket(), deadline, &token));
  if (!served->Become(Standing::kTrusted)) return Status::Busy("evicted", "there are too many");
  Socket copy(fcntl(served->connection->socket(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    const Status copied = CannotOpen("a queue pair's connection", errno);
    if (!options_.refuse_queue_pair_connection) return copied;
    const Status told =
        options_.refuse_queue_pair_connection(served->connection->socket(), deadline);
    return told.ok() ? copied : told;
  }
  DLSM_RETURN_IF_ERROR(options_.on_queue_pair_connection(copy.Release(), token));
  *handed_over = true;
  return Status::OK();
}

void RpcServerImpl::Restrict(NodeInfo* info) const {
  if (options_.access_shares_memory) return;
  info->fabric = FabricKind::kTcp;
  for (RegionInfo& region : info->regions) region.shm_path.clear();
}

// What has been taken here is given back by EndControl().
Status RpcServerImpl::GreetControl(Served* served, const std::string& address, uint64_t number,
                                   AuthenticatedClient* client) {
  const auto admit = [&](const std::string& shown, const ClientRights& rights, NodeInfo* info) {
    if (!served->Become(Standing::kTrusted)) return Status::Busy("evicted", "too many strangers");
    // Before the client knows: so it cannot come again uncounted.
    trusted_.fetch_add(1, std::memory_order_relaxed);
    DLSM_RETURN_IF_ERROR(tokens_.Acquire(shown, rights, &served->token));
    info->data_token = served->token;
    if (rights != nullptr) Restrict(info);
    const port::MutexLock lock(served->mutex);
    served->rights = rights;
    return Status::OK();
  };
  DLSM_RETURN_IF_ERROR(
      NodeHello(served->connection->stream(), identity_, Deadline::In(kHelloTimeout), admit, client,
                &failures_, HostOf(address),
                [served](FailureLimiter::Clock::duration duration) { served->Pause(duration); }));
  RpcPeer& peer = served->peer;
  peer.connection = number;
  peer.name = client->name.empty() ? address : fmt::format("{} ({})", client->name, address);
  peer.data_token = served->token;
  peer.rights = client->rights;
  if (peer.rights != nullptr) peer.name = fmt::format("{}, {}", peer.rights->name(), peer.name);
  return Status::OK();
}

Status RpcServerImpl::ServeControl(Served* served, const std::string& address, uint64_t number,
                                   bool* handed_over) {
  AuthenticatedClient client;
  Status status = WithinMemory([&] { return GreetControl(served, address, number, &client); },
                               &OutOfNodeMemory);
  if (!status.ok()) {
    GiveBack(*served);
    return WithinMemory([&status] {
      return Status::FromCode(status.code(), "refused: " + status.message().ToString());
    });
  }
  IfMemoryPermits([served] { Log().Info("{} connected", served->peer.name); });
  status = WithinMemory(
      [&]() -> Status {
        DLSM_RETURN_IF_ERROR(
            served->connection->Begin(client.keys, [served] { served->serving->Wake(); }));
        return served->BeServed(watch_, pool_.get(),
                                [this, served] { return ServeRequests(served); });
      },
      &OutOfNodeMemory);
  *handed_over = true;
  if (status.ok()) {
    served->serving->Wake();
  } else {
    EndControl(served, status);
  }
  return Status::OK();
}

// A client that has just called often calls again at once.
ThreadPool::Clock::time_point RpcServerImpl::ServeRequests(Served* served) {
  constexpr auto kPatience = std::chrono::milliseconds(20);
  // It may be woken once more after its end.
  if (served->done.load(std::memory_order_relaxed)) return ThreadPool::Clock::time_point::max();
  Status status = served->connection->Serve(served->peer, handler_, options_.transports, kPatience);
  if (status.ok()) {
    watch_->Resume(served->watched);
  } else {
    EndControl(served, std::move(status));
  }
  return ThreadPool::Clock::time_point::max();
}

void RpcServerImpl::EndControl(Served* served, Status why) {
  if (served->watch != nullptr) served->watch->Remove(served->watched);
  served->connection->End();
  handler_->Disconnected(served->peer);
  IfMemoryPermits(
      [&] { Log().Info("{} disconnected: {}", served->peer.name, why.message().ToStringView()); });
  // With an IOError connections usually end.
  if (!why.IsIOError()) NoteRefused(served->peer.name, why);
  GiveBack(*served);
  served->connection->Stop();
  served->NoteDone();
}

void RpcServerImpl::GiveBack(const Served& served) {
  if (served.standing.load(std::memory_order_relaxed) == Standing::kTrusted) {
    trusted_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (!served.token.empty()) tokens_.Release(served.token, TokenTable::Clock::now());
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
