#include "db/session_keeper.h"

#include <algorithm>
#include <string>

#include "db/memory_node_link.h"
#include "port/allocation_point.h"
#include "util/out_of_memory.h"

namespace dlsm {

SessionKeeper::SessionKeeper() : thread_([this] { Run(); }) {}

SessionKeeper::~SessionKeeper() {
  {
    port::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void SessionKeeper::Add(const MemoryNodeSession& session, RpcClient* rpc) {
  const std::chrono::milliseconds interval = HeartbeatIntervalFor(session.lease());
  port::MutexLock lock(mutex_);
  kept_.push_back({session.id(), rpc, interval, Clock::now() + interval});
  changed_.Signal();
}

void SessionKeeper::Run() {
  while (const std::optional<Kept> due = AwaitDue()) SendHeartbeat(*due);
}

std::optional<SessionKeeper::Kept> SessionKeeper::AwaitDue() {
  port::MutexLock lock(mutex_);
  while (!stopping_) {
    const auto first = std::min_element(
        kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.next < b.next; });
    if (first == kept_.end()) {
      changed_.Wait();
    } else if (const auto now = Clock::now(); first->next > now) {
      changed_.WaitUntil(first->next);
    } else {
      first->next = now + first->interval;
      return *first;
    }
  }
  return std::nullopt;
}

// No longer than the others can wait. What has failed the work that is to come meets too, which can
// say more of it.
void SessionKeeper::SendHeartbeat(const Kept& kept) {
  const Status answered = WithinMemory([&kept] {
    port::AllocationPoint("opening: heartbeat");
    HeartbeatRequest request;
    request.session = kept.session;
    request.publications_from = HeartbeatRequest::kPublicationsUnknown;
    std::string reply;
    return kept.rpc->Call(Method::kHeartbeat, request.Encode(), &reply,
                          Deadline::In(kept.interval));
  });
  if (answered.ok()) return;
  // Its other sessions must not keep those at memory nodes that do answer waiting.
  port::MutexLock lock(mutex_);
  for (Kept& each : kept_) {
    if (each.rpc == kept.rpc) each.next = Clock::now() + each.interval;
  }
}

}  // namespace dlsm
