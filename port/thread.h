// A thread that belongs to the scheduler of the thread that made it, where that has one.
#pragma once

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
          // The first of the thread's locals, so the last to go: what others do when they go is
          // still the scheduler's to order.
          static thread_local const Membership membership(scheduler, id);
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
  class Membership {
   public:
    Membership(Scheduler* scheduler, Scheduler::ThreadId id) : scheduler_(scheduler) {
      scheduler_->Enter(id);
    }
    ~Membership() { scheduler_->Leave(); }
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

   private:
    Scheduler* const scheduler_;
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
