#include "db/nodes/sleeping_sessions.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "util/fabric/decorators/fault_injector.h"
#include "util/rpc/node_connection.h"
#include "util/shared_instances.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// What handles have in common that reach a memory node alike, with the same rights; so that a call
// of one of them can speak for all.
using Way = std::tuple<ThreadPool*, std::string, std::string, std::string, bool, std::string,
                       std::string, NodeConnector*, FaultInjector*, std::chrono::milliseconds>;

}  // namespace

std::shared_ptr<SleepingSessions> SleepingSessions::Of(const Options& options,
                                                       const std::string& node,
                                                       std::chrono::milliseconds interval) {
  static constinit SharedInstances<Way, SleepingSessions> instances;
  std::shared_ptr<ThreadPool> pool = ThreadPool::OfThisProcess();
  const Way way(pool.get(), node, options.access_name, options.secret_file, options.tls,
                options.rpc_transport, options.fabric, options.node_connector.get(),
                options.fault_injector.get(), interval);
  std::shared_ptr<SleepingSessions> sessions;
  const auto make = [&](std::shared_ptr<SleepingSessions>* made) {
    *made = std::make_shared<SleepingSessions>(std::move(pool), interval);
    return Status::OK();
  };
  instances.Get(way, make, &sessions).PermitUncheckedError();  // Cannot fail.
  return sessions;
}

SleepingSessions::SleepingSessions(std::shared_ptr<ThreadPool> pool,
                                   std::chrono::milliseconds interval)
    : pool_(std::move(pool)),
      interval_(interval),
      task_(pool_.get(), 1, [this] { return Run(); }) {}

bool SleepingSessions::Add(Sleeper* sleeper) {
  const port::MutexLock lock(mutex_);
  if (unknown_) return false;
  const bool first = sleepers_.empty();
  sleeper->number = ++last_number_;
  sleepers_.emplace(sleeper->number, sleeper);
  if (first) {
    next_ = Clock::now() + interval_;
    task_.Wake();  // It says when it is to be called.
  }
  return true;
}

void SleepingSessions::Remove(Sleeper* sleeper) {
  const port::MutexLock lock(mutex_);
  sleepers_.erase(sleeper->number);
  while (calling_ && last_caller_ == sleeper->number) called_.Wait();
}

SleepingSessions::Clock::time_point SleepingSessions::Run() {
  {
    const port::MutexLock lock(mutex_);
    if (sleepers_.empty()) return Clock::time_point::max();
    if (Clock::now() < next_) return next_;
    next_ = Clock::now() + interval_;
  }
  RenewAll();
  const port::MutexLock lock(mutex_);
  return next_;
}

void SleepingSessions::RenewAll() {
  std::vector<Asked> all;
  std::vector<SessionId> sessions;
  {
    const port::MutexLock lock(mutex_);
    for (const auto& [number, sleeper] : sleepers_) {
      all.push_back({number, sleeper->sessions.size()});
      sessions.insert(sessions.end(), sleeper->sessions.begin(), sleeper->sessions.end());
    }
  }
  auto next = sessions.begin();
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    size_t count = 0;
    while (end < all.size() && count + all[end].sessions <= RenewSessionsRequest::kSessionsMax) {
      count += all[end++].sessions;
    }
    RenewSessionsRequest request;
    request.sessions.assign(next, next + static_cast<ptrdiff_t>(count));
    next += static_cast<ptrdiff_t>(count);
    RenewSessionsReply reply;
    const Status status = Call(request, &reply);
    Tell(std::span(all).subspan(begin, end - begin), status, reply);
  }
}

Status SleepingSessions::Call(const RenewSessionsRequest& request, RenewSessionsReply* reply) {
  RpcClient* rpc;
  {
    const port::MutexLock lock(mutex_);
    auto caller = sleepers_.upper_bound(last_caller_);
    if (caller == sleepers_.end()) caller = sleepers_.begin();
    if (caller == sleepers_.end()) return Status::Aborted("nobody sleeps any more");
    last_caller_ = caller->first;
    calling_ = true;
    rpc = caller->second->rpc;
  }
  std::string bytes;
  Status status =
      rpc->Call(Method::kRenewSessions, request.Encode(), &bytes, Deadline::In(interval_));
  if (status.ok()) status = reply->Decode(bytes);
  if (status.ok() && reply->sessions.size() != request.sessions.size()) {
    status = Status::Corruption("a memory node has answered for other sessions");
  }
  const port::MutexLock lock(mutex_);
  unknown_ |= status.IsNotSupported();
  calling_ = false;
  called_.SignalAll();
  return status;
}

void SleepingSessions::Tell(std::span<const Asked> asked, const Status& status,
                            const RenewSessionsReply& reply) {
  const port::MutexLock lock(mutex_);
  std::span<const RenewedSession> rest(reply.sessions);
  for (const Asked& each : asked) {
    const auto own = status.ok() ? rest.first(each.sessions) : std::span<const RenewedSession>();
    if (status.ok()) rest = rest.subspan(each.sessions);
    const auto sleeper = sleepers_.find(each.number);
    if (sleeper == sleepers_.end()) continue;
    const bool renewed = status.ok() && std::ranges::all_of(own, &RenewedSession::renewed);
    if (renewed) {
      sleeper->second->renewed(own);
    } else {
      sleeper->second->forgotten();
    }
  }
}

}  // namespace dlsm
