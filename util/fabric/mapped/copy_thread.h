// A thread that copies for the queue pairs of a connection, as a network card moves bytes by
// itself: who has posted a transfer goes on meanwhile. For the simulated network over memory that
// this process can address, where else the poster's processor would do the card's work.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "port/mutex.h"
#include "port/thread.h"

namespace dlsm {

// Thread-safe.
class CopyThread {
 public:
  struct Copy {
    char* to = nullptr;
    const char* from = nullptr;
    size_t bytes = 0;
    // `number` is stored there, with release, when the bytes are; nothing of the copy is touched
    // after that.
    std::atomic<uint64_t>* done = nullptr;
    uint64_t number = 0;
  };

  // `wakes_for_bytes`: so much is worth waiting until the thread is awake. Throws std::system_error
  // if there is no thread to be had.
  explicit CopyThread(uint64_t wakes_for_bytes);
  // Nothing is under way by then.
  ~CopyThread();
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;

  // Hands copies over, which are made in this order. False if the thread was asleep, and so has
  // nothing to do, and they are not worth waiting until it is awake: it is woken for the next ones,
  // but the caller will be done with these sooner.
  [[nodiscard]] bool Submit(std::span<const Copy> copies) LOCKS_EXCLUDED(mutex_);

  static void Make(std::span<const Copy> copies);

 private:
  void Run() LOCKS_EXCLUDED(mutex_);
  // Waits for copies; false when it is time to end.
  bool Take(std::vector<Copy>* copies) LOCKS_EXCLUDED(mutex_);

  const uint64_t wakes_for_bytes_;
  port::Mutex mutex_;
  port::CondVar work_{mutex_};
  std::vector<Copy> submitted_ GUARDED_BY(mutex_);
  std::atomic<bool> any_{false};  // Whether submitted_ holds some; a hint, asked without the lock.
  bool asleep_ GUARDED_BY(mutex_) = false;
  bool woken_ GUARDED_BY(mutex_) = false;
  bool ending_ GUARDED_BY(mutex_) = false;
  port::Thread thread_;  // Last: it uses all of the above.
};

}  // namespace dlsm
