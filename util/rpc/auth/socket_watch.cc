#include "util/rpc/auth/socket_watch.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <variant>

#include "port/error_text.h"
#include "port/thread_name.h"
#include "util/shared_instances.h"
#include "util/status_macros.h"

namespace dlsm {

Status SocketWatch::OfClients(std::shared_ptr<SocketWatch>* watch) {
  static constinit SharedInstances<std::monostate, SocketWatch> watches;
  const auto make = [](std::shared_ptr<SocketWatch>* made) { return Start("dlsm replies", made); };
  return watches.Get({}, make, watch);
}

Status SocketWatch::Start(const std::string& name, std::shared_ptr<SocketWatch>* watch) {
  std::shared_ptr<SocketWatch> made(new SocketWatch(name));
  DLSM_RETURN_IF_ERROR(made->Open());
  *watch = std::move(made);
  return Status::OK();
}

Status SocketWatch::Open() {
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  stop_ = FileDescriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kStop;
  if (!epoll_.valid() || !stop_.valid() ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &event) != 0) {
    return Status::IOError("no descriptors to wait for connections with", port::ErrorText(errno));
  }
  thread_ = port::Thread([this] { Run(); });
  return Status::OK();
}

SocketWatch::~SocketWatch() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  static_cast<void>(!write(stop_.get(), &one, sizeof(one)));
  thread_.join();
}

Status SocketWatch::Add(int socket, Calls calls, Source* source, uint64_t* id) {
  const uint32_t events = calls == Calls::kAlways ? EPOLLIN : EPOLLIN | EPOLLONESHOT;
  const port::MutexLock lock(mutex_);
  const uint64_t added = last_id_ + 1;
  sources_.emplace(added, Added{source, socket, events});
  *id = added;
  epoll_event event{};
  event.events = events;
  event.data.u64 = added;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) != 0) {
    const int error = errno;
    sources_.erase(added);
    return Status::IOError("a connection cannot be waited for", port::ErrorText(error));
  }
  last_id_ = added;
  return Status::OK();
}

void SocketWatch::Resume(uint64_t id) {
  const port::MutexLock lock(mutex_);
  const auto found = sources_.find(id);
  if (found == sources_.end()) return;
  epoll_event event{};
  event.events = found->second.events;
  event.data.u64 = id;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.socket, &event);
}

void SocketWatch::Remove(uint64_t id) {
  const port::MutexLock lock(mutex_);
  const auto found = sources_.find(id);
  if (found != sources_.end()) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.socket, nullptr);
    sources_.erase(found);
  }
  while (calling_ == id) called_.Wait();
}

void SocketWatch::Run() {
  port::SetThreadName(name_);
  std::array<epoll_event, 64> events;
  bool has_more = false;
  while (true) {
    const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 /*timeout=*/has_more ? 0 : -1);
    for (int i = 0; i < ready; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kStop) return;
      has_more |= Call(id);
    }
    if (has_more) has_more = CallForMore();
  }
}

bool SocketWatch::Call(uint64_t id) {
  Source* source = nullptr;
  {
    const port::MutexLock lock(mutex_);
    const auto found = sources_.find(id);
    if (found == sources_.end()) return false;
    source = found->second.source;
    calling_ = id;
  }
  const Source::Outcome outcome = source->Ready();
  const port::MutexLock lock(mutex_);
  calling_ = kStop;
  called_.SignalAll();
  const auto found = sources_.find(id);
  if (found == sources_.end()) return false;  // It was removed meanwhile.
  found->second.has_more = outcome == Source::Outcome::kMore;
  if (outcome == Source::Outcome::kEnded) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.socket, nullptr);
    sources_.erase(found);
  }
  return outcome == Source::Outcome::kMore;
}

bool SocketWatch::CallForMore() {
  bool any = false;
  for (uint64_t id = kStop; true;) {
    {
      const port::MutexLock lock(mutex_);
      auto next = sources_.upper_bound(id);
      while (next != sources_.end() && !next->second.has_more) ++next;
      if (next == sources_.end()) return any;
      id = next->first;
    }
    any |= Call(id);
  }
}

}  // namespace dlsm
