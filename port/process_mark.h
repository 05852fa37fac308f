// Which process something belongs to. What fork() copies is of no use to the child: its threads do
// not exist there, a lock that one of them held is never unlocked, and its connections are still
// the parent's. So whatever has threads, locks or connections, and outlives a call, remembers its
// process, and is left alone by any other.
#pragma once

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

namespace dlsm::port {

// The process in which it was made. To copy one keeps the process. Thread-safe.
//
// A child is told from its parent by a count that fork() raises in it. Children of vfork(),
// posix_spawn() and _Fork() are not told apart: they may do nothing but exec.
class ProcessMark {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;  // Of no process.

  ProcessMark() : generation_(Current()), process_(process_now_.load(std::memory_order_relaxed)) {}

  // Whether the caller runs in that process. One load and a comparison.
  bool IsHere() const {
    // Relaxed is enough: a child begins with one thread, which starts all others.
    return generation_ == Current();
  }
  // What it compares: that process has a number that no other has from which this one descends.
  uint32_t number() const { return generation_; }
  // The calling process's.
  static uint32_t Current() { return generation_now_.load(std::memory_order_relaxed); }
  // Its id, for messages.
  pid_t process() const { return process_; }

 private:
  // What every child begins with. It may call nothing that takes a lock.
  static void BeginChild() {
    generation_now_.fetch_add(1, std::memory_order_relaxed);
    process_now_.store(getpid(), std::memory_order_relaxed);
  }

  // Process-wide, as fork() is. Hidden, for each load would cost two instructions otherwise: a
  // shared library and a program have counts of their own, which are the same.
  [[gnu::visibility("hidden")]] static inline constinit std::atomic<uint32_t> generation_now_{0};
  static inline std::atomic<pid_t> process_now_{getpid()};
  // Without memory for the handler, when the program starts, no child is told apart.
  static inline const bool is_told_of_forks_ = pthread_atfork(nullptr, nullptr, &BeginChild) == 0;

  uint32_t generation_;
  pid_t process_;
};

// For a class whose objects are deleted by others, as users of the library do: its destroying
// operator delete calls this. Destroys the object if `made_by` is this process; in any other it
// stays as it is until that ends, for none of its members' destructors may run. The class has the
// usual operator delete, too: without it GCC 12 gives no memory back when a constructor throws.
template <typename T>
void DestroyHere(T* object, ProcessMark made_by) noexcept {
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  if (!made_by.IsHere()) return;
  object->~T();
  ::operator delete(object);
}

// Deletes what was made by this process, and leaves what another one made as it is.
struct DeleteHere {
  ProcessMark made_by;

  template <typename T>
  void operator()(T* object) const noexcept {
    if (made_by.IsHere()) [[likely]]
      delete object;
  }
};
// Owns as std::unique_ptr does; in a child of the process that made it, it destroys nothing.
template <typename T>
using OwnedHere = std::unique_ptr<T, DeleteHere>;

}  // namespace dlsm::port
