// Decides which requests of a faulty fabric, and which calls, go wrong, and how.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "port/mutex.h"
#include "util/fabric/wire_cost.h"
#include "util/random.h"

namespace dlsm {

// What becomes of a request of the fabric; behind the stroke, of a call where that is different.
enum class FaultKind : uint8_t {
  kNone = 0,
  kFail,        // The request does not take place; Wait() says so. | The call is not sent.
  kDelay,       // Wait() takes at least this much longer. | It is sent so much later.
  kCorrupt,     // A read brings a flipped bit; other requests are not affected. | The same.
  kHalfWrite,   // Only the first part of a write takes place, then as kFail. | As kDisconnect.
  kDisconnect,  // The queue pair closes at the post. | It is carried out, the answer gets lost.
  kDrop,        // The request is lost: Wait() lasts until its deadline. | The same.
  kMangle,      // A read brings any bytes at all, see mangle.h. | So does the answer.
};
inline constexpr size_t kFaultKindCount = 8;

// What can fail besides posts.
enum class FaultSite : uint8_t {
  kConnect,    // A memory node is reached for the first time.
  kQueuePair,  // A queue pair is made.
  kBuffer,     // A buffer is registered.
  kCall,
};

struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::chrono::nanoseconds delay{0};  // Of kDelay.
  uint64_t draw = 0;                  // Which bit, how large a part: from the injector's seed.
};

// Thread-safe; shared by all queue pairs and connections that it is to harm. The same seed gives
// the same decisions to the same sequence of posts.
class FaultInjector {
 public:
  explicit FaultInjector(uint64_t seed = 1) : random_(seed) {}

  // Only posts of this purpose are counted and harmed; nullopt: all.
  void OnlyPurpose(std::optional<Purpose> purpose) LOCKS_EXCLUDED(mutex_);

  // Whether what else can fail is counted and harmed like posts, while posts of any purpose are.
  void HarmAll(bool all) LOCKS_EXCLUDED(mutex_);

  // Harms the `n`th post from now on, once; 1 is the next. Replaces an earlier order.
  void FailNth(uint64_t n, FaultKind kind = FaultKind::kFail) LOCKS_EXCLUDED(mutex_);

  // Harms each post so with this probability. Probabilities of different kinds add up.
  void SetProbability(FaultKind kind, double probability) LOCKS_EXCLUDED(mutex_);
  void SetDelay(std::chrono::nanoseconds delay) LOCKS_EXCLUDED(mutex_);

  // Posts seen and posts harmed since the start.
  uint64_t CountPosts() const LOCKS_EXCLUDED(mutex_);
  uint64_t CountFaults() const LOCKS_EXCLUDED(mutex_);

  // No more faults until the next order.
  void Clear() LOCKS_EXCLUDED(mutex_);

  // For the fabric: what is to happen to this post.
  Fault Decide(Purpose purpose) LOCKS_EXCLUDED(mutex_);
  Fault Decide(FaultSite site) LOCKS_EXCLUDED(mutex_);

  // Registered buffers in use, kept up to date by the fabric.
  void CountBuffer(int64_t change) { buffers_.fetch_add(change, std::memory_order_relaxed); }
  int64_t buffers() const { return buffers_.load(std::memory_order_relaxed); }

 private:
  Fault DecideLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FaultKind DrawKindLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<int64_t> buffers_{0};

  mutable port::Mutex mutex_;
  Random random_ GUARDED_BY(mutex_);
  std::optional<Purpose> only_purpose_ GUARDED_BY(mutex_);
  bool harm_all_ GUARDED_BY(mutex_) = false;
  uint64_t nth_ GUARDED_BY(mutex_) = 0;  // A number of posts_; 0: none.
  FaultKind nth_kind_ GUARDED_BY(mutex_) = FaultKind::kNone;
  std::array<double, kFaultKindCount> probabilities_ GUARDED_BY(mutex_){};
  std::chrono::nanoseconds delay_ GUARDED_BY(mutex_){1'000'000};
  uint64_t posts_ GUARDED_BY(mutex_) = 0;
  uint64_t faults_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
