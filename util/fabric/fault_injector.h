// Decides which requests of a faulty fabric go wrong, and how.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "port/mutex.h"
#include "util/fabric/wire_cost.h"
#include "util/random.h"

namespace dlsm {

enum class FaultKind : uint8_t {
  kNone = 0,
  kFail,        // The request does not take place; Wait() says so.
  kDelay,       // Wait() takes at least this much longer.
  kCorrupt,     // A read brings a flipped bit; other requests are not affected.
  kHalfWrite,   // Only the first part of a write takes place, then as kFail.
  kDisconnect,  // The queue pair closes at the post.
  kDrop,        // The request is lost: Wait() lasts until its deadline.
};
inline constexpr size_t kFaultKindCount = 7;

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

 private:
  FaultKind DrawKindLocked() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable port::Mutex mutex_;
  Random random_ GUARDED_BY(mutex_);
  std::optional<Purpose> only_purpose_ GUARDED_BY(mutex_);
  uint64_t nth_ GUARDED_BY(mutex_) = 0;  // A number of posts_; 0: none.
  FaultKind nth_kind_ GUARDED_BY(mutex_) = FaultKind::kNone;
  std::array<double, kFaultKindCount> probabilities_ GUARDED_BY(mutex_){};
  std::chrono::nanoseconds delay_ GUARDED_BY(mutex_){1'000'000};
  uint64_t posts_ GUARDED_BY(mutex_) = 0;
  uint64_t faults_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dlsm
