// The numbered merges of one session, as its memory node knows them: which may still begin, and
// what each has left to the session while the client may not have heard of it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/accounts/byte_ranges.h"
#include "util/rpc/messages/merge_answers.h"

namespace dlsm {

//   Begin      a merge of this number, once, and not after it has been settled: who asks for it
//              may have given it up before that arrives
//   Kept       it has ended, and its outputs are the session's
//   Settle     the client has told of answers: what was lost is given back, of the rest nothing
//              needs to be known any more
//
// What is remembered is bounded by MergeAnswers::kNumbersMax. A merge that is not numbered (0) is
// not remembered. One thread at a time: the caller locks.
class NumberedMerges {
 public:
  // Aborted if nobody awaits it, or it has begun before; Busy if too many have not been settled.
  Status Begin(uint64_t number);
  // The merge has begun, and nothing has settled it since.
  void Kept(uint64_t number, ByteRanges&& outputs) noexcept;
  // The client gives these bytes back itself: so it has heard of the merges that made them.
  void Freed(const ByteRanges& ranges);
  // What a message settles. All of it is worked out before anything changes, for that takes memory.
  struct Settlement {
    std::vector<uint64_t> awaited;
    uint64_t next = 0;
    // The outputs of merges that are lost by this; all of them are held.
    ByteRanges lost;
  };
  Settlement SettlementOf(const MergeAnswers& answers) const;
  // Nothing has changed since that was worked out, but that what is lost was given back.
  void Settle(Settlement settlement) noexcept;

  // Whether the client may be waiting for the answer. Not: the merge need not go on.
  bool IsAwaited(uint64_t number) const;
  // All that the client may not have heard of: held by the session.
  ByteRanges outputs() const;

  // A caller stores these, and takes them up again in a new object.
  const std::vector<uint64_t>& awaited() const { return awaited_; }
  uint64_t next() const { return next_; }
  const std::map<uint64_t, ByteRanges>& begun() const { return begun_; }
  void Restore(std::vector<uint64_t> awaited, uint64_t next, std::map<uint64_t, ByteRanges> begun) {
    awaited_ = std::move(awaited);
    next_ = next;
    begun_ = std::move(begun);
  }

 private:
  // Not settled by any message so far: these, and all from next_ on. Ascending, below next_.
  std::vector<uint64_t> awaited_;
  uint64_t next_ = 1;
  // Those of them that have begun, with what they have left to the session.
  std::map<uint64_t, ByteRanges> begun_;
};

}  // namespace dlsm
