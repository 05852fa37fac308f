// An object that a process and the children that it forks do not share.
#pragma once

#include <atomic>
#include <memory>

#include "port/process_mark.h"

namespace dlsm::port {

// A T for each process, made when the process first asks for it. A child that asks gets a new one;
// its parent's stays as it is, whatever a thread of the parent was about to do with it.
// Thread-safe, without a lock. T's constructor starts and opens nothing: when several threads ask
// first, each makes one, and all but one of these are destroyed again.
//
// Has no destructor, so a static one is there until the process ends; others call Clear().
template <typename T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // `arguments` are those of T's constructor. Throws what that throws, and std::bad_alloc, when the
  // process first asks.
  template <typename... Arguments>
  T& Here(const Arguments&... arguments) {
    // Pairs with the release in Make(): publishes the construction.
    Made* const made = made_.load(std::memory_order_acquire);
    if (made != nullptr && made->by.IsHere()) [[likely]]
      return made->value;
    return Make(made, arguments...);
  }

  // Destroys this process's, if there is one. No other call may be under way.
  void Clear() noexcept {
    Made* const made = made_.exchange(nullptr, std::memory_order_acquire);
    if (made != nullptr) const OwnedHere<Made> destroyed(made, DeleteHere{made->by});
  }

 private:
  struct Made {
    template <typename... Arguments>
    explicit Made(const Arguments&... arguments) : value(arguments...) {}

    const ProcessMark by;
    T value;
  };

  template <typename... Arguments>
  [[gnu::noinline]] T& Make(Made* found, const Arguments&... arguments) {
    auto fresh = std::make_unique<Made>(arguments...);
    // What is found instead, another thread of this process has made. Another process's stays as it
    // is until this one ends.
    if (!made_.compare_exchange_strong(found, fresh.get(), std::memory_order_acq_rel)) {
      return found->value;
    }
    return fresh.release()->value;
  }

  std::atomic<Made*> made_{nullptr};
};

}  // namespace dlsm::port
