// Whether a handle is in use. One that nobody uses sleeps: its house is hardly kept any more
// (background_workers.h), until an operation wakes it. Operations pay nothing for that: they ask
// whether the handle is closed, and learn the one with the other.
#pragma once

#include <atomic>
#include <cstdint>

namespace dlsm {

// Thread-safe.
class HandleState {
 public:
  bool awake() const { return state_.load(std::memory_order_acquire) == State::kAwake; }
  bool closed() const { return state_.load(std::memory_order_acquire) == State::kClosed; }

  // For good. False: it was closed before.
  bool Close() {
    return state_.exchange(State::kClosed, std::memory_order_acq_rel) != State::kClosed;
  }

  // These do nothing to a closed one; true if they have changed it.
  bool FallAsleep() { return Change(State::kAwake, State::kAsleep); }
  bool WakeUp() { return Change(State::kAsleep, State::kAwake); }

 private:
  enum class State : uint8_t { kAwake, kAsleep, kClosed };

  bool Change(State from, State to) {
    return state_.compare_exchange_strong(from, to, std::memory_order_acq_rel);
  }

  std::atomic<State> state_{State::kAwake};
};

}  // namespace dlsm
