#include "db/follow/followed_node.h"

#include <algorithm>
#include <utility>

#include "port/clock.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/fabric/peer_spans.h"
#include "util/log.h"
#include "util/rpc/messages/database_header.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// The clocks of two machines run differently by much less than this.
constexpr int kClockMargin = 100;

}  // namespace

void ReaderLease::Renewed(Clock::time_point sent, std::chrono::nanoseconds lease) {
  const auto good_until = sent + lease - lease / kClockMargin;
  good_until_.store(good_until.time_since_epoch().count(), std::memory_order_relaxed);
  port::MutexLock lock(mutex_);
  why_ = Status::OK();
  why_.PermitUncheckedError();
}

void ReaderLease::NotRenewed(const Status& why) {
  port::MutexLock lock(mutex_);
  if (why_.ok()) why_ = why;
  // Who reads is told of the first, if anybody does.
  why_.PermitUncheckedError();
  why.PermitUncheckedError();
}

void ReaderLease::Ended(const Status& why) {
  good_until_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  NotRenewed(why);
}

Status ReaderLease::Check() const {
  if (Clock::now().time_since_epoch().count() < good_until_.load(std::memory_order_relaxed)) {
    return Status::OK();
  }
  port::MutexLock lock(mutex_);
  return Status::TimedOut("the lease of this follower on memory node " + node_ + " has ended" +
                              (why_.ok() ? std::string() : " (" + why_.ToString() + ")"),
                          "catch up, and make iterators and snapshots again");
}

std::chrono::nanoseconds ReaderLease::left() const {
  return std::chrono::nanoseconds(good_until_.load(std::memory_order_relaxed)) -
         Clock::now().time_since_epoch();
}

Status FollowedNode::Connect(const Options& options, const std::string& node,
                             const MergeScheduler* idle, std::unique_ptr<FollowedNode>* followed) {
  const auto lease = std::make_shared<ReaderLease>(node.empty() ? "embedded" : node);
  std::unique_ptr<MemoryNodeLink> link;
  DLSM_RETURN_IF_ERROR(MemoryNodeLink::Open(options, node, idle, &link, lease));
  followed->reset(new FollowedNode(options, lease, std::move(link)));
  return Status::OK();
}

Status FollowedNode::Open(const Options& options, const std::string& node,
                          std::vector<std::string> databases, const MergeScheduler* idle,
                          std::unique_ptr<FollowedNode>* followed) {
  std::unique_ptr<FollowedNode> made;
  DLSM_RETURN_IF_ERROR(Connect(options, node, idle, &made));
  DLSM_RETURN_IF_ERROR(made->OpenReader(std::move(databases)));
  *followed = std::move(made);
  return Status::OK();
}

Status FollowedNode::Open(const Options& options, const Publication::Place& place,
                          const MergeScheduler* idle, std::unique_ptr<FollowedNode>* followed) {
  std::unique_ptr<FollowedNode> made;
  DLSM_RETURN_IF_ERROR(Connect(options, place.node, idle, &made));
  // Where it is another memory node altogether, the caller has more to say.
  if (made->link().peer().node == place.id && !made->Has(place.contents)) {
    return Status::IOError("memory node " + place.node +
                               " has other contents than when the database was published: what was "
                               "published there is lost",
                           "follow it again when its owner has opened it again");
  }
  DLSM_RETURN_IF_ERROR(made->OpenReader(place.databases));
  *followed = std::move(made);
  return Status::OK();
}

Status FollowedNode::OpenReader(std::vector<std::string> databases) {
  OpenReaderRequest request;
  request.databases = std::move(databases);
  const auto sent = ReaderLease::Clock::now();
  std::string reply_bytes;
  DLSM_RETURN_IF_ERROR(link_->rpc().Call(Method::kOpenReader, request.Encode(), &reply_bytes,
                                         Deadline::In(timeout_)));
  OpenReaderReply opened;
  DLSM_RETURN_IF_ERROR(opened.Decode(reply_bytes));
  if (opened.header.bytes != kDatabaseHeaderBytes) {
    return Status::Corruption("malformed reply to open a reader", "its header has another size");
  }
  DLSM_RETURN_IF_ERROR(CheckSpanOf(link_->peer(), opened.header));
  opened_ = opened;
  databases_ = std::move(request.databases);
  lease_->Renewed(sent, lease_time());
  return Status::OK();
}

Status FollowedNode::CloseReader(ReaderId reader) {
  CloseReaderRequest request;
  request.reader = reader;
  std::string reply;
  return link_->rpc().Call(
      Method::kCloseReader, request.Encode(), &reply,
      Deadline::In(std::min<std::chrono::nanoseconds>(timeout_, lease_time())));
}

bool FollowedNode::Covers(const std::vector<std::string>& databases) const {
  return std::all_of(databases.begin(), databases.end(), [this](const std::string& name) {
    return std::find(databases_.begin(), databases_.end(), name) != databases_.end();
  });
}

Status FollowedNode::Cover(const std::vector<std::string>& databases) {
  std::vector<std::string> all = databases_;  // The first one stays the first.
  for (const std::string& name : databases) {
    if (!Covers({name})) all.push_back(name);
  }
  const ReaderId before = opened_.reader;
  renewing_.reset();
  Status status = OpenReader(std::move(all));
  const bool reopened = status.ok();
  KeepFirstError(Start(oldest_), &status);  // The old reader's lease, too, has to be renewed.
  if (reopened) KeepFirstError(CloseReader(before), &status);
  return status;
}

Status FollowedNode::Start(std::function<uint64_t()> oldest) {
  oldest_ = std::move(oldest);
  started_ = false;
  return StartingThreads([this] {
    pool_ = ThreadPool::OfThisProcess();
    renewing_ = std::make_unique<ThreadPool::Task>(pool_.get(), 1, [this] { return Renew(); });
    renewing_->Wake();
    return Status::OK();
  });
}

void FollowedNode::Stop(bool close) {
  renewing_.reset();
  if (!close) return;
  const Status closed = CloseReader(opened_.reader);
  if (closed.ok()) return;
  Log().Warn("a reader is left to its lease: {}", closed.message().ToStringView());
}

port::Clock::time_point FollowedNode::Renew() {
  const auto interval =
      HeartbeatIntervalFor(std::chrono::duration_cast<std::chrono::milliseconds>(lease_time()));
  if (!std::exchange(started_, true)) return port::Clock::now() + interval;
  const Status renewed = Heartbeat(oldest_(), &hurry_);
  if (renewed.IsAborted()) {
    lease_->Ended(Status::IOError(renewed.message()));
  } else if (!renewed.ok()) {
    lease_->NotRenewed(renewed);
  }
  return port::Clock::now() + (hurry_ ? interval / 8 : interval);
}

Status FollowedNode::Heartbeat(uint64_t oldest, bool* hurry) {
  if (faults_ != nullptr && faults_->Decide(Purpose::kRpc).kind != FaultKind::kNone) {
    return Status::IOError("an injected fault lost this heartbeat");
  }
  ReaderHeartbeatRequest request;
  request.reader = opened_.reader;
  request.oldest = oldest;
  const auto sent = ReaderLease::Clock::now();
  std::string reply_bytes;
  // An answer that comes later than this is of little use.
  const auto patience = std::min<std::chrono::nanoseconds>(timeout_, lease_time() / 2);
  DLSM_RETURN_IF_ERROR(link_->rpc().Call(Method::kReaderHeartbeat, request.Encode(), &reply_bytes,
                                         Deadline::In(patience)));
  ReaderHeartbeatReply reply;
  DLSM_RETURN_IF_ERROR(reply.Decode(reply_bytes));
  lease_->Renewed(sent, lease_time());
  *hurry = reply.must_move;
  return Status::OK();
}

}  // namespace dlsm
