// The numbers of a session's merges at one memory node, and what has become of their answers. What
// a merge has made whose answer is lost goes when the memory node is told so: with the next
// heartbeat, or the next merge. One that still runs or waits there ends, and is answered.
#pragma once

#include <cstdint>
#include <set>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "util/rpc/messages/merge_answers.h"

namespace dlsm {

// Thread-safe.
class MergeNumbers {
 public:
  // One merge, from before its request is sent until its answer has come, or has not. One thread
  // at a time.
  class Awaited {
   public:
    // `numbers` outlives this.
    explicit Awaited(MergeNumbers* numbers) : numbers_(numbers) {}
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;
    // Unless the answer has come, nobody will ever use what the merge has made.
    ~Awaited() {
      if (number_ != 0) numbers_->Settle(number_, /*arrived=*/false);
    }

    // Says in *number how the request is to be numbered. Once. If the memory node has yet to be
    // told of too many, Busy, or IOError where most of them are lost; Aborted after GiveUp().
    Status Begin(MergeNumber* number);
    // The answer is there, and what it names is this handle's; Aborted, and it is nobody's, if it
    // has been given up. Once.
    Status Arrived();

   private:
    MergeNumbers* const numbers_;
    uint64_t number_ = 0;  // 0: it has not begun, or is settled.
  };

  // As of now.
  MergeAnswers Answers() const LOCKS_EXCLUDED(mutex_);
  // The memory node has answered a heartbeat that told this, or has nothing of the session's left.
  void Told(const MergeAnswers& answers) LOCKS_EXCLUDED(mutex_);
  // From now on no answer is of use, and no merge begins any more. Who waits for one still does,
  // until the memory node has heard of it.
  void GiveUp() LOCKS_EXCLUDED(mutex_);

 private:
  Status Next(uint64_t* number) LOCKS_EXCLUDED(mutex_);
  // False if it has been given up.
  bool Settle(uint64_t number, bool arrived) LOCKS_EXCLUDED(mutex_);

  mutable port::Mutex mutex_;  // Protects what follows; never held across a call.
  uint64_t next_ GUARDED_BY(mutex_) = 1;
  // See MergeAnswers. Together no more than either may have.
  std::set<uint64_t> awaited_ GUARDED_BY(mutex_);
  std::set<uint64_t> lost_ GUARDED_BY(mutex_);
  bool given_up_ GUARDED_BY(mutex_) = false;
};

}  // namespace dlsm
