// The listeners of a handle. Without any a call is one branch.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/event_listener.h"

namespace dlsm {

// Thread-safe. No lock may be held where a listener is called.
class EventListeners {
 public:
  using Listeners = std::vector<std::shared_ptr<EventListener>>;

  EventListeners() = default;
  EventListeners(const Listeners& listeners, std::string db_name)
      : listeners_(listeners), db_name_(std::move(db_name)) {
    std::erase(listeners_, nullptr);
  }

  bool any() const { return !listeners_.empty(); }

  // Tells all listeners of `event`, of this shard. A listener that throws ends the process here, in
  // threads of the handle and in those of its callers.
  template <typename Event>
  void Tell(void (EventListener::*on)(const Event&), Event event, size_t shard) const noexcept {
    event.db_name = db_name_;
    event.shard = shard;
    for (const std::shared_ptr<EventListener>& listener : listeners_) (*listener.*on)(event);
  }
  void TellClosing() const noexcept {
    for (const std::shared_ptr<EventListener>& listener : listeners_) {
      listener->OnDatabaseClosing(db_name_);
    }
  }

 private:
  Listeners listeners_;
  std::string db_name_;
};

}  // namespace dlsm
