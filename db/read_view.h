// What a reader holds: memtables and version together, one immutable object that is replaced in one
// step, so that a memtable never disappears before its table is visible.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "db/memtable.h"
#include "db/sequencer.h"
#include "db/version.h"
#include "port/mutex.h"
#include "util/thread_number.h"

namespace dlsm {

struct ReadView : std::enable_shared_from_this<ReadView> {
  std::shared_ptr<Memtable> active;
  std::vector<std::shared_ptr<Memtable>> immutables;  // Newest first.
  std::shared_ptr<const Version> version;
};

// The current view. Readers take it without a lock and without writing to memory that another
// thread writes: each thread announces the view it uses in a place of its own (a hazard pointer;
// Michael, 2004), and a replaced view is dropped once nobody announces it.
class ReadViews {
 public:
  explicit ReadViews(std::shared_ptr<const ReadView> first);

  // Pins the current view for as long as it lives. At most one at a time for each thread.
  class Pin {
   public:
    explicit Pin(ReadViews& views);
    ~Pin() { announced_.store(nullptr, std::memory_order_release); }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

    const ReadView* operator->() const { return view_; }
    const ReadView& operator*() const { return *view_; }

   private:
    std::atomic<const ReadView*>& announced_;
    const ReadView* view_;
  };

  // The current view, counted: for iterators and background work.
  std::shared_ptr<const ReadView> Current();

  void Install(std::shared_ptr<const ReadView> view) LOCKS_EXCLUDED(mutex_);
  // Drops replaced views that nobody announces any more.
  void Reclaim() LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot {
    std::atomic<const ReadView*> announced{nullptr};
  };

  PerThread<Slot> slots_;
  std::atomic<const ReadView*> current_;

  port::Mutex mutex_;  // Held for moments only; nothing is destroyed under it.
  std::shared_ptr<const ReadView> owner_ GUARDED_BY(mutex_);  // Of current_.
  std::vector<std::shared_ptr<const ReadView>> replaced_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
