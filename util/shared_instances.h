// Objects of which a process has one for each key, shared by all who ask for it, as long as anybody
// has it.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <utility>

#include "port/mutex.h"

namespace dlsm {

// Thread-safe. For a static that is never destroyed: who has an object may be destroyed late.
template <typename Key, typename Object>
class SharedInstances {
 public:
  // The one of this key; if there is none, what make() returns, a std::shared_ptr, which may be
  // null. What make() throws goes to the caller. A process that was forked makes its own: threads
  // of its parent's it does not have.
  template <typename Make>
  std::shared_ptr<Object> Get(const Key& key, const Make& make) LOCKS_EXCLUDED(mutex_) {
    const port::MutexLock lock(mutex_);
    std::erase_if(instances_, [](const auto& each) { return each.second.expired(); });
    std::weak_ptr<Object>& known = instances_[{getpid(), key}];
    std::shared_ptr<Object> object = known.lock();
    if (object == nullptr) known = object = make();
    return object;
  }

 private:
  port::Mutex mutex_;
  std::map<std::pair<pid_t, Key>, std::weak_ptr<Object>> instances_ GUARDED_BY(mutex_);
};

}  // namespace dlsm
