#include "db/serve/resp_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "db/serve/executor.h"
#include "port/clock.h"
#include "port/error_text.h"
#include "port/thread_name.h"
#include "util/log.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm::serve {
namespace {

// Binds to a numeric address of either family.
Status BindTo(int socket, bool six, const std::string& address, int port) {
  sockaddr_in6 to6{};
  sockaddr_in to4{};
  to6.sin6_family = AF_INET6;
  to6.sin6_port = htons(static_cast<uint16_t>(port));
  to4.sin_family = AF_INET;
  to4.sin_port = htons(static_cast<uint16_t>(port));
  const bool parsed = six ? inet_pton(AF_INET6, address.c_str(), &to6.sin6_addr) == 1
                          : inet_pton(AF_INET, address.c_str(), &to4.sin_addr) == 1;
  if (!parsed) return Status::InvalidArgument("--bind=" + address + " is no numeric address");
  const auto* const to =
      six ? reinterpret_cast<const sockaddr*>(&to6) : reinterpret_cast<const sockaddr*>(&to4);
  if (bind(socket, to, six ? sizeof(to6) : sizeof(to4)) == 0) return Status::OK();
  return Status::IOError(
      fmt::format("cannot listen on {}:{}: {}", address, port, port::ErrorText(errno)),
      errno == EADDRINUSE ? "is another server there? Give another --port" : "");
}

}  // namespace

Status RespServer::Start(const RespServerOptions& options, std::unique_ptr<DB> db,
                         std::unique_ptr<RespServer>* server) {
  std::unique_ptr<RespServer> made(new RespServer(options, std::move(db)));
  DLSM_RETURN_IF_ERROR(made->store_.Open());
  ServerState& state = made->state_;
  state.store = &made->store_;
  state.started_at = UnixMilliseconds();
  state.backups =
      std::make_unique<Backups>(&made->db(), options.backup_dir, state.started_at / 1000);
  DLSM_RETURN_IF_ERROR(made->SetUpUsers());
  state.threads = options.threads;
  std::string random;
  DLSM_RETURN_IF_ERROR(RandomBytes(20, &random));
  for (const char byte : random) state.run_id += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  DLSM_RETURN_IF_ERROR(made->Listen());
  for (size_t i = 0; i < options.threads; ++i) {
    state.latencies.push_back(std::make_unique<ResponseTimes>());
    made->loops_.push_back(std::make_unique<EventLoop>(&state, state.latencies.back().get(),
                                                       options.limits, options.tls));
  }
  for (const auto& loop : made->loops_) {
    DLSM_RETURN_IF_ERROR(loop->Start());
  }
  made->acceptor_ = port::Thread([raw = made.get()] { raw->Accept(); });
  made->housekeeper_ = port::Thread([raw = made.get()] { raw->KeepHouse(); });
  *server = std::move(made);
  return Status::OK();
}

Status RespServer::SetUpUsers() {
  state_.acl.SetPassword(options_.password);
  state_.acl.set_file(options_.acl_file);
  if (state_.acl.has_file()) DLSM_RETURN_IF_ERROR(LoadUsers());
  if (!options_.wants_passwords || !state_.acl.DefaultIsOpen()) return Status::OK();
  return Status::InvalidArgument(
      "the default user needs no password, so other machines could read and write the database",
      "give it one in the ACL file, or by --password_file");
}

Status RespServer::LoadUsers() {
  std::vector<std::string> cut_off;
  DLSM_RETURN_IF_ERROR(state_.acl.Load(&cut_off));
  for (const std::string& user : cut_off) CutOff(&state_, user, /*own=*/nullptr);
  return Status::OK();
}

RespServer::~RespServer() { Stop().PermitUncheckedError(); }

Status RespServer::Listen() {
  const bool six = options_.bind.find(':') != std::string::npos;
  socket_ = FileDescriptor(
      ::socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  wakeup_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!socket_.valid() || !wakeup_.valid()) {
    return Status::IOError("no socket can be had", port::ErrorText(errno));
  }
  const int on = 1;
  setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  DLSM_RETURN_IF_ERROR(BindTo(socket_.get(), six, options_.bind, options_.port));
  constexpr int kBacklog = 511;
  if (listen(socket_.get(), kBacklog) != 0) {
    return Status::IOError("cannot listen", port::ErrorText(errno));
  }
  sockaddr_in6 own{};
  socklen_t bytes = sizeof(own);
  getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own), &bytes);
  state_.port = ntohs(own.sin6_port);  // At the same place in both families.
  return Status::OK();
}

void RespServer::Accept() {
  port::SetThreadName("dlsm accept");
  size_t next = 0;
  while (!stopping_) {
    std::array<pollfd, 2> waits{};
    waits[0] = {socket_.get(), POLLIN, 0};
    waits[1] = {wakeup_.get(), POLLIN, 0};
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    while (!stopping_) {
      FileDescriptor client(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client.valid()) {
        if (errno == EMFILE || errno == ENFILE) port::SleepFor(std::chrono::milliseconds(10));
        break;
      }
      if (state_.clients >= options_.clients_max) {
        ++state_.rejected;
        static constexpr char kText[] = "-ERR max number of clients reached\r\n";
        static_cast<void>(
            send(client.get(), kText, sizeof(kText) - 1, MSG_NOSIGNAL | MSG_DONTWAIT));
        continue;
      }
      loops_[next++ % loops_.size()]->Add(std::move(client));
    }
  }
}

// Elements of collections that nobody can reach are deleted a few at a time.
void RespServer::KeepHouse() {
  port::SetThreadName("dlsm house");
  constexpr size_t kAtOnce = 1000;
  constexpr auto kPause = std::chrono::milliseconds(100);
  bool failing = false;
  while (!stopping_) {
    bool more = false;
    bool more_expired = false;
    uint64_t expired = 0;
    Status collected = store_.DeleteExpired(UnixMilliseconds(), kAtOnce, &expired, &more_expired);
    state_.expired += expired;
    if (collected.ok()) collected = store_.CollectGarbage(kAtOnce, &more);
    more |= more_expired;
    if (!collected.ok() && !failing) {
      Log().Warn("what was deleted cannot be cleared away, to be tried again: {}",
                 collected.ToString());
    }
    failing = !collected.ok();
    const port::MutexLock lock(mutex_);
    if (!more && !stopping_) static_cast<void>(stop_.WaitUntil(port::Clock::now() + kPause));
  }
}

Status RespServer::Stop() {
  {
    const port::MutexLock lock(mutex_);
    if (stopping_.exchange(true)) return Status::OK();
    stop_.SignalAll();
  }
  const uint64_t one = 1;
  static_cast<void>(write(wakeup_.get(), &one, sizeof(one)));
  if (acceptor_.joinable()) acceptor_.join();
  for (const auto& loop : loops_) loop->Stop();
  if (housekeeper_.joinable()) housekeeper_.join();
  state_.backups.reset();  // A backup that is under way is completed.
  return store_.db().Close();
}

}  // namespace dlsm::serve
