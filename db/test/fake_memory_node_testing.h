// A memory node that only keeps accounts: grants and frees of one session, checked byte by byte.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "port/mutex.h"
#include "util/memory/extent_allocator.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// Thread-safe.
class FakeMemoryNode final : public RpcClient {
 public:
  explicit FakeMemoryNode(uint64_t bytes) : allocator_(bytes) {}

  // What is to happen to a call instead of its answer; OK: nothing. Called with no lock held.
  using Fault = std::function<Status(Method)>;
  void SetFault(Fault fault) {
    port::MutexLock lock(mutex_);
    fault_ = std::move(fault);
  }

  // Whether calls are carried out, but their answers get lost.
  void LoseAnswers(bool lose) {
    port::MutexLock lock(mutex_);
    lose_answers_ = lose;
  }

  Status Call(Method method, const Slice& request, std::string* reply, Deadline) override {
    Fault fault;
    {
      port::MutexLock lock(mutex_);
      fault = fault_;
    }
    if (fault) {
      const Status status = fault(method);
      if (!status.ok()) return status;
    }
    port::MutexLock lock(mutex_);
    const Status status = AnswerLocked(method, request, reply);
    if (!lose_answers_) return status;
    status.PermitUncheckedError();
    return Status::IOError("the answer is lost");
  }

  uint64_t used_bytes() const {
    port::MutexLock lock(mutex_);
    return allocator_.used_bytes();
  }
  uint64_t grants() const {
    port::MutexLock lock(mutex_);
    return grants_;
  }
  uint64_t frees() const {
    port::MutexLock lock(mutex_);
    return frees_;
  }
  // Takes memory as another database would; returns its offset.
  bool Take(uint64_t bytes, uint64_t* offset) {
    port::MutexLock lock(mutex_);
    return allocator_.Allocate(bytes, offset);
  }
  Status Return(uint64_t offset, uint64_t bytes) {
    port::MutexLock lock(mutex_);
    return allocator_.Free(offset, bytes);
  }

 private:
  Status AnswerLocked(Method method, const Slice& request, std::string* reply)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (method == Method::kGrant) return GrantLocked(request, reply);
    if (method == Method::kFree) return FreeLocked(request);
    return Status::NotSupported("not a call of a memory account");
  }

  Status GrantLocked(const Slice& bytes, std::string* reply) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    GrantRequest request;
    const Status decoded = request.Decode(bytes);
    if (!decoded.ok()) return decoded;
    if (const auto again = by_number_.find(request.number); again != by_number_.end()) {
      *reply = again->second;
      return Status::OK();
    }
    GrantReply granted;
    const uint64_t most = std::min(request.bytes, allocator_.largest_free_bytes());
    const uint64_t size = std::max(most, request.bytes_min);
    if (!allocator_.Allocate(size, &granted.extent.offset)) return Status::Busy("the fake is full");
    granted.extent.bytes = RoundUpToExtent(size);
    ++grants_;
    *reply = by_number_[request.number] = granted.Encode();
    if (by_number_.size() > GrantRequest::kGrantsRemembered) by_number_.erase(by_number_.begin());
    return Status::OK();
  }

  Status FreeLocked(const Slice& bytes) EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    FreeRequest request;
    const Status decoded = request.Decode(bytes);
    if (!decoded.ok()) return decoded;
    if (request.number <= last_free_) return Status::OK();
    last_free_ = request.number;
    ++frees_;
    for (const RemoteSpan& span : request.spans) {
      const Status freed = allocator_.Free(span.offset, span.bytes);
      if (!freed.ok()) return freed;
    }
    return Status::OK();
  }

  mutable port::Mutex mutex_;
  Fault fault_ GUARDED_BY(mutex_);
  ExtentAllocator allocator_ GUARDED_BY(mutex_);
  bool lose_answers_ GUARDED_BY(mutex_) = false;
  // The last answers to requests to grant.
  std::map<uint64_t, std::string> by_number_ GUARDED_BY(mutex_);
  uint64_t last_free_ GUARDED_BY(mutex_) = 0;
  uint64_t grants_ GUARDED_BY(mutex_) = 0;
  uint64_t frees_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
