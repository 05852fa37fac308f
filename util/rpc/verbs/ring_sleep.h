// How the reader of a ring goes to sleep without missing a message, and how its writer wakes it.
// Nothing here knows what carries the words.
//
//   reader                                             writer
//   1. has found nothing for a while
//   2. writes the state "asleep, for the nth time"
//      to the writer's memory, and waits until it
//      is there
//   3. looks once more
//   4. sleeps until a wake-up comes                    looks at the state when it writes a message,
//                                                      and again and again while it waits for the
//                                                      reply; wakes the reader once for each n
//   5. writes the state "awake": for every message
//      and every wake-up after 2, even one that has
//      come for nothing, because no other will come
//      for this n
//
// A message is either there at 3, or arrives later than the state has arrived at the writer, who
// sees it at the latest when it looks again.
//
// Both begin as if the reader slept, and the writer had been told so: the first message wakes it.
// So nothing is written to the writer before it can receive.
#pragma once

#include <cstdint>

namespace dlsm {

// Of a reader that has heard nothing yet.
inline constexpr uint64_t kFirstRingState = 1;

// The reader's side. Not thread-safe.
class RingSleep {
 public:
  enum class Next { kPoll, kTell, kSleep };

  // What the writer is to be told: how many sleeps there have been, and whether one goes on.
  uint64_t state() const { return sleeps_ << 1 | (phase_ == Phase::kAwake ? 0 : 1); }

  // A message has been read, or a wake-up has come. Returns whether to tell the state.
  bool Active() {
    const bool tell = phase_ != Phase::kAwake;
    phase_ = Phase::kAwake;
    return tell;
  }
  // The writer's memory has `state`.
  void Told(uint64_t told) {
    if (phase_ == Phase::kTelling && told == state()) phase_ = Phase::kTold;
  }
  // There is nothing to read, and has not been for long enough to sleep. Returns what comes next:
  // look again, tell the state, or sleep.
  Next Idle() {
    switch (phase_) {
      case Phase::kAwake:
        phase_ = Phase::kTelling;
        ++sleeps_;
        return Next::kTell;
      case Phase::kTelling:
        return Next::kPoll;
      case Phase::kTold:
        phase_ = Phase::kAsleep;
        return Next::kPoll;
      case Phase::kAsleep:
        return Next::kSleep;
    }
    return Next::kPoll;
  }
  bool awake() const { return phase_ == Phase::kAwake; }

 private:
  enum class Phase { kAwake, kTelling, kTold, kAsleep };
  Phase phase_ = Phase::kAsleep;
  uint64_t sleeps_ = 0;  // After the first one.
};

// The writer's side. Not thread-safe.
class RingWake {
 public:
  // Whether a reader of this state needs a wake-up that it has not got yet.
  bool Needed(uint64_t state) const { return (state & 1) != 0 && state != woken_; }
  // One has been sent.
  void Sent(uint64_t state) { woken_ = state; }

 private:
  uint64_t woken_ = 0;
};

}  // namespace dlsm
