// The current one of a succession of immutable objects. Readers take it without a lock and without
// writing to memory that another thread writes: each thread announces the object it uses in a place
// of its own (a hazard pointer; Michael, 2004), and a replaced object is dropped once nobody
// announces it.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "port/asymmetric_fence.h"
#include "port/mutex.h"
#include "port/scheduler.h"
#include "util/thread_number.h"

namespace dlsm {

// T is a std::enable_shared_from_this.
template <typename T>
class Succession {
 public:
  explicit Succession(std::shared_ptr<const T> first)
      : current_(first.get()), owner_(std::move(first)) {}

  // Pins the current object for as long as it lives. At most one at a time for each thread.
  class Pin {
   public:
    explicit Pin(Succession& objects) : announced_(objects.slots_.Local().announced) {
      // A fence on both sides: either we see that the object has been replaced and take the new
      // one, or Reclaim() sees our announcement.
      do {
        pinned_ = objects.current_.load(std::memory_order_acquire);
        port::InterleavingPoint();
        announced_.store(pinned_, std::memory_order_release);
        objects.fence_.Light();
      } while (objects.current_.load(std::memory_order_acquire) != pinned_);
    }
    ~Pin() { announced_.store(nullptr, std::memory_order_release); }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

    const T* operator->() const { return pinned_; }
    const T& operator*() const { return *pinned_; }

   private:
    std::atomic<const T*>& announced_;
    const T* pinned_;
  };

  // The current object, counted: for iterators and background work.
  std::shared_ptr<const T> Current() {
    const Pin pin(*this);
    return pin->shared_from_this();
  }

  void Install(std::shared_ptr<const T> object) LOCKS_EXCLUDED(mutex_) {
    {
      port::MutexLock lock(mutex_);
      replaced_.push_back(owner_);
      current_.store(object.get(), std::memory_order_release);
      owner_ = std::move(object);
    }
    Reclaim();
  }

  // Drops replaced objects that nobody announces any more.
  void Reclaim() LOCKS_EXCLUDED(mutex_) {
    std::vector<std::shared_ptr<const T>> dropped;  // Destroyed after the lock is released.
    port::MutexLock lock(mutex_);
    if (replaced_.empty()) return;
    std::vector<const T*> announced;
    if (!fence_.Heavy()) return;  // They stay until a later call.
    slots_.ForEach([&announced](Slot& slot) {
      const T* object = slot.announced.load(std::memory_order_acquire);
      if (object != nullptr) announced.push_back(object);
      return true;
    });
    const auto kept = std::partition(
        replaced_.begin(), replaced_.end(), [&announced](const std::shared_ptr<const T>& object) {
          return std::find(announced.begin(), announced.end(), object.get()) != announced.end();
        });
    std::move(kept, replaced_.end(), std::back_inserter(dropped));
    replaced_.erase(kept, replaced_.end());
  }

 private:
  struct Slot {
    std::atomic<const T*> announced{nullptr};
  };

  PerThread<Slot> slots_;
  std::atomic<const T*> current_;
  const port::AsymmetricFence fence_;

  port::Mutex mutex_;  // Held for moments only; nothing is destroyed under it.
  std::shared_ptr<const T> owner_ GUARDED_BY(mutex_);  // Of current_.
  std::vector<std::shared_ptr<const T>> replaced_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
