// A thread that belongs to the scheduler of the thread that made it, where that has one.
#pragma once

#include <limits.h>
#include <pthread.h>

#include <cstdlib>
#include <thread>
#include <utility>

#include "port/scheduler.h"

namespace dlsm::port {

// As std::thread: movable, to be joined before it is destroyed.
class Thread {
 public:
  Thread() = default;
  template <typename Function>
  explicit Thread(Function function) : scheduler_(Scheduler::Current()) {
    if (scheduler_ == nullptr) [[likely]] {
      thread_ = std::thread(std::move(function));
      return;
    }
    id_ = scheduler_->NewThread();
    thread_ =
        std::thread([scheduler = scheduler_, id = id_, function = std::move(function)]() mutable {
          Membership::Begin(scheduler, id);
          function();
        });
    scheduler_->Pause();
  }
  Thread(Thread&& other) noexcept = default;
  Thread& operator=(Thread&& other) noexcept = default;

  bool joinable() const { return thread_.joinable(); }
  void join() {
    if (scheduler_ != nullptr) [[unlikely]]
      scheduler_->Join(id_);
    thread_.join();
  }

 private:
  // A thread leaves after all that it keeps for itself has gone, objects and values of keys, by one
  // of which numbers are given back: what they do when they go is still the scheduler's to order.
  class Membership {
   public:
    static void Begin(Scheduler* scheduler, Scheduler::ThreadId id) {
      static const Key key;
      scheduler->Enter(id);
      key.Set(scheduler);
    }

   private:
    // Destructors of keys run in rounds, as long as one sets a value again: this one lets all other
    // keys go first, but for those that go in the last round, as those of sanitizers do.
    class Key {
     public:
      Key() {
        if (pthread_key_create(&key_, &Run) != 0) std::abort();  // Of a simulation, nothing else.
      }
      void Set(void* scheduler) const {
        of_this_thread_ = this;
        pthread_setspecific(key_, scheduler);
      }

     private:
      static void Run(void* scheduler) {
        if (++rounds_ < PTHREAD_DESTRUCTOR_ITERATIONS - 1) return of_this_thread_->Set(scheduler);
        static_cast<Scheduler*>(scheduler)->Leave();
      }

      static inline thread_local constinit const Key* of_this_thread_ = nullptr;
      static inline thread_local constinit int rounds_ = 0;
      pthread_key_t key_{};
    };
  };

  Scheduler* scheduler_ = nullptr;
  Scheduler::ThreadId id_{};
  std::thread thread_;
};

// The caller has nothing to do before others have run.
inline void Yield() {
  Scheduler* const scheduler = Scheduler::Current();
  if (scheduler != nullptr) [[unlikely]]
    return scheduler->Pause();
  std::this_thread::yield();
}

}  // namespace dlsm::port
