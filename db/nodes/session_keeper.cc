#include "db/nodes/session_keeper.h"

#include <algorithm>
#include <string>

#include "db/nodes/memory_node_link.h"

namespace dlsm {

SessionKeeper::SessionKeeper(ThreadPool* pool) : task_(pool, 1, [this] { return Run(); }) {}

SessionKeeper::~SessionKeeper() { task_.Stop(); }

void SessionKeeper::Add(const MemoryNodeSession& session, RpcClient* rpc) {
  const std::chrono::milliseconds interval = HeartbeatIntervalFor(session.lease());
  {
    port::MutexLock lock(mutex_);
    kept_.push_back({session.id(), rpc, interval, Clock::now() + interval});
  }
  task_.Wake();
}

SessionKeeper::Clock::time_point SessionKeeper::Run() {
  auto next = Clock::time_point::max();
  while (!task_.stopping()) {
    const std::optional<Kept> due = TakeDue(&next);
    if (!due.has_value()) break;
    SendHeartbeat(*due);
  }
  return next;
}

std::optional<SessionKeeper::Kept> SessionKeeper::TakeDue(Clock::time_point* next) {
  port::MutexLock lock(mutex_);
  const auto first = std::min_element(kept_.begin(), kept_.end(),
                                      [](const Kept& a, const Kept& b) { return a.next < b.next; });
  if (first == kept_.end()) return std::nullopt;
  const auto now = Clock::now();
  *next = first->next;
  if (first->next > now) return std::nullopt;
  first->next = now + first->interval;
  return *first;
}

// No longer than the others can wait. What has failed the work that is to come meets too, which can
// say more of it.
void SessionKeeper::SendHeartbeat(const Kept& kept) {
  HeartbeatRequest request;
  request.session = kept.session;
  request.publications_from = HeartbeatRequest::kPublicationsUnknown;
  std::string reply;
  const Status answered =
      kept.rpc->Call(Method::kHeartbeat, request.Encode(), &reply, Deadline::In(kept.interval));
  if (answered.ok()) return;
  // Its other sessions must not keep those at memory nodes that do answer waiting.
  port::MutexLock lock(mutex_);
  for (Kept& each : kept_) {
    if (each.rpc == kept.rpc) each.next = Clock::now() + each.interval;
  }
}

}  // namespace dlsm
