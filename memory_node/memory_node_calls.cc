// What a memory node does for each method that it is called with.
#include <fmt/core.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "memory_node/accounts/call_rights.h"
#include "memory_node/memory_node.h"
#include "port/allocation_point.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// What every call with a request begins with, but a merge: it can be decoded, there is memory for
// what is to come, and the peer may ask for it. Otherwise nothing has begun.
template <typename Request>
Status Begin(const RpcPeer& peer, const Slice& bytes, Request* request) {
  DLSM_RETURN_IF_ERROR(request->Decode(bytes));
  port::AllocationPoint("memory node: call");
  RequireSpareMemory();
  return CheckMayAsk(peer, *request);
}

// One call, to be answered at once. Outlived by what it is made of.
class Call {
 public:
  Call(const RpcPeer& peer, const Slice& request, const RpcDone& done)
      : peer_(peer), request_(request), done_(done) {}

  // With what `method` of `server` makes of the request. Some need not know the peer, and some make
  // nothing but a Status.
  template <typename Server, typename Request, typename Reply>
  void Answer(Server& server,
              Status (Server::*method)(const RpcPeer&, const Request&, Reply*)) const {
    AnswerWithReply<Request, Reply>([&](const Request& request, Reply* reply) {
      return (server.*method)(peer_, request, reply);
    });
  }
  template <typename Server, typename Request, typename Reply>
  void Answer(Server& server, Status (Server::*method)(const Request&, Reply*)) const {
    AnswerWithReply<Request, Reply>(
        [&](const Request& request, Reply* reply) { return (server.*method)(request, reply); });
  }
  template <typename Server, typename Request>
  void Answer(Server& server, Status (Server::*method)(const RpcPeer&, const Request&)) const {
    AnswerWithStatus<Request>(
        [&](const Request& request) { return (server.*method)(peer_, request); });
  }
  template <typename Server, typename Request>
  void Answer(Server& server, Status (Server::*method)(const Request&)) const {
    AnswerWithStatus<Request>([&](const Request& request) { return (server.*method)(request); });
  }

  // A call without a request: with what `function` returns.
  template <typename Function>
  void AnswerWith(Function function) const {
    Finish([&](std::string* reply) {
      port::AllocationPoint("memory node: call");
      *reply = function().Encode();
      return Status::OK();
    });
  }

 private:
  template <typename Request, typename Reply, typename Function>
  void AnswerWithReply(Function function) const {
    Finish([&](std::string* bytes) -> Status {
      Request request;
      Reply reply;
      DLSM_RETURN_IF_ERROR(Begin(peer_, request_, &request));
      DLSM_RETURN_IF_ERROR(function(request, &reply));
      *bytes = reply.Encode();
      return Status::OK();
    });
  }

  template <typename Request, typename Function>
  void AnswerWithStatus(Function function) const {
    Finish([&](std::string*) -> Status {
      Request request;
      DLSM_RETURN_IF_ERROR(Begin(peer_, request_, &request));
      return function(request);
    });
  }

  template <typename Function>
  void Finish(Function function) const {
    std::string reply;
    const Status status = WithinMemory([&] { return function(&reply); }, &OutOfNodeMemory);
    done_(status, status.ok() ? std::move(reply) : std::string());
  }

  const RpcPeer& peer_;
  const Slice& request_;
  const RpcDone& done_;
};

// A call that is answered later, by what `begin` is given. If `begin` fails, its error is the
// answer. Where there is no memory both may happen: the client is told of what comes first.
template <typename Function>
void AnswerLater(const RpcDone& done, Function begin) {
  std::shared_ptr<std::atomic<bool>> told;
  const Status status = WithinMemory(
      [&]() -> Status {
        told = std::make_shared<std::atomic<bool>>(false);
        return begin([done, told](const Status& answer) {
          if (!told->exchange(true)) done(answer, std::string());
        });
      },
      &OutOfNodeMemory);
  if (!status.ok() && (told == nullptr || !told->exchange(true))) done(status, std::string());
}

// What a call changes that is to be there after a restart.
enum class Stores {
  kNothing,    // Or what its client says again.
  kStored,     // Its answer is given when the change outlives the process,
  kPersisted,  // or the machine.
};

Stores StoresOf(Method method) {
  switch (method) {
    case Method::kOpenDatabase:
    case Method::kPutManifest:
    case Method::kDestroyDatabase:
    case Method::kSetQuota:
      return Stores::kPersisted;
    case Method::kGrant:
    case Method::kFree:
    case Method::kMerge:
    case Method::kCloseDatabase:
      return Stores::kStored;
    default:
      return Stores::kNothing;
  }
}

bool TakesRoom(Method method) {
  return method == Method::kOpenDatabase || method == Method::kGrant || method == Method::kMerge ||
         method == Method::kPutManifest;
}

}  // namespace

RpcDone MemoryNode::AfterStored(Method method, RpcDone done) {
  const Stores stores = StoresOf(method);
  if (stores == Stores::kNothing) return done;
  return [this, persisted = stores == Stores::kPersisted, done = std::move(done)](
             const Status& status, std::string reply) {
    // Of a call that has failed, too: it may have ended a session before.
    store_->WhenStored(persisted && status.ok(),
                       [done, status, reply = std::move(reply)](const Status& stored) {
                         done(stored.ok() ? status : stored, stored.ok() ? reply : std::string());
                       });
  };
}

void MemoryNode::Handle(const RpcPeer& peer, Method method, const Slice& request, RpcDone done) {
  const auto number = static_cast<size_t>(method);
  if (number < kMethodCount) {
    calls_[number].fetch_add(1, std::memory_order_relaxed);
    request_bytes_[number].fetch_add(request.size(), std::memory_order_relaxed);
  }
  if (store_ != nullptr) {
    const Status stores = StoresOf(method) == Stores::kNothing ? Status::OK() : store_->Check();
    // What gives memory back may make the room that a full disk has not.
    if (!stores.ok() && (!stores.IsBusy() || TakesRoom(method))) return done(stores, "");
    done = AfterStored(method, std::move(done));
  }
  const Call call(peer, request, done);
  switch (method) {
    case Method::kOpenDatabase:
      return call.Answer(databases_, &DatabaseTable::Open);
    case Method::kHeartbeat:
      return call.Answer(*this, &MemoryNode::Heartbeat);
    case Method::kRenewSessions:
      return call.Answer(*this, &MemoryNode::RenewSessions);
    case Method::kGrant:
      return call.Answer(databases_, &DatabaseTable::Grant);
    case Method::kFree:
      return call.Answer(databases_, &DatabaseTable::Free);
    case Method::kMerge:
      return merges_.Submit(peer, request, std::move(done));
    case Method::kPutManifest:
      return call.Answer(databases_, &DatabaseTable::PutManifest);
    case Method::kCloseDatabase:
      return Close(peer, request, done);
    case Method::kDestroyDatabase:
      return call.Answer(databases_, &DatabaseTable::Destroy);
    case Method::kListDatabases:
      return call.AnswerWith([&] { return ListFor(peer); });
    case Method::kNodeStatistics:
      return call.AnswerWith([&] { return Statistics(); });
    case Method::kSetMergeSchedule:
      return call.Answer(*this, &MemoryNode::SetMergeSchedule);
    case Method::kSetQuota:
      return call.Answer(databases_, &DatabaseTable::SetQuota);
    case Method::kOpenReader:
      return call.Answer(databases_, &DatabaseTable::OpenReader);
    case Method::kReaderHeartbeat:
      return call.Answer(databases_, &DatabaseTable::RenewReader);
    case Method::kCloseReader:
      return call.Answer(databases_, &DatabaseTable::CloseReader);
    case Method::kPersist:
      return Persist(peer, request, done);
  }
  done(Status::NotSupported(fmt::format("memory node {} knows no method {}",
                                        static_cast<uint32_t>(options_.node), number)),
       std::string());
}

Status MemoryNode::Heartbeat(const RpcPeer& peer, const HeartbeatRequest& request,
                             HeartbeatReply* reply) {
  DLSM_RETURN_IF_ERROR(databases_.Heartbeat(peer, request));
  reply->merges = merges_.Load();
  reply->free_bytes = databases_.FreeBytesFor(request.session);
  reply->grantable_bytes = databases_.GrantableBytesFor(request.session);
  reply->others_want_room = databases_.OthersWantRoom(request.session);
  reply->former_reaches = databases_.FormerReaches(request.session);
  return Status::OK();
}

Status MemoryNode::RenewSessions(const RpcPeer& peer, const RenewSessionsRequest& request,
                                 RenewSessionsReply* reply) {
  reply->sessions.reserve(request.sessions.size());
  for (const SessionId session : request.sessions) {
    RenewedSession& renewed = reply->sessions.emplace_back();
    renewed.renewed = databases_.Renew(peer, session);
    if (!renewed.renewed) continue;
    renewed.free_bytes = databases_.FreeBytesFor(session);
    renewed.grantable_bytes = databases_.GrantableBytesFor(session);
    renewed.others_want_room = databases_.OthersWantRoom(session);
  }
  return Status::OK();
}

ListDatabasesReply MemoryNode::ListFor(const RpcPeer& peer) const {
  ListDatabasesReply list = databases_.List();
  FilterFor(peer, &list);
  return list;
}

Status MemoryNode::SetMergeSchedule(const RpcPeer& peer, const SetMergeScheduleRequest& request,
                                    SetMergeScheduleReply* reply) {
  DLSM_RETURN_IF_ERROR(merges_.SetSchedule(request, reply));
  if (request.schedule.empty() && !request.sets_budget) return Status::OK();
  // Others may wonder why their merges go differently.
  Log().Warn("{} sets the schedule of the merges of all databases: {}, {}", peer.name,
             reply->schedule,
             reply->bytes_per_second == 0
                 ? "no limit"
                 : fmt::format("{} bytes of input a second", reply->bytes_per_second));
  return Status::OK();
}

// Answered when the memory is free: who opens the database next, or needs room, finds it so.
void MemoryNode::Close(const RpcPeer& peer, const Slice& request, const RpcDone& done) {
  AnswerLater(done, [&](std::function<void(const Status&)> answer) -> Status {
    CloseDatabaseRequest close;
    DLSM_RETURN_IF_ERROR(Begin(peer, request, &close));
    return databases_.Close(peer, close, [answer = std::move(answer)] { answer(Status::OK()); });
  });
}

void MemoryNode::Persist(const RpcPeer& peer, const Slice& request, const RpcDone& done) {
  AnswerLater(done, [&](std::function<void(const Status&)> answer) -> Status {
    PersistRequest persist;
    DLSM_RETURN_IF_ERROR(Begin(peer, request, &persist));
    DLSM_RETURN_IF_ERROR(databases_.CheckOwned(peer, persist.session));
    DLSM_RETURN_IF_ERROR(CheckPersistable(persist));
    persist_(std::move(persist.spans), [this, answer = std::move(answer)](const Status& persisted) {
      answer(AfterPersist(persisted));
    });
    return Status::OK();
  });
}

Status MemoryNode::CheckPersistable(const PersistRequest& request) const {
  const RegionInfo& region = region_->info();
  for (const RemoteSpan& span : request.spans) {
    if (span.node != options_.node || span.region != region.id || span.offset > region.bytes ||
        span.bytes > region.bytes - span.offset) {
      return Status::InvalidArgument(
          fmt::format("a span to be persisted is not in the memory of memory node {}",
                      static_cast<uint32_t>(options_.node)));
    }
  }
  if (persist_ == nullptr) {
    return Status::InvalidArgument(fmt::format("memory node {} has no files to persist anything in",
                                               static_cast<uint32_t>(options_.node)),
                                   "start Server with --data_dir");
  }
  const port::MutexLock lock(mutex_);
  return files_failed_;
}

// Kernels report what they could not write only once: what is tried again seems to succeed. The
// answer that says so may have been lost, so each later call gets it as well.
Status MemoryNode::AfterPersist(const Status& persisted) {
  const port::MutexLock lock(mutex_);
  if (persisted.IsIOError() && files_failed_.ok()) {
    files_failed_ = Status::Aborted(
        fmt::format("memory node {} could not write its files, and persists nothing any more",
                    static_cast<uint32_t>(options_.node)),
        persisted.message());
    Log().Error("{}", files_failed_.message().ToStringView());
  }
  return files_failed_.ok() ? persisted : files_failed_;
}

}  // namespace dlsm
