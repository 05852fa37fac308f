// The life lines of queue pairs that this end has given up while the far end still runs.
//
// A request that the network or the memory node's device still holds can take effect for as long as
// the far end of its queue pair exists; and what was written over another queue pair in the
// meantime would be overwritten with older bytes. So while one of these life lines is open, its
// connection carries nothing, and nothing is given to others that it could be written to.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "port/mutex.h"
#include "util/file_descriptor.h"

namespace dlsm {

// Nothing is ever sent over a life line to a client: any byte is as wrong as its end. One that TCP
// has given up has ended too: that takes half a minute without an answer (PrepareDataSocket()), and
// no packet is on its way for so long.
bool LifeLineEnded(int life_line);

// Thread-safe.
class VerbsFarewells {
 public:
  // Takes no memory where it was expected: whoever gives a queue pair up may have none, and what is
  // not noted here would count as ended.
  void Add(FileDescriptor life_line) LOCKS_EXCLUDED(mutex_);
  // There is a queue pair more whose life line may be added; and one less.
  void Expect() LOCKS_EXCLUDED(mutex_);
  void Forgo() LOCKS_EXCLUDED(mutex_);
  // There is a queue pair that will never be known to have ended: this end's device has not
  // destroyed it.
  void Break() LOCKS_EXCLUDED(mutex_);
  bool broken() const LOCKS_EXCLUDED(mutex_);
  // Whether one is still open; one load where there are none.
  bool Pending() const {
    // Whoever learns from a queue pair that it has failed learns with that what it has added.
    return count_.load(std::memory_order_relaxed) != 0 && AnyOpen();
  }

 private:
  // In life_lines_, for so many.
  void MakeRoomLocked(size_t count) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets those that have ended.
  bool AnyOpen() const LOCKS_EXCLUDED(mutex_);

  // Of life_lines_, and one more if broken_; changed with the mutex held.
  mutable std::atomic<size_t> count_{0};

  mutable port::Mutex mutex_;  // Protects what follows.
  // With room for those of all queue pairs that have not added theirs.
  mutable std::vector<FileDescriptor> life_lines_ GUARDED_BY(mutex_);
  size_t queue_pairs_ GUARDED_BY(mutex_) = 0;
  bool broken_ GUARDED_BY(mutex_) = false;
};

}  // namespace dlsm
