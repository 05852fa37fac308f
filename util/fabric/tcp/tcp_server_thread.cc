#include "util/fabric/tcp/tcp_server_thread.h"

#include <fmt/core.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "port/error_text.h"
#include "port/sync_point.h"
#include "util/deadline.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/fabric/tls/tcp_wait.h"
#include "util/log.h"
#include "util/out_of_memory.h"

namespace dlsm {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

constexpr int kEventsMax = 64;
// The thread never blocks, so it obeys within one round of its loop; this only bounds a bug.
constexpr milliseconds kObeyWait{10'000};
// Where more connections are busy than there are threads, they must not go round and round.
constexpr milliseconds kBetweenHandOvers{10};
// A thread that was told of something after longer than that asks once more: a system call for each
// sleep that was worth the name, and none while there is much to do.
constexpr milliseconds kAskedLatelyMost = kTcpDrain / 20;

}  // namespace

Status TcpServerThread::Start(const RegionTable& regions, const TcpTokens& tokens,
                              MessageOrder* order, PollGroup& polls,
                              std::unique_ptr<TcpServerThread>* thread) {
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid()) return CannotOpen("a fabric thread", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake.get();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return Status::IOError(fmt::format("cannot start a fabric thread: {}", port::ErrorText(errno)));
  }
  thread->reset(
      new TcpServerThread(regions, tokens, order, polls, std::move(epoll), std::move(wake)));
  return Status::OK();
}

TcpServerThread::TcpServerThread(const RegionTable& regions, const TcpTokens& tokens,
                                 MessageOrder* order, PollGroup& polls, FileDescriptor epoll,
                                 FileDescriptor wake)
    : regions_(regions),
      tokens_(tokens),
      order_(order),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      poll_(polls),
      thread_([this] { Run(); }) {}

TcpServerThread::~TcpServerThread() { Stop(); }

void TcpServerThread::Stop() {
  {
    port::MutexLock lock(mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

void TcpServerThread::SetPeers(std::vector<TcpServerThread*> peers) {
  const port::MutexLock lock(mutex_);
  new_peers_ = std::move(peers);
}

void TcpServerThread::Adopt(TcpStream stream, const std::string& token) {
  {
    port::MutexLock lock(mutex_);
    adopted_.push_back({std::move(stream), token});
    connection_count_.fetch_add(1, std::memory_order_relaxed);
  }
  Wake();
}

Status TcpServerThread::CloseAll(const std::string& token) {
  port::MutexLock lock(mutex_);
  revoked_.push_back(token);
  const uint64_t order = ++orders_given_;
  Wake();
  const auto until = Clock::now() + kObeyWait;
  while (orders_obeyed_ < order && !ended_) {
    if (!obeyed_.WaitUntil(until) && orders_obeyed_ < order && !ended_) {
      return Status::TimedOut("a fabric thread has not closed the data connections of this client");
    }
  }
  return Status::OK();
}

void TcpServerThread::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is awake anyway.
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void TcpServerThread::Run() {
  Serve();
  connections_.clear();
  const port::MutexLock lock(mutex_);
  ended_ = true;
  obeyed_.SignalAll();
}

// The time is taken before the kernel is asked: taken afterwards, by a thread that has stood still
// in between, it would make news of what is old. While the thread sleeps, that time grows old,
// though what it is told when it wakes up may be new.
int TcpServerThread::Await(epoll_event* events, Deadline::Clock::time_point* asked_at) {
  poll_.Begin();
  idle_.store(true, std::memory_order_relaxed);
  int count = 0;
  while (count == 0) {
    const bool polls = poll_.Again();
    // It may sleep for hours: that is no reason for others to sleep at once.
    if (!polls) poll_.Leave();
    *asked_at = polls ? poll_.again_at() : Clock::now();
    count = Ask(events, polls ? 0 : -1);
    if (polls || count <= 0) continue;
    const auto woken_at = Clock::now();
    if (woken_at - *asked_at <= kAskedLatelyMost) continue;
    *asked_at = woken_at;
    count = Ask(events, 0);
  }
  idle_.store(false, std::memory_order_relaxed);
  poll_.End();
  return count;
}

int TcpServerThread::Ask(epoll_event* events, int timeout_ms) {
  const int count = ::epoll_wait(epoll_.get(), events, kEventsMax, timeout_ms);
  if (count > 0) port::SyncPoint("tcp server: asked");
  return count;
}

void TcpServerThread::Serve() {
  std::array<epoll_event, kEventsMax> events;
  while (true) {
    Clock::time_point asked_at;
    const int count = Await(events.data(), &asked_at);
    if (count < 0 && errno != EINTR) {
      Log().Critical("a fabric thread ends: epoll_wait: {}", port::ErrorText(errno));
      return;
    }
    const auto until = asked_at + kTcpDrain / 2;
    port::SyncPoint("tcp server: told");
    const std::span told(events.data(), static_cast<size_t>(std::max(count, 0)));
    const auto is_wake = [this](const epoll_event& event) { return event.data.fd == wake_.get(); };
    // Whoever gives orders waits.
    if (std::ranges::any_of(told, is_wake)) {
      if (!ObeyOrders()) return;
    } else if (told.size() > 1) {
      HandOverOneOf(told, asked_at);
    }
    HandleUntil(told, until);
  }
}

bool TcpServerThread::ObeyOrders() {
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof(count));
  std::vector<Adopted> adopted;
  std::vector<std::unique_ptr<TcpServerConnection>> handed_over;
  std::vector<std::string> revoked;
  uint64_t obeyed = 0;
  {
    port::MutexLock lock(mutex_);
    if (stopping_) return false;
    adopted.swap(adopted_);
    handed_over.swap(handed_over_);
    revoked.swap(revoked_);
    if (!new_peers_.empty()) peers_ = std::move(new_peers_);
    new_peers_.clear();
    obeyed = orders_given_;
  }
  // One for which there is no memory is closed, as others are.
  const auto unless_closed = [this](const auto& take) {
    try {
      port::AllocationPoint("tcp server: adopted");
      take();
    } catch (const std::bad_alloc&) {
      connection_count_.fetch_sub(1, std::memory_order_relaxed);
    }
  };
  for (Adopted& each : adopted) {
    unless_closed([&] { Register(std::move(each.stream), each.token); });
  }
  for (auto& each : handed_over) unless_closed([&] { TakeOver(std::move(each)); });
  for (const std::string& token : revoked) {
    CloseWhere([&](const TcpServerConnection& each) { return each.token() == token; });
  }
  port::MutexLock lock(mutex_);
  orders_obeyed_ = obeyed;
  obeyed_.SignalAll();
  return true;
}

void TcpServerThread::Register(TcpStream stream, const std::string& token) {
  std::string key;
  ReachPointer reach;
  // It may have been revoked since the hello, and CloseAll() have found nothing to close.
  if (!tokens_.Allowed(token, &key, &reach)) {
    stream.Shutdown();  // The client hears of it, as of a connection's end.
    connection_count_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  PrepareDataSocket(stream.get());
  // What an iterator has read ahead waits as long as its user does something else. The token of a
  // client that has vanished is revoked.
  AllowSlowReader(stream.get());
  Keep(std::make_unique<TcpServerConnection>(std::move(stream), token, std::move(reach), regions_,
                                             order_));
}

void TcpServerThread::TakeOver(std::unique_ptr<TcpServerConnection> connection) {
  std::string key;
  ReachPointer reach;
  // This thread may have obeyed CloseAll() before it had the connection, the other one afterwards.
  if (!tokens_.Allowed(connection->token(), &key, &reach)) {
    connection_count_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  Keep(std::move(connection));
}

void TcpServerThread::Keep(std::unique_ptr<TcpServerConnection> connection) {
  TcpServerConnection* const borrowed = connection.get();
  connections_[borrowed->socket()] = std::move(connection);
  Watch(borrowed, EPOLL_CTL_ADD);
}

void TcpServerThread::HandOverOneOf(std::span<const epoll_event> told, Clock::time_point now) {
  if (now < hand_over_again_at_) return;
  const auto peer =
      std::ranges::find_if(peers_, [](const TcpServerThread* each) { return each->idle(); });
  if (peer == peers_.end()) return;
  // The last would wait longest for its turn here.
  const auto found = connections_.find(told.back().data.fd);
  if (found == connections_.end()) return;
  // What it is told of and is not served here, the other one's epoll instance tells again.
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->first, nullptr) != 0) return;
  hand_over_again_at_ = now + kBetweenHandOvers;
  std::unique_ptr<TcpServerConnection> connection = std::move(found->second);
  connections_.erase(found);
  port::SyncPoint("tcp server: hands over");
  connection_count_.fetch_sub(1, std::memory_order_relaxed);
  try {
    (*peer)->Accept(std::move(connection));
  } catch (const std::bad_alloc&) {
    return;  // It is closed: the client makes another.
  }
  handed_over_count_.fetch_add(1, std::memory_order_relaxed);
}

void TcpServerThread::Accept(std::unique_ptr<TcpServerConnection> connection) {
  {
    const port::MutexLock lock(mutex_);
    handed_over_.push_back(std::move(connection));
    connection_count_.fetch_add(1, std::memory_order_relaxed);
  }
  Wake();
}

// A reset that has come after `until` is not among the events, so those that are left are told
// again; the next round begins with them, or the first would be served again and again.
void TcpServerThread::HandleUntil(std::span<epoll_event> told, Deadline::Clock::time_point until) {
  const auto first =
      std::ranges::find(told, left_at_, [](const auto& each) { return each.data.fd; });
  if (first != told.end()) std::rotate(told.begin(), first, told.end());
  left_at_ = -1;
  for (const epoll_event& event : told) {
    if (Clock::now() >= until) {
      left_at_ = event.data.fd;
      return;
    }
    if (event.data.fd != wake_.get()) Handle(event, until);
  }
}

void TcpServerThread::Handle(const epoll_event& event, Deadline::Clock::time_point until) {
  const auto found = connections_.find(event.data.fd);
  // An order earlier in this round may have closed it.
  if (found == connections_.end()) return;
  TcpServerConnection* const connection = found->second.get();
  // A reset says that the peer has given up on what it sent: none of it may take effect any more.
  const bool reset = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
  if (reset || !Serves(connection, until)) {
    Close(event.data.fd);
  } else {
    Watch(connection, EPOLL_CTL_MOD);
  }
}

// Of requests and answers for which there is no memory nothing can be made but the connection's
// end: the client makes another.
bool TcpServerThread::Serves(TcpServerConnection* connection, Deadline::Clock::time_point until) {
  try {
    port::AllocationPoint("tcp server: serve");
    const bool goes_on = connection->Serve(scratch_, until);
    CountTraffic(connection);
    return goes_on;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// This thread alone writes the counts.
void TcpServerThread::CountTraffic(TcpServerConnection* connection) {
  const auto add = [](std::atomic<uint64_t>* count, uint64_t bytes) {
    count->store(count->load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  };
  const TcpTraffic traffic = connection->TakeTraffic();
  add(&received_bytes_, traffic.received);
  add(&sent_bytes_, traffic.sent);
}

void TcpServerThread::Watch(TcpServerConnection* connection, int operation) {
  epoll_event event{};
  event.data.fd = connection->socket();
  if (connection->wants_to_receive()) event.events |= EPOLLIN;
  if (connection->wants_to_send()) event.events |= EPOLLOUT;
  if (operation == EPOLL_CTL_MOD && event.events == connection->watched_events) return;
  connection->watched_events = event.events;
  if (::epoll_ctl(epoll_.get(), operation, connection->socket(), &event) == 0) return;
  const int error = errno;
  IfMemoryPermits([&] {
    Log().Error("data connection of {} closed: epoll_ctl: {}", connection->peer(),
                port::ErrorText(error));
  });
  Close(connection->socket());
}

void TcpServerThread::Close(int socket) {
  Forget(socket);
  const size_t closed = connections_.erase(socket);
  connection_count_.fetch_sub(closed, std::memory_order_relaxed);
}

template <typename Condition>
void TcpServerThread::CloseWhere(Condition condition) {
  const size_t closed = std::erase_if(connections_, [&](const auto& each) {
    if (!condition(std::as_const(*each.second))) return false;
    Forget(each.first);
    return true;
  });
  connection_count_.fetch_sub(closed, std::memory_order_relaxed);
}

void TcpServerThread::Forget(int socket) {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
}

}  // namespace dlsm
