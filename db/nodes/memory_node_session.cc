#include "db/nodes/memory_node_session.h"

#include <chrono>
#include <utility>

#include "port/clock.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A memory node sees that a process is gone a moment after it is: until then, the database is open.
constexpr std::chrono::milliseconds kDisconnectNoticed{500};

// TimedOut says that the database's holder is gone and its lease about to end; Busy, that it is not
// known to be gone.
bool WorthWaitingFor(const Status& status, Deadline noticed) {
  return status.IsTimedOut() || (status.IsBusy() && !noticed.Passed());
}

Status SendDestroy(const Options& options, const DestroyDatabaseRequest& request, RpcClient* rpc) {
  std::string reply;
  const Status status =
      rpc->Call(Method::kDestroyDatabase, request.Encode(), &reply,
                Deadline::In(std::chrono::milliseconds(options.operation_timeout_ms)));
  return status.IsNotFound() ? Status::OK() : status;
}

}  // namespace

MemoryNodeSession::MemoryNodeSession(RpcClient* rpc, std::string name, OpenDatabaseReply opened,
                                     Clock::time_point asked_at, std::chrono::nanoseconds timeout)
    : rpc_(rpc),
      name_(std::move(name)),
      opened_(std::move(opened)),
      asked_at_(asked_at),
      timeout_(timeout),
      manifest_version_(opened_.manifest_version) {}

MemoryNodeSession::~MemoryNodeSession() {
  const Status status = OrEndForLackOfMemory([this] { return Close(); });
  if (status.ok()) return;
  Log().Warn("the session is left to its lease: {}", status.message().ToStringView());
}

Status MemoryNodeSession::Open(const Options& options, const std::string& name, RpcClient* rpc,
                               std::unique_ptr<MemoryNodeSession>* session) {
  OpenDatabaseRequest request;
  request.name = name;
  request.create_if_missing = options.create_if_missing;
  request.error_if_exists = options.error_if_exists;
  request.take_over = options.take_over;
  const auto timeout = std::chrono::milliseconds(options.operation_timeout_ms);
  const Deadline deadline = Deadline::In(std::chrono::milliseconds(options.open_timeout_ms));
  const Deadline noticed = Deadline::In(kDisconnectNoticed);
  std::string reply_bytes;
  Clock::time_point asked_at;
  Status status;
  while (true) {
    asked_at = Clock::now();
    status =
        rpc->Call(Method::kOpenDatabase, request.Encode(), &reply_bytes, Deadline::In(timeout));
    if (!WorthWaitingFor(status, noticed) || deadline.Passed()) break;
    port::SleepFor(std::chrono::milliseconds(50));
  }
  DLSM_RETURN_IF_ERROR(status);
  OpenDatabaseReply reply;
  DLSM_RETURN_IF_ERROR(reply.Decode(reply_bytes));
  session->reset(new MemoryNodeSession(rpc, name, std::move(reply), asked_at, timeout));
  return Check((*session)->opened_);
}

Status MemoryNodeSession::Check(const OpenDatabaseReply& reply) {
  if (reply.header.bytes == kDatabaseHeaderBytes) return Status::OK();
  return Status::Corruption("malformed reply to open a database", "its header has another size");
}

// When a session ends others may get what was the header of a new database, and over shm nothing
// keeps a swap from it. An eighth is for this thread to come to it.
Status MemoryNodeSession::CheckOfferLasts() const {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - asked_at_);
  if (age < lease() - lease() / 8) return Status::OK();
  return Status::TimedOut(
      "memory nodes answer so late that the session with '" + name_ + "' may have ended already",
      "open the database again; are they overloaded?");
}

Status MemoryNodeSession::TakeOwnership(QueuePairs* queue_pairs) {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs->ForThisThread(opened_.header.node, &queue_pair));
  DLSM_RETURN_IF_ERROR(CheckOfferLasts());
  uint64_t prior = 0;  // The answer below says more of a swap that failed.
  Ticket ticket{};
  DLSM_RETURN_IF_ERROR(
      queue_pair->PostCompareAndSwap(OwnershipWordIn(opened_.header), opened_.ownership_before,
                                     opened_.ownership_word, &prior, Purpose::kRpc, &ticket));
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(ticket, Deadline::In(timeout_)));
  OpenDatabaseRequest request;
  request.name = name_;
  request.claimed = opened_.session;
  std::string reply_bytes;
  DLSM_RETURN_IF_ERROR(
      rpc_->Call(Method::kOpenDatabase, request.Encode(), &reply_bytes, Deadline::In(timeout_)));
  OpenDatabaseReply reply;
  DLSM_RETURN_IF_ERROR(reply.Decode(reply_bytes));
  DLSM_RETURN_IF_ERROR(Check(reply));
  opened_ = std::move(reply);
  manifest_version_ = opened_.manifest_version;
  return Status::OK();
}

Status MemoryNodeSession::CheckOwned() const {
  HeartbeatRequest request;
  request.session = opened_.session;
  request.publications_from = HeartbeatRequest::kPublicationsUnknown;
  std::string reply;
  const Status answered =
      rpc_->Call(Method::kHeartbeat, request.Encode(), &reply, Deadline::In(timeout_));
  if (answered.IsIOFenced()) {
    return Status::IOFenced("another has taken this database over while it was opened",
                            answered.message());
  }
  // As every other call of such a session says it.
  return answered.IsAborted() ? Status::IOError(answered.message()) : answered;
}

Status MemoryNodeSession::AwaitRevocation(Deadline deadline) const {
  constexpr std::chrono::milliseconds kPause(2);
  HeartbeatRequest request;
  request.session = opened_.session;
  request.publications_from = HeartbeatRequest::kPublicationsUnknown;
  while (true) {
    std::string bytes;
    DLSM_RETURN_IF_ERROR(
        rpc_->Call(Method::kHeartbeat, request.Encode(), &bytes, Deadline::In(timeout_)));
    HeartbeatReply reply;
    DLSM_RETURN_IF_ERROR(reply.Decode(bytes));
    if (!reply.former_reaches) return Status::OK();
    if (deadline.Passed()) {
      return Status::TimedOut(
          "the access of the former owner of '" + name_ + "' could not be taken away so far",
          "open the database again; the memory node's log says what it waits for");
    }
    port::SleepFor(kPause);
  }
}

Status MemoryNodeSession::Destroy(const Options& options, const std::string& name,
                                  DatabaseIncarnation incarnation, RpcClient* rpc) {
  DestroyDatabaseRequest request;
  request.name = name;
  request.incarnation = incarnation;
  return SendDestroy(options, request, rpc);
}

Status MemoryNodeSession::DestroyUnused(const Options& options, const std::string& name,
                                        DatabaseIncarnation incarnation,
                                        uint64_t manifest_version_max, RpcClient* rpc) {
  DestroyDatabaseRequest request;
  request.name = name;
  request.incarnation = incarnation;
  request.if_unused = true;
  request.manifest_version_max = manifest_version_max;
  return SendDestroy(options, request, rpc);
}

Status MemoryNodeSession::Put(const std::string& manifest, std::vector<RemoteSpan> live) {
  PutManifestRequest request;
  request.session = opened_.session;
  // A lost answer leaves open whether the version was taken: the next one is larger either way.
  request.version = ++manifest_version_;
  request.live = std::move(live);
  {
    port::MutexLock lock(mutex_);
    if (kept_.bytes > 0) request.live.push_back(kept_);
  }
  std::string frame;
  DLSM_RETURN_IF_ERROR(WithinMemory([&] {  // As large as the manifest.
    request.manifest = manifest;
    frame = request.Encode();
    return Status::OK();
  }));
  std::string reply;
  return rpc_->Call(Method::kPutManifest, frame, &reply, Deadline::In(timeout_));
}

Status MemoryNodeSession::Close(uint64_t unnamed_from) {
  if (std::exchange(closed_, true)) return Status::OK();
  if (fabric_ != nullptr && fabric_->MayStillLand()) {
    return Status::IOError(
        "an earlier queue pair to the memory node of '" + name_ +
            "' has not been taken down, and its writes could still land: the session is left to "
            "the end of its lease",
        "its manifest is whole; is the memory node overloaded, or its network down?");
  }
  CloseDatabaseRequest request;
  request.session = opened_.session;
  request.unnamed_from = unnamed_from;
  std::string reply;
  return rpc_->Call(Method::kCloseDatabase, request.Encode(), &reply, Deadline::In(timeout_));
}

}  // namespace dlsm
