// The compute node's account of its database's memory on one memory node.
//
// Tables written by flushes and local merges are cut out of large grants, without a call for each.
// Whatever a database gives back, grants' parts and outputs of the memory node's merges alike,
// goes back in batches. A reserve is kept so that memtables can still be flushed, and deletions
// thereby take effect, when the memory node is full.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dLSM/statistics.h"
#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/fabric/fabric.h"
#include "util/fabric/remote_address.h"
#include "util/rpc/messages.h"
#include "util/rpc/rpc.h"

namespace dlsm {

// Memory nodes allocate in units of this many bytes.
inline constexpr uint64_t kRemoteAlignment = 64;
// What the memory node has allocated for a table with this image.
RemoteSpan AllocatedSpan(const RemoteSpan& image);

// Thread-safe.
class RemoteMemory {
 public:
  struct Config {
    SessionId session{};
    uint64_t grant_bytes = 0;    // Asked for at a time.
    uint64_t reserve_bytes = 0;  // Kept for when the memory node is full; 0: none.
    std::chrono::nanoseconds timeout{};
    // Whether an extent that was granted can be one. Empty: all can.
    std::function<Status(const RemoteSpan&)> check_extent;
    // Told what is about to be written, on the thread that will. Empty: nobody wants to know.
    std::function<void(const RemoteSpan&)> allocated;
    // No publication from this one on names what is freed now; null: there are no followers. It
    // outlives this.
    const std::atomic<uint64_t>* unnamed_from = nullptr;
    // Called when frees have been gathered and are about to be sent; an error keeps them queued.
    // Empty: nothing is to be done before.
    std::function<Status()> before_frees;
    // Whose transfers reach that memory: nothing is given back while one that was given up may
    // still land. Null: there are none. It outlives this.
    const FabricConnection* fabric = nullptr;
  };
  // Both outlive this.
  RemoteMemory(const Config& config, RpcClient* rpc, Statistics* statistics);

  // A span of at least `bytes`; give back what is not needed with Shrink(). If the memory node is
  // full and `may_use_reserve`, out of the reserve.
  Status Allocate(uint64_t bytes, bool may_use_reserve, RemoteSpan* span) LOCKS_EXCLUDED(mutex_);
  // Out of the reserve, without asking the memory node. False if it has no such piece.
  bool AllocateFromReserve(uint64_t bytes, RemoteSpan* span) LOCKS_EXCLUDED(mutex_);
  // Keeps the first `bytes` of what Allocate() returned.
  void Shrink(const RemoteSpan& allocated, uint64_t bytes) LOCKS_EXCLUDED(mutex_);

  // Of tables' destructors, which cannot fail: a span has come into being that may have to be freed
  // some day, and has its place in the queue from now on; and it is no more.
  void ExpectFree() LOCKS_EXCLUDED(mutex_);
  void ForgoFree() noexcept LOCKS_EXCLUDED(mutex_);
  // Queues a span to be given back by the next SendFrees(). Where the process has no memory for one
  // that was not expected, it is left to the session's end.
  void Free(const RemoteSpan& span) noexcept LOCKS_EXCLUDED(mutex_);
  // Gives back what is queued. On an error it stays queued; so it does, with an IOError, while a
  // write could still land in what others would have by then.
  Status SendFrees() LOCKS_EXCLUDED(mutex_, sending_);
  uint64_t queued_free_bytes() const { return queued_free_bytes_.load(std::memory_order_relaxed); }

  // Held here, and used by no table: parts of grants, the reserve, and what is about to go back.
  uint64_t idle_bytes() const LOCKS_EXCLUDED(mutex_);

  // Fills the reserve if it was used or never was filled, and makes one piece of it where it has
  // become many small ones that no table fits into. False while the memory node is full.
  bool RefillReserve() LOCKS_EXCLUDED(mutex_, sending_);
  // Whether a grant for a table was refused because the memory node is full, and the reserve has
  // not been filled since: as long as data could still use up what deletions will need.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  Status full_reason() const LOCKS_EXCLUDED(mutex_);

  // Gives back everything that no table uses. The last call.
  void ReleaseAll() LOCKS_EXCLUDED(mutex_);

 private:
  Status AllocateFromAnywhere(uint64_t bytes, bool may_use_reserve, RemoteSpan* span)
      LOCKS_EXCLUDED(mutex_);
  void TellAllocated(RemoteSpan* span) LOCKS_EXCLUDED(mutex_);
  Status Grant(uint64_t bytes, uint64_t bytes_min, RemoteSpan* extent) LOCKS_EXCLUDED(mutex_);
  // Whether what has been gathered can be given to others.
  Status CheckFrees() const;
  Status SendUnanswered() EXCLUSIVE_LOCKS_REQUIRED(sending_) LOCKS_EXCLUDED(mutex_);
  void FreeLocked(const RemoteSpan& span) noexcept EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a request that is among those under way; then no more.
  Status Call(const GrantRequest& request, RemoteSpan* extent) LOCKS_EXCLUDED(mutex_);
  Status AskFor(const GrantRequest& request, GrantReply* reply);
  // Asks again for what may have been granted without anybody knowing. An error: the memory node
  // still does not answer.
  Status FindLostGrants() LOCKS_EXCLUDED(mutex_);
  // Whether what was asked for may have been done.
  static bool Unanswered(const Status& status) {
    return status.IsIOError() || status.IsTimedOut() || status.IsCorruption();
  }
  // Of the reserve.
  uint64_t MissingLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReserveIsInCrumbsLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // By one that is whole, if there is such a piece.
  void ReplaceReserve() LOCKS_EXCLUDED(mutex_, sending_);
  // When to try what was refused: not every time it is asked.
  class Patience {
   public:
    bool Due() { return waits_ == 0 || --waits_ == 0; }
    void Tried(bool granted) { waits_ = granted ? 0 : kCallsBetween; }

   private:
    static constexpr int kCallsBetween = 64;
    int waits_ = 0;
  };
  void ReleasePoolLocked(std::vector<RemoteSpan>* pool) noexcept EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool CutFrom(std::vector<RemoteSpan>* pool, uint64_t bytes, RemoteSpan* span);
  // Where there is no memory for one more piece, that goes back to the memory node.
  void PutBackLocked(std::vector<RemoteSpan>* pool, RemoteSpan span) noexcept
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;
  RpcClient* const rpc_;
  Statistics* const statistics_;
  std::atomic<bool> full_{false};
  std::atomic<uint64_t> queued_free_bytes_{0};

  port::Mutex sending_;  // One batch at a time. Taken before mutex_.
  uint64_t batches_ GUARDED_BY(sending_) = 0;
  // The last batch, if nobody knows what became of it; it goes out again as it is, before others.
  std::optional<FreeRequest> unanswered_ GUARDED_BY(sending_);

  // Never held across a call. The lists hold a handful of spans.
  mutable port::Mutex mutex_;
  std::vector<RemoteSpan> granted_ GUARDED_BY(mutex_);  // Parts of grants not in use.
  std::vector<RemoteSpan> reserve_ GUARDED_BY(mutex_);
  Patience replacing_ GUARDED_BY(mutex_);               // The reserve.
  std::vector<RemoteSpan> to_free_ GUARDED_BY(mutex_);  // With room for all that are expected.
  size_t frees_expected_ GUARDED_BY(mutex_) = 0;
  Status full_reason_ GUARDED_BY(mutex_);
  uint64_t grants_ GUARDED_BY(mutex_) = 0;
  // Requests without an answer. What they were granted is ours, wherever it is. With room for those
  // that are under way.
  std::vector<GrantRequest> lost_grants_ GUARDED_BY(mutex_);
  size_t grants_under_way_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
