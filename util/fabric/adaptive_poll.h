// When a thread that waits for its peer polls for a moment before it sleeps.
//
// To wake a thread on another processor takes longer than a whole round trip between two that are
// awake. Polling, on the other hand, may keep the very thread that is waited for from running. So:
//
//   1. A wait gives up the processor, looks, gives it up, looks, for as long as `most`: whoever
//      else can run on this processor, the peer on the same host included, runs before each look.
//   2. A wait that was not answered meanwhile costs those that follow their polling: one, then two,
//      four, ... of them. Each that was answered halves that again.
//   3. If the processor came back late, a program that computes had it. Who sleeps is woken before
//      such a program has used up its time, who gave up the processor is not: for kRestShare times
//      as long as that took, but kRestMax at most, all waits of the group sleep at once.
//   4. While more threads of the group wait than there are processors, the later ones sleep at
//      once: somebody runs on every processor anyway, so that waking costs little, and a look for
//      nothing delays the others.
//
// A group is what shares points 3 and 4 and the counters: the queue pairs of a connection, the
// threads of a server.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "port/clock.h"
#include "util/fabric/wait_counts.h"

namespace dlsm {

// Thread-safe. Outlives the waits of its group.
class PollGroup {
 public:
  using TimePoint = port::Clock::time_point;

  // most 0: they never poll.
  PollGroup(std::chrono::nanoseconds most, unsigned processors)
      : most_(most), waiting_max_(processors) {}
  PollGroup(const PollGroup&) = delete;
  PollGroup& operator=(const PollGroup&) = delete;

  // So many threads wait, others besides, that most of them sleep, whatever they do.
  bool crowded(uint32_t others = 0) const {
    return waiting_.load(std::memory_order_relaxed) + others >= kCrowdPerProcessor * waiting_max_;
  }

  WaitCounts Counts() const {
    return {polled_.load(std::memory_order_relaxed), slept_.load(std::memory_order_relaxed)};
  }

 private:
  friend class AdaptivePoll;

  static constexpr uint32_t kCrowdPerProcessor = 2;

  const std::chrono::nanoseconds most_;
  const uint32_t waiting_max_;
  // Relaxed, all of them: they order nothing, and one that is seen late does no harm.
  std::atomic<uint32_t> waiting_{0};  // Waits under way.
  std::atomic<TimePoint> rest_until_{TimePoint::min()};
  std::atomic<uint64_t> polled_{0};
  std::atomic<uint64_t> slept_{0};
};

// Belongs to one thread. A wait is Begin(), looks with Again() between them, End().
class AdaptivePoll {
 public:
  using TimePoint = PollGroup::TimePoint;

  static constexpr uint32_t kSkippedMax = 1024;
  static constexpr int kRestShare = 30;
  // That of a thirtieth of a second: programs that compute keep the processor for milliseconds,
  // each in its turn. Mostly what took longer was a pause of the whole process or machine, which
  // tells nothing of the waits to come.
  static constexpr std::chrono::seconds kRestMax{1};
  // To get the processor back from threads that wait most of the time. One that computes keeps it
  // for milliseconds.
  static constexpr std::chrono::nanoseconds kTurnMax = std::chrono::microseconds(500);

  explicit AdaptivePoll(PollGroup& group) : group_(group) {}

  void Begin();
  // Of the wait that has just begun: looks so many times at most.
  void LookAtMost(uint32_t looks) { looks_left_ = looks; }
  // There is nothing yet. True, after the processor was given up: look again. False: sleep, and
  // look then.
  bool Again();
  // What time it was just before Again() returned true, for those who would ask next.
  TimePoint again_at() const { return again_at_; }
  // The wait under way counts for others no more (4.): it sleeps, perhaps for hours.
  void Leave();
  // The wait is over.
  void End();

  // The parts of Begin() and Again() that ask for no time and give up nothing.
  void Begin(TimePoint now);
  bool MayPoll(TimePoint now);
  void GaveUpProcessor(TimePoint from, TimePoint to);

 private:
  PollGroup& group_;
  uint32_t pause_ = 0;  // How many waits the last one that was not answered has cost.
  uint32_t skip_ = 0;   // How many of them are still to come.

  // Of the wait under way.
  bool polling_ = false;
  bool tried_ = false;
  bool slept_ = false;
  bool left_ = false;
  TimePoint until_;
  TimePoint again_at_;
  uint32_t looks_left_ = 0;
};

}  // namespace dlsm
