#include "db/serve/event_loop.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <unordered_set>
#include <utility>
#include <vector>

#include "port/clock.h"
#include "port/error_text.h"
#include "port/thread_name.h"
#include "util/out_of_memory.h"

namespace dlsm::serve {
namespace {

constexpr size_t kScratchBytes = size_t{64} << 10;
constexpr size_t kRequestsInRound = 1024;
// A client that has so much to take is asked for no more requests.
constexpr size_t kUnsentMost = size_t{1} << 20;

std::string AddressText(int socket, bool of_peer) {
  sockaddr_in6 address{};
  socklen_t bytes = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if ((of_peer ? getpeername(socket, raw, &bytes) : getsockname(socket, raw, &bytes)) != 0)
    return "";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (raw->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(address.sin6_port));
  }
  const auto* const four = reinterpret_cast<const sockaddr_in*>(raw);
  inet_ntop(AF_INET, &four->sin_addr, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), ntohs(four->sin_port));
}

}  // namespace

int64_t UnixMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Status EventLoop::Start() {
  poll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  wakeup_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!poll_.valid() || !wakeup_.valid()) {
    return Status::IOError("an event loop cannot be made", port::ErrorText(errno));
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wakeup_.get();
  epoll_ctl(poll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event);
  scratch_.resize(kScratchBytes);
  thread_ = port::Thread([this] { Run(); });
  return Status::OK();
}

void EventLoop::Stop() {
  stopping_ = true;
  if (!thread_.joinable()) return;
  Wake();
  thread_.join();
  while (!clients_.empty()) Close(clients_.begin()->second.get());
}

void EventLoop::Wake() const {
  const uint64_t one = 1;
  static_cast<void>(write(wakeup_.get(), &one, sizeof(one)));
}

void EventLoop::Add(FileDescriptor socket) {
  {
    const port::MutexLock lock(mutex_);
    new_.push_back(std::move(socket));
  }
  Wake();
}

void EventLoop::TakeNew() {
  uint64_t count;
  static_cast<void>(read(wakeup_.get(), &count, sizeof(count)));
  std::vector<FileDescriptor> sockets;
  {
    const port::MutexLock lock(mutex_);
    sockets.swap(new_);
  }
  for (FileDescriptor& socket : sockets) {
    const int number = socket.get();
    const int on = 1;
    setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(number, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    std::unique_ptr<TlsSession> tls;
    if (tls_ != nullptr && !tls_->NewServerSession(number, &tls).ok()) continue;
    auto client = std::make_unique<Client>(std::move(socket), std::move(tls));
    Session& session = client->session();
    session.id = ++server_.connections;
    session.peer = AddressText(number, /*of_peer=*/true);
    session.local = AddressText(number, /*of_peer=*/false);
    session.connected_at = session.active_at = UnixMilliseconds();
    ResetSession(&server_, &session);
    epoll_event event{};
    event.events = client->events;
    event.data.fd = number;
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, number, &event) != 0) continue;
    ++server_.clients;
    server_.clients_by_id.Add(session.id,
                              {number, session.peer, session.local, session.user->name(),
                               session.Describe(session.connected_at)});
    clients_[number] = std::move(client);
  }
}

void EventLoop::Close(Client* client) {
  server_.clients_by_id.Remove(client->session().id);
  EndTransaction(&server_, &client->session());
  --server_.clients;
  clients_.erase(client->socket());
}

void EventLoop::KeepHouse(int64_t now) {
  constexpr int64_t kPeriod = 1000;
  if (now < house_kept_at_ + kPeriod) return;
  house_kept_at_ = now;
  for (const auto& [socket, client] : clients_) {
    if (client->session().active_at >= told_at_) TellClients(&server_, client->session(), now);
  }
  told_at_ = now;
  CloseIdle(now);
}

void EventLoop::CloseIdle(int64_t now) {
  if (limits_.idle_seconds == 0) return;
  std::vector<Client*> idle;
  for (const auto& [socket, client] : clients_) {
    if (now - client->session().active_at >= limits_.idle_seconds * 1000) {
      idle.push_back(client.get());
    }
  }
  server_.idle_clients += idle.size();
  for (Client* client : idle) Close(client);
}

void EventLoop::Run() {
  port::SetThreadName("dlsm serve");
  constexpr int kEvents = 256;
  constexpr int kTimeoutMs = 1000;
  std::array<epoll_event, kEvents> events;
  std::vector<Client*> ready;
  round_.emplace(server_.store);
  while (!stopping_) {
    const int count = epoll_wait(poll_.get(), events.data(), kEvents, kTimeoutMs);
    const int64_t now = UnixMilliseconds();
    received_at_ = port::Clock::now();
    ready.clear();
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.fd == wakeup_.get()) {
        TakeNew();
        continue;
      }
      const auto found = clients_.find(event.data.fd);
      if (found == clients_.end()) continue;
      Client* const client = found->second.get();
      uint64_t received = 0;
      // One that does not take its answers is not asked for more.
      if (client->unsent() < kUnsentMost) {
        client->broken = !client->Receive(scratch_.data(), scratch_.size(), &received);
      }
      server_.bytes_in += received;
      if (received > 0) client->session().active_at = now;
      ready.push_back(client);
    }
    OrEndForLackOfMemory([&] {
      Serve(ready);
      return true;
    });
    for (Client* client : ready) {
      if (client->broken) Close(client);
    }
    KeepHouse(now);
  }
}

void EventLoop::Serve(const std::vector<Client*>& clients) {
  bool goes_on = true;
  while (goes_on) {
    while (ServeRound(clients)) {
    }
    goes_on = false;
    for (Client* client : clients) {
      const bool was_full = client->unsent() >= kUnsentMost;
      SendTo(client);
      goes_on |= was_full && !client->broken && client->unsent() < kUnsentMost;
    }
  }
  for (Client* client : clients) {
    client->DropTaken();
    if (client->unparsed() > limits_.query_bytes) client->broken = true;
  }
}

bool EventLoop::ServeRound(const std::vector<Client*>& clients) {
  request_count_ = 0;
  reads_.clear();
  for (Client* client : clients) {
    if (!AddRequests(client, &*round_)) break;
  }
  if (request_count_ == 0) return false;
  ++server_.rounds;
  round_->Begin(&reads_, UnixMilliseconds());
  ReadElements();
  Answer(&*round_);
  return true;
}

void EventLoop::ReadElements() {
  reads_.clear();
  for (const Request& request : requests()) {
    if (request.refused || !request.uses_data || request.command == nullptr) continue;
    AddElementKeys(*round_, request.client->session(), *request.command, request.arguments,
                   &reads_);
  }
  // A single one is read by its command.
  if (reads_.size() > 1) round_->ReadElements(&reads_);
}

bool EventLoop::AddRequests(Client* client, Round* round) {
  bool first = true;
  while (!client->session().closes && client->unsent() < kUnsentMost) {
    if (request_count_ >= kRequestsInRound) return false;
    if (request_count_ == requests_.size()) requests_.emplace_back();
    Request& request = requests_[request_count_];
    request.client = client;
    request.taken_before = client->taken();
    client->parser().set_authenticated(client->session().authenticated);
    const RequestParser::State state = client->Peek(&request.arguments);
    if (state == RequestParser::State::kMore) return true;
    if (state == RequestParser::State::kError) {
      if (!first) return true;  // Requests before it are answered first.
      client->reply().Error(client->parser().error());
      client->session().closes = true;
      return true;
    }
    if (request.arguments.empty()) {
      client->Take();
      continue;
    }
    Needs& needs = needs_;
    FindNeeds(server_, client->session(), request.arguments, &needs);
    if (needs.alone && !first) return true;
    if (needs.all_keys) {
      if (request_count_ > 0) return false;
      round->LockAll();
    } else if (!needs.locks.empty()) {
      if (!round->Lock(needs.locks)) return true;
    }
    client->Take();
    request.command = needs.command;
    request.writes = needs.writes;
    request.uses_data = needs.uses_data;
    request.refused = needs.refused;
    reads_.insert(reads_.end(), std::make_move_iterator(needs.reads.begin()),
                  std::make_move_iterator(needs.reads.end()));
    ++request_count_;
    if (needs.all_keys) return false;
    if (needs.alone || client->parser().was_inline()) return true;
    first = false;
  }
  return true;
}

// The replies of a round whose writes have failed say so. A read behind the first write may
// have been of the round's own changes, which nobody else will see.
void EventLoop::Answer(Round* round) {
  std::unordered_set<Client*> full;
  size_t done = 0;
  for (size_t i = 0; i < request_count_; ++i) {
    Request& request = requests_[i];
    Client& client = *request.client;
    if (full.contains(&client)) continue;
    // A client with much to take does the rest when it has taken that.
    if (client.unsent() >= kUnsentMost) {
      client.GiveBackTo(request.taken_before);
      full.insert(&client);
      continue;
    }
    request.reply_begin = client.out().size();
    request.executed = Execute(&server_, &client.session(), round, request.command,
                               request.arguments, request.refused, &client.reply());
    request.reply_end = client.out().size();
    if (done != i) std::swap(requests_[done], request);
    ++done;
  }
  request_count_ = done;
  const auto start = port::Clock::now();
  const Status written = round->Commit();
  CountLatencies();
  server_.latency_monitor.AddIfSlow("commit", round->now(),
                                    static_cast<int64_t>(port::MicrosecondsSince(start)));
  if (written.ok()) return;
  std::unordered_map<Client*, std::string> replies;
  std::unordered_map<Client*, size_t> begins;
  bool written_to = false;
  for (const Request& request : requests()) {
    begins.emplace(request.client, request.reply_begin);
    std::string& out = replies[request.client];
    written_to |= request.writes;
    if (written_to && request.uses_data) {
      ++server_.errors;
      Reply(&out, 2).Error("ERR " + written.ToString());
    } else {
      out += request.client->out().substr(request.reply_begin,
                                          request.reply_end - request.reply_begin);
    }
  }
  for (const auto& [client, out] : replies) {
    client->out().resize(begins[client]);
    client->out() += out;
  }
}

// Neighbours are often alike: they are counted together.
void EventLoop::CountLatencies() {
  const std::chrono::nanoseconds taken = port::Clock::now() - received_at_;
  const auto nanos = static_cast<uint64_t>(taken.count());
  const auto command_of = [this](size_t i) {
    return requests_[i].executed ? requests_[i].command : nullptr;
  };
  for (size_t begin = 0; begin < request_count_;) {
    const Command* const command = command_of(begin);
    size_t end = begin + 1;
    while (end < request_count_ && command_of(end) == command) ++end;
    if (command != nullptr) latencies_.Add(*command, nanos, end - begin);
    begin = end;
  }
}

void EventLoop::SendTo(Client* client) {
  if (client->broken) return;
  uint64_t sent = 0;
  client->broken = !client->Send(&sent) || (client->session().closes && client->unsent() == 0);
  if (!client->broken && client->unsent() > limits_.output_bytes) {
    client->broken = true;
    ++server_.slow_clients;
  }
  server_.bytes_out += sent;
  // A client that has much to take is not asked for more, and one that has nothing not to take it.
  const uint32_t events = (client->unsent() < kUnsentMost ? uint32_t{EPOLLIN} : 0) |
                          (client->wants_to_send() ? uint32_t{EPOLLOUT} : 0);
  if (events == client->events || client->broken) return;
  client->events = events;
  epoll_event event{};
  event.events = events;
  event.data.fd = client->socket();
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, client->socket(), &event);
}

}  // namespace dlsm::serve
