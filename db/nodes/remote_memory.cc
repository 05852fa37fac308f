#include "db/nodes/remote_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "port/clock.h"
#include "port/sync_point.h"
#include "util/log.h"
#include "util/status_macros.h"

namespace dlsm {

RemoteSpan AllocatedSpan(const RemoteSpan& image) {
  RemoteSpan span = image;
  span.bytes = RoundUpToRemote(image.bytes);
  return span;
}

uint64_t TotalBytes(const std::vector<RemoteSpan>& spans) {
  uint64_t total = 0;
  for (const RemoteSpan& span : spans) total += span.bytes;
  return total;
}

RemoteMemory::RemoteMemory(const Config& config, RpcClient* rpc, Statistics* statistics)
    : config_(config),
      rpc_(rpc),
      statistics_(statistics),
      next_grant_bytes_(FirstGrant()),
      reserve_wanted_(FirstReserve()) {}

Status RemoteMemory::Allocate(uint64_t bytes, bool may_use_reserve, RemoteSpan* span) {
  DLSM_RETURN_IF_ERROR(
      AllocateFromAnywhere(RoundUpToRemote(std::max<uint64_t>(bytes, 1)), may_use_reserve, span));
  TellAllocated(*span);
  return Status::OK();
}

void RemoteMemory::TellAllocated(const RemoteSpan& span) {
  if (config_.allocated) config_.allocated(span);
}

Status RemoteMemory::AllocateFromAnywhere(uint64_t bytes, bool may_use_reserve, RemoteSpan* span) {
  uint64_t wanted;
  {
    port::MutexLock lock(mutex_);
    if (CutFrom(&granted_, bytes, span)) return Status::OK();
    wanted = std::max(next_grant_bytes_, bytes);
  }
  RemoteSpan extent;
  const Status granted = Grant(wanted, bytes, /*for_merge=*/false, &extent);
  port::MutexLock lock(mutex_);
  if (granted.ok()) {
    next_grant_bytes_ = std::min(config_.grant_bytes, 2 * wanted);
    // A piece for this table is no room for more data: that there is once the reserve is whole.
    if (MissingLocked() == 0) full_.store(false, std::memory_order_relaxed);
    // What is left of earlier grants is too small for what this database writes. Kept, it would
    // pile up with every grant.
    ReleasePoolLocked(&granted_);
    PutBackLocked(&granted_, extent);
    // Another thread may have cut from it, but then it has added a grant of its own.
    if (CutFrom(&granted_, bytes, span)) return Status::OK();
    return Status::Busy("remote memory was taken by another flush", "the flush is tried again");
  }
  if (granted.IsBusy()) {
    full_.store(true, std::memory_order_relaxed);
    full_reason_ = granted;
  }
  if (may_use_reserve && CutFrom(&reserve_, bytes, span)) return Status::OK();
  return granted;
}

Status RemoteMemory::AllocateForMerge(uint64_t bytes, RemoteSpan* span) {
  const uint64_t wanted = RoundUpToRemote(std::max<uint64_t>(bytes, 1));
  RemoteSpan extent;
  DLSM_RETURN_IF_ERROR(Grant(wanted, wanted, /*for_merge=*/true, &extent));
  {
    port::MutexLock lock(mutex_);
    for_merges_.push_back(extent);
  }
  *span = extent;
  TellAllocated(*span);
  return Status::OK();
}

bool RemoteMemory::AllocateFromReserve(uint64_t bytes, RemoteSpan* span) {
  {
    port::MutexLock lock(mutex_);
    if (!CutFrom(&reserve_, RoundUpToRemote(std::max<uint64_t>(bytes, 1)), span)) return false;
  }
  TellAllocated(*span);
  return true;
}

uint64_t RemoteMemory::idle_bytes() const {
  port::MutexLock lock(mutex_);
  return TotalBytes(granted_) + TotalBytes(reserve_) + queued_free_bytes();
}

void RemoteMemory::Shrink(const RemoteSpan& allocated, uint64_t bytes) {
  const uint64_t kept = RoundUpToRemote(bytes);
  if (kept >= allocated.bytes) return;
  port::MutexLock lock(mutex_);
  const RemoteSpan rest = allocated.Sub(kept, allocated.bytes - kept);
  if (std::erase(for_merges_, allocated) > 0) {
    FreeLocked(rest);
    return;
  }
  // The reserve is made whole first: what is over may have been cut from it.
  PutBackLocked(MissingLocked() == 0 ? &granted_ : &reserve_, rest);
}

void RemoteMemory::Free(const RemoteSpan& span) {
  if (span.bytes == 0) return;
  port::MutexLock lock(mutex_);
  std::erase(for_merges_, span);
  FreeLocked(span);
}

void RemoteMemory::FreeLocked(const RemoteSpan& span) {
  to_free_.push_back(span);
  queued_free_bytes_.fetch_add(span.bytes, std::memory_order_relaxed);
}

Status RemoteMemory::SendFrees() {
  port::MutexLock sending(sending_);
  if (unanswered_.has_value()) DLSM_RETURN_IF_ERROR(SendUnanswered());
  FreeRequest request;
  request.session = config_.session;
  size_t gathered;  // The first ones; who frees adds others behind them.
  {
    port::MutexLock lock(mutex_);
    gathered = to_free_.size();
  }
  if (gathered == 0) return Status::OK();
  // Read after the spans were queued, so it is not too small for any.
  if (config_.unnamed_from != nullptr) {
    request.unnamed_from = config_.unnamed_from->load(std::memory_order_acquire);
  }
  port::SyncPoint("frees: gathered");
  // After they have been gathered: what comes later may be freed too early yet.
  DLSM_RETURN_IF_ERROR(CheckFrees());
  {
    port::MutexLock lock(mutex_);
    const auto end = to_free_.begin() + static_cast<ptrdiff_t>(gathered);
    request.spans.assign(to_free_.begin(), end);
    request.number = ++batches_;
    unanswered_ = std::move(request);
    to_free_.erase(to_free_.begin(), end);
  }
  return SendUnanswered();
}

// Who freed a span had waited for its writes, or has seen their queue pair closed; so what of them
// may still land was known before the span was queued. A batch without an answer, which goes out
// again, has been here.
Status RemoteMemory::CheckFrees() const {
  if (config_.fabric != nullptr && config_.fabric->MayStillLand()) {
    return Status::IOError(
        "memory cannot be given back to a memory node yet: an earlier queue pair to it has not "
        "been taken down, and its writes could land in what others would have by then",
        "is the memory node overloaded, or its network down?");
  }
  return config_.before_frees ? config_.before_frees() : Status::OK();
}

Status RemoteMemory::SendUnanswered() {
  const Statistics::Mine counters = statistics_->OfThisThread();
  const uint64_t bytes = TotalBytes(unanswered_->spans);
  std::string reply;
  const Status status =
      rpc_->Call(Method::kFree, unanswered_->Encode(), &reply, Deadline::In(config_.timeout));
  if (!status.ok() && !status.IsInvalidArgument()) return status;
  unanswered_.reset();
  queued_free_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  counters.Add(Ticker::kFreedBytes, bytes);
  if (!status.ok()) {
    // The memory node does not know the spans as ours: they are lost, not to be tried again.
    Log().Error("memory node refused to take back {} bytes: {}", bytes,
                status.message().ToStringView());
  }
  return status;
}

Status RemoteMemory::full_reason() const {
  port::MutexLock lock(mutex_);
  return full_reason_;
}

void RemoteMemory::ReleaseAll() {
  {
    port::MutexLock lock(mutex_);
    ReleasePoolLocked(&granted_);
    ReleasePoolLocked(&reserve_);
  }
  const Status status = SendFrees();
  if (status.ok()) return;
  Log().Warn("remote memory is left to the session's end: {}", status.message().ToStringView());
}

Status RemoteMemory::Grant(uint64_t bytes, uint64_t bytes_min, bool for_merge, RemoteSpan* extent) {
  const auto until = port::Clock::now() + config_.timeout;
  GrantRequest request;
  request.session = config_.session;
  request.bytes = bytes;
  request.bytes_min = bytes_min;
  request.for_merge = for_merge;
  while (request.number == 0) {
    DLSM_RETURN_IF_ERROR(FindLostGrants());
    port::MutexLock lock(mutex_);
    if (!unsettled_.test(PlaceOf(grants_ + 1))) {
      request.number = ++grants_;
      unsettled_.set(PlaceOf(request.number));
    } else if (lost_grants_.empty() && !grants_changed_.WaitUntil(until)) {
      return Status::TimedOut("an earlier request for remote memory has had no answer yet");
    }
  }
  return Call(request, extent);
}

Status RemoteMemory::FindLostGrants() {
  while (true) {
    GrantRequest request;
    {
      port::MutexLock lock(mutex_);
      if (lost_grants_.empty()) return Status::OK();
      request = lost_grants_.back();
      lost_grants_.pop_back();
    }
    RemoteSpan extent;
    const Status status = Call(request, &extent);
    if (Unanswered(status)) return status;
    if (!status.ok()) continue;  // There is no room for it, so it never was granted.
    Free(extent);
  }
}

Status RemoteMemory::Call(const GrantRequest& request, RemoteSpan* extent) {
  GrantReply reply;
  std::string reply_bytes;
  Status status =
      rpc_->Call(Method::kGrant, request.Encode(), &reply_bytes, Deadline::In(config_.timeout));
  if (status.ok()) status = reply.Decode(reply_bytes);
  {
    port::MutexLock lock(mutex_);
    if (Unanswered(status)) {
      lost_grants_.push_back(request);
    } else {
      unsettled_.reset(PlaceOf(request.number));
    }
    grants_changed_.SignalAll();
  }
  DLSM_RETURN_IF_ERROR(status);
  statistics_->Add(Ticker::kGrants);
  if (reply.extent.bytes < request.bytes_min ||
      reply.extent.bytes > RoundUpToRemote(request.bytes)) {
    return Status::Corruption("memory node granted something else than was asked for");
  }
  if (config_.check_extent) DLSM_RETURN_IF_ERROR(config_.check_extent(reply.extent));
  *extent = reply.extent;
  return Status::OK();
}

void RemoteMemory::ReleasePoolLocked(std::vector<RemoteSpan>* pool) {
  for (const RemoteSpan& span : *pool) FreeLocked(span);
  pool->clear();
}

// First fit.
bool RemoteMemory::CutFrom(std::vector<RemoteSpan>* pool, uint64_t bytes, RemoteSpan* span) {
  for (auto at = pool->begin(); at != pool->end(); ++at) {
    if (at->bytes < bytes) continue;
    *span = at->Sub(0, bytes);
    *at = at->Sub(bytes, at->bytes - bytes);
    if (at->bytes == 0) pool->erase(at);
    return true;
  }
  return false;
}

// Joins the span with those it touches.
void RemoteMemory::PutBackLocked(std::vector<RemoteSpan>* pool, RemoteSpan span) {
  for (auto at = pool->begin(); at != pool->end();) {
    const bool same_region = at->node == span.node && at->region == span.region;
    if (same_region && at->offset + at->bytes == span.offset) {
      span.offset = at->offset;
      span.bytes += at->bytes;
      at = pool->erase(at);
    } else if (same_region && span.offset + span.bytes == at->offset) {
      span.bytes += at->bytes;
      at = pool->erase(at);
    } else {
      ++at;
    }
  }
  pool->push_back(span);
}

}  // namespace dlsm
