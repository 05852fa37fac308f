// The compute node's account of its database's memory on one memory node.
//
// Tables written by flushes and local merges are cut out of grants, without a call for each. Grants
// are small at first, and each is larger than the one before. Whatever a database gives back,
// grants' parts and outputs of the memory node's merges alike, goes back in batches. A reserve is
// kept so that memtables can still be flushed, and deletions thereby take effect, when the memory
// node is full. It is small at first, too, and grows before the memtables do (flush_room.h).
//
// remote_memory.cc has allocation, frees and grants, remote_memory_reserve.cc the reserve.
#pragma once

#include <algorithm>
#include <atomic>
#include <bitset>
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
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// Memory nodes allocate in units of this many bytes.
inline constexpr uint64_t kRemoteAlignment = 64;
// What of a remote memory's bytes is allocated for so many.
inline uint64_t RoundUpToRemote(uint64_t bytes) {
  return (bytes + kRemoteAlignment - 1) / kRemoteAlignment * kRemoteAlignment;
}
// What the memory node has allocated for a table with this image.
RemoteSpan AllocatedSpan(const RemoteSpan& image);
uint64_t TotalBytes(const std::vector<RemoteSpan>& spans);

// Thread-safe.
class RemoteMemory {
 public:
  struct Config {
    SessionId session{};
    uint64_t grant_bytes = 0;  // The most that is asked for at a time, but for a larger table.
    // What is asked for at first, twice as much each time after that; 0: grant_bytes.
    uint64_t first_grant_bytes = 0;
    // The most that is kept for when the memory node is full; 0: nothing ever is.
    uint64_t reserve_bytes = 0;
    // That is less than all memtables need, because the memory node is small beside them.
    bool reserve_is_limited = false;
    uint64_t first_reserve_bytes = UINT64_MAX;  // Of that, before GrowReserve() is called.
    std::chrono::nanoseconds timeout{};
    // Checks an extent that the memory node says it has granted: that is another machine's word.
    // Empty: all are believed.
    std::function<Status(const RemoteSpan&)> check_extent;
    // Called with each span that Allocate() returns, by the thread that is going to write there.
    // Empty: nobody needs that.
    std::function<void(const RemoteSpan&)> allocated;
    // The number of the first publication that does not name what is freed now: followers with
    // older ones may still read it. Null: there are no followers. Outlives this.
    const std::atomic<uint64_t>* unnamed_from = nullptr;
    // Called when frees have been gathered and are about to be sent; an error keeps them queued.
    // Empty: nothing is to be done before.
    std::function<Status()> before_frees;
    // Over which this memory is written: nothing is given back while one of its writes that was
    // given up may still land. Null: there are no such writes. Outlives this.
    const FabricConnection* fabric = nullptr;
  };
  // Both outlive this.
  RemoteMemory(const Config& config, RpcClient* rpc, Statistics* statistics);

  // A span of at least `bytes`, out of a grant, which may take a call; give back what is not needed
  // with Shrink(). If the memory node is full and `may_use_reserve`, out of the reserve; otherwise
  // Busy. Also Busy where another thread was faster; other errors are those of the call.
  Status Allocate(uint64_t bytes, bool may_use_reserve, RemoteSpan* span) LOCKS_EXCLUDED(mutex_);
  // For the output of a merge that makes room, where Allocate() is Busy: out of what the memory
  // node keeps for merges. Flushes get nothing of that, so what Shrink() leaves over goes back.
  Status AllocateForMerge(uint64_t bytes, RemoteSpan* span) LOCKS_EXCLUDED(mutex_);
  // Out of the reserve, without asking the memory node. False if it has no such piece.
  bool AllocateFromReserve(uint64_t bytes, RemoteSpan* span) LOCKS_EXCLUDED(mutex_);
  // Keeps the first `bytes` of what Allocate() returned.
  void Shrink(const RemoteSpan& allocated, uint64_t bytes) LOCKS_EXCLUDED(mutex_);

  // Queues a span to be given back by the next SendFrees().
  void Free(const RemoteSpan& span) LOCKS_EXCLUDED(mutex_);
  // Gives back what is queued. On an error it stays queued, also while a write that was given up
  // could still land there (an IOError); but what the memory node does not know as this database's
  // (InvalidArgument) is let go of.
  Status SendFrees() LOCKS_EXCLUDED(mutex_, sending_);
  uint64_t queued_free_bytes() const { return queued_free_bytes_.load(std::memory_order_relaxed); }

  // What the database has there and no table uses: parts of grants, the reserve, queued frees.
  uint64_t idle_bytes() const LOCKS_EXCLUDED(mutex_);

  // The reserve is to have this much, if it is to have less so far; RefillReserve() sees to it.
  void GrowReserve(uint64_t bytes) LOCKS_EXCLUDED(mutex_);
  // Fills the reserve if it was used, has grown or never was filled, and makes one piece of it
  // where it has become many small ones that no table fits into. False while the memory node is
  // full.
  bool RefillReserve() LOCKS_EXCLUDED(mutex_, sending_);
  // Somebody has waited in vain for a reserve of this size: the memory node is full until there is
  // room for it.
  void NoteUnfilled() LOCKS_EXCLUDED(mutex_);
  // Memtables of how many bytes can be flushed into the reserve. UINT64_MAX: all that there may be;
  // or the memory node has not answered when it was last to be filled, so that nobody can tell
  // whether there is room.
  struct Covered {
    uint64_t data = 0;       // So many, and further deletions after them.
    uint64_t deletions = 0;  // So many, these deletions included.
    bool limited = false;    // The reserve is as large as it gets, and does not cover all.
  };
  Covered covered() const LOCKS_EXCLUDED(mutex_);
  // Whether there was no room for the reserve when it was last to be filled.
  bool reserve_refused() const LOCKS_EXCLUDED(mutex_);
  // For a database that is not written to: the reserve is to have `reserve_bytes`, but no less than
  // at first. What there is beyond that, and what grants have left, is queued to be given back;
  // grants are small again. Nothing is done while the memory node is full, nor for little.
  void Trim(uint64_t reserve_bytes) LOCKS_EXCLUDED(mutex_);
  // Whether a grant for a table was refused because the memory node is full, and the reserve has
  // not been filled since: as long as data could still use up what deletions will need.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  Status full_reason() const LOCKS_EXCLUDED(mutex_);

  // Gives back everything that no table uses. The last call.
  void ReleaseAll() LOCKS_EXCLUDED(mutex_);

 private:
  // Out of a grant, a new grant, or the reserve.
  Status AllocateFromAnywhere(uint64_t bytes, bool may_use_reserve, RemoteSpan* span)
      LOCKS_EXCLUDED(mutex_);
  // Calls Config::allocated.
  void TellAllocated(const RemoteSpan& span) LOCKS_EXCLUDED(mutex_);
  // Waits while the memory node would have to remember more grants than it does, beside one without
  // an answer; TimedOut if that takes long.
  Status Grant(uint64_t bytes, uint64_t bytes_min, bool for_merge, RemoteSpan* extent)
      LOCKS_EXCLUDED(mutex_);
  // Of a grant in unsettled_.
  static constexpr size_t PlaceOf(uint64_t number) {
    return number % GrantRequest::kGrantsRemembered;
  }
  // Whether what has been gathered can be given to others.
  Status CheckFrees() const;
  // Sends unanswered_. It stays there if there is no answer.
  Status SendUnanswered() EXCLUSIVE_LOCKS_REQUIRED(sending_) LOCKS_EXCLUDED(mutex_);
  void FreeLocked(const RemoteSpan& span) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends a request. Without an answer it goes to lost_grants_.
  Status Call(const GrantRequest& request, RemoteSpan* extent) LOCKS_EXCLUDED(mutex_);
  // Asks again for what may have been granted without anybody knowing. An error: the memory node
  // still does not answer.
  Status FindLostGrants() LOCKS_EXCLUDED(mutex_);
  // Whether what was asked for may have been done.
  static bool Unanswered(const Status& status) {
    return status.IsIOError() || status.IsTimedOut() || status.IsCorruption();
  }
  uint64_t FirstReserve() const {
    return std::min(config_.first_reserve_bytes, config_.reserve_bytes);
  }
  uint64_t FirstGrant() const {
    return config_.first_grant_bytes == 0 ? config_.grant_bytes : config_.first_grant_bytes;
  }
  // What the reserve lacks.
  uint64_t MissingLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues those pieces of the reserve that no table fits into.
  void ReleaseCrumbsLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReserveIsInCrumbsLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts one piece in the place of many small ones, if the memory node has such a piece.
  void ReplaceReserve() LOCKS_EXCLUDED(mutex_, sending_);
  // When to try something again that was refused: at the first call of Due(), and at each 64th
  // after a refusal.
  class Patience {
   public:
    bool Due() { return waits_ == 0 || --waits_ == 0; }
    void Tried(bool granted) { waits_ = granted ? 0 : kCallsBetween; }

   private:
    static constexpr int kCallsBetween = 64;
    int waits_ = 0;
  };
  void ReleasePoolLocked(std::vector<RemoteSpan>* pool) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool CutFrom(std::vector<RemoteSpan>* pool, uint64_t bytes, RemoteSpan* span);
  void PutBackLocked(std::vector<RemoteSpan>* pool, RemoteSpan span)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Config config_;
  RpcClient* const rpc_;
  Statistics* const statistics_;
  std::atomic<bool> full_{false};
  std::atomic<uint64_t> queued_free_bytes_{0};

  port::Mutex sending_;  // One batch at a time. Taken before mutex_.
  uint64_t batches_ GUARDED_BY(sending_) = 0;
  // The last batch, until it is answered: it goes out again as it is, before others.
  std::optional<FreeRequest> unanswered_ GUARDED_BY(sending_);

  // Never held across a call. The lists hold a handful of spans.
  mutable port::Mutex mutex_;
  std::vector<RemoteSpan> granted_ GUARDED_BY(mutex_);  // Parts of grants not in use.
  uint64_t next_grant_bytes_ GUARDED_BY(mutex_);
  std::vector<RemoteSpan> reserve_ GUARDED_BY(mutex_);
  std::vector<RemoteSpan> for_merges_ GUARDED_BY(mutex_);  // That are being written.
  uint64_t reserve_wanted_ GUARDED_BY(mutex_);
  // Of the last attempt to fill it, since it was to grow.
  Status::Code refill_ GUARDED_BY(mutex_) = Status::Code::kOk;
  Patience replacing_ GUARDED_BY(mutex_);  // The reserve.
  std::vector<RemoteSpan> to_free_ GUARDED_BY(mutex_);
  Status full_reason_ GUARDED_BY(mutex_);
  uint64_t grants_ GUARDED_BY(mutex_) = 0;
  // Requests without an answer: what they may have been granted is this database's, and nobody
  // knows where it lies, until they are asked again.
  std::vector<GrantRequest> lost_grants_ GUARDED_BY(mutex_);
  // Which of the last grants are under way, or lost. One is numbered only when the one that had its
  // place is settled: so the memory node remembers all that may be asked for again.
  std::bitset<GrantRequest::kGrantsRemembered> unsettled_ GUARDED_BY(mutex_);
  port::CondVar grants_changed_{mutex_};
};

}  // namespace dlsm
