#include "util/fabric/verbs/verbs_events.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "port/error_text.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/starting_threads.h"

namespace dlsm {

Status VerbsHealth::why() const {
  const port::MutexLock lock(mutex_);
  return why_;
}

void VerbsHealth::Break(const Status& why) {
  const port::MutexLock lock(mutex_);
  why.PermitUncheckedError();  // Also where another one was first.
  if (!why_.ok()) return;
  why_ = why;
  broken_.store(true, std::memory_order_release);
  if (on_break_) on_break_();
}

void VerbsHealth::OnBreak(std::function<void()> call) {
  const port::MutexLock lock(mutex_);
  on_break_ = std::move(call);
  if (on_break_ && !why_.ok()) on_break_();
}

Status VerbsEvents::Watch(const VerbsLibrary& library, ibv_context* context,
                          const std::string& name, uint8_t port, CheckAddress check,
                          std::unique_ptr<VerbsEvents>* events) {
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return CannotOpen("watching the events of RDMA device " + name, errno);
  const int flags = ::fcntl(context->async_fd, F_GETFL);
  if (flags < 0 || ::fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return Status::IOError(fmt::format("the events of RDMA device {} cannot be watched: {}", name,
                                       port::ErrorText(errno)));
  }
  return StartingThreads([&] {
    events->reset(new VerbsEvents(library, context, name, port, std::move(check), std::move(wake)));
    return Status::OK();
  });
}

VerbsEvents::VerbsEvents(const VerbsLibrary& library, ibv_context* context, std::string name,
                         uint8_t port, CheckAddress check, FileDescriptor wake)
    : library_(library),
      context_(context),
      name_(std::move(name)),
      port_(port),
      check_(std::move(check)),
      wake_(std::move(wake)),
      thread_([this] { Run(); }) {}

VerbsEvents::~VerbsEvents() {
  const uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof(one)));
  thread_.join();
}

std::shared_ptr<VerbsHealth> VerbsEvents::Enroll(const ibv_qp* queue_pair,
                                                 const ibv_cq* completions) {
  Member member;
  member.completions = completions;
  member.health = std::make_shared<VerbsHealth>();
  std::shared_ptr<VerbsHealth> health = member.health;
  Status failed;
  {
    const port::MutexLock lock(mutex_);
    members_[queue_pair] = std::move(member);
    failed = device_;
  }
  if (!failed.ok()) health->Break(failed);
  return health;
}

void VerbsEvents::SetAddress(const ibv_qp* queue_pair, const VerbsOwnAddress& own) {
  const port::MutexLock lock(mutex_);
  Member& member = members_.at(queue_pair);
  member.addressed = true;
  member.own = own;
}

void VerbsEvents::Leave(const ibv_qp* queue_pair) {
  const port::MutexLock lock(mutex_);
  members_.erase(queue_pair);
}

VerbsEventCounts VerbsEvents::counts() const {
  const port::MutexLock lock(mutex_);
  return counts_;
}

Status VerbsEvents::device() const {
  const port::MutexLock lock(mutex_);
  return device_;
}

std::string VerbsEvents::PortTrouble() const {
  const port::MutexLock lock(mutex_);
  return port_down_ ? fmt::format("; port {} of RDMA device {} is down", port_, name_) : "";
}

void VerbsEvents::Run() {
  while (true) {
    pollfd waited[2] = {{context_->async_fd, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (::poll(waited, 2, -1) < 0 && errno != EINTR) {
      Log().Critical("the events of RDMA device {} are not watched any more: {}", name_,
                     port::ErrorText(errno));
      return;
    }
    if (waited[1].revents != 0) return;
    if (waited[0].revents != 0 && !TakeAll()) return;
  }
}

bool VerbsEvents::TakeAll() {
  while (true) {
    ibv_async_event event{};
    errno = 0;
    if (library_.get_async_event(context_, &event) == 0) {
      // What there is no memory to tell of shows itself by what fails.
      IfMemoryPermits([&] { Take(event); });
      // Destroying a queue pair waits for this.
      library_.ack_async_event(&event);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
    DeviceFailed(port::ErrorText(errno).c_str());
    return false;
  }
}

void VerbsEvents::Take(const ibv_async_event& event) {
  const char* const what = library_.event_type_str(event.event_type);
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      return DeviceFailed(what);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_CQ_ERR:
      return QueuePairFailed(event, what);
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
      if (event.element.port_num == port_) {
        return PortChanged(event.event_type == IBV_EVENT_PORT_ERR);
      }
      break;
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
      if (event.element.port_num == port_) return AddressChanged(what);
      break;
    default:
      break;
  }
  Log().Info("RDMA device {} reports: {}", name_, what);
  const port::MutexLock lock(mutex_);
  ++counts_.others;
}

void VerbsEvents::DeviceFailed(const char* what) {
  const Status why = Status::IOError(
      fmt::format("RDMA device {} has failed ({}): look for its driver's messages in the kernel's "
                  "log; once it is back, open the database again, or restart Server",
                  name_, what));
  why.PermitUncheckedError();  // Also where another one was first.
  std::vector<std::shared_ptr<VerbsHealth>> all;
  {
    const port::MutexLock lock(mutex_);
    // One that has failed may go, too, or report it again: the first cause stays.
    if (!device_.ok()) return;
    ++counts_.device_failures;
    device_ = why;
    device_.PermitUncheckedError();  // It is there for who asks.
    for (const auto& [queue_pair, member] : members_) all.push_back(member.health);
  }
  Log().Critical("{} ({} queue pairs are lost)", why.message().ToStringView(), all.size());
  for (const auto& health : all) health->Break(why);
}

void VerbsEvents::QueuePairFailed(const ibv_async_event& event, const char* what) {
  const bool by_completions = event.event_type == IBV_EVENT_CQ_ERR;
  const Status why = Status::IOError(fmt::format(
      "RDMA device {} reports that a queue pair has failed: {}; it is made again by the next "
      "transfer; should that happen often, look at the device's counters and the kernel's log",
      name_, what));
  std::vector<std::shared_ptr<VerbsHealth>> concerned;
  {
    const port::MutexLock lock(mutex_);
    ++counts_.queue_pair_failures;
    for (const auto& [queue_pair, member] : members_) {
      const bool is_it =
          by_completions ? member.completions == event.element.cq : queue_pair == event.element.qp;
      if (is_it) concerned.push_back(member.health);
    }
  }
  Log().Error("{}", why.message().ToStringView());
  for (const auto& health : concerned) health->Break(why);
}

void VerbsEvents::PortChanged(bool down) {
  {
    const port::MutexLock lock(mutex_);
    ++(down ? counts_.port_downs : counts_.port_ups);
    port_down_ = down;
  }
  if (down) {
    Log().Warn(
        "port {} of RDMA device {} is down: transfers wait for it and fail after a while; check "
        "its cable, switch and network interface",
        port_, name_);
  } else {
    Log().Info("port {} of RDMA device {} is active", port_, name_);
  }
}

void VerbsEvents::AddressChanged(const char* what) {
  std::vector<std::pair<VerbsOwnAddress, std::shared_ptr<VerbsHealth>>> all;
  {
    const port::MutexLock lock(mutex_);
    ++counts_.address_changes;
    for (const auto& [queue_pair, member] : members_) {
      if (member.addressed) all.emplace_back(member.own, member.health);
    }
  }
  size_t lost = 0;
  for (const auto& [own, health] : all) {
    const Status status = check_(own);
    if (status.ok()) continue;
    ++lost;
    health->Break(status);
  }
  if (lost == 0) {
    Log().Info("RDMA device {} port {} reports: {}", name_, port_, what);
  } else {
    Log().Warn(
        "RDMA device {} port {} reports: {}; {} queue pairs have lost their address, and are made "
        "again with another: give the network interface its address back if it is not to change",
        name_, port_, what, lost);
  }
}

}  // namespace dlsm
