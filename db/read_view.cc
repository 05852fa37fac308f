#include "db/read_view.h"

#include <algorithm>
#include <utility>

namespace dlsm {

ReadViews::ReadViews(std::shared_ptr<const ReadView> first)
    : current_(first.get()), owner_(std::move(first)) {}

ReadViews::Pin::Pin(ReadViews& views) : announced_(views.slots_.Local().announced) {
  // Sequentially consistent on both sides: either we see that the view has been replaced and take
  // the new one, or Reclaim() sees our announcement.
  do {
    view_ = views.current_.load(std::memory_order_seq_cst);
    announced_.store(view_, std::memory_order_seq_cst);
  } while (views.current_.load(std::memory_order_seq_cst) != view_);
}

std::shared_ptr<const ReadView> ReadViews::Current() {
  const Pin pin(*this);
  return pin->shared_from_this();
}

void ReadViews::Install(std::shared_ptr<const ReadView> view) {
  {
    port::MutexLock lock(mutex_);
    current_.store(view.get(), std::memory_order_seq_cst);
    replaced_.push_back(std::move(owner_));
    owner_ = std::move(view);
  }
  Reclaim();
}

void ReadViews::Reclaim() {
  std::vector<std::shared_ptr<const ReadView>> dropped;  // Destroyed after the lock is released.
  port::MutexLock lock(mutex_);
  if (replaced_.empty()) return;
  std::vector<const ReadView*> announced;
  slots_.ForEach([&announced](Slot& slot) {
    const ReadView* view = slot.announced.load(std::memory_order_seq_cst);
    if (view != nullptr) announced.push_back(view);
    return true;
  });
  const auto kept = std::partition(replaced_.begin(), replaced_.end(),
                                   [&announced](const std::shared_ptr<const ReadView>& view) {
                                     return std::find(announced.begin(), announced.end(),
                                                      view.get()) != announced.end();
                                   });
  std::move(kept, replaced_.end(), std::back_inserter(dropped));
  replaced_.erase(kept, replaced_.end());
}

}  // namespace dlsm
