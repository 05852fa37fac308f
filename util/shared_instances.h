// Objects of which a process has one for each key, shared by all that ask for it, as long as
// anything has it.
#pragma once

#include <map>
#include <memory>

#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/per_process.h"
#include "util/status_macros.h"

namespace dlsm {

// Thread-safe. For a static object: it has no destructor, because handles may be closed late during
// exit. A process that was forked makes its own instances: its parent's threads do not exist there.
template <typename Key, typename Object>
class SharedInstances {
 public:
  constexpr SharedInstances() = default;

  // The one of this key. If there is none: what make(&object) sets, unless that is an error.
  // Passes on what make() throws.
  template <typename Make>
  Status Get(const Key& key, const Make& make, std::shared_ptr<Object>* object) {
    return here_.Here().Get(key, make, object);
  }

 private:
  class Instances {
   public:
    template <typename Make>
    Status Get(const Key& key, const Make& make, std::shared_ptr<Object>* object)
        LOCKS_EXCLUDED(mutex_) {
      const port::MutexLock lock(mutex_);
      std::erase_if(known_, [](const auto& each) { return each.second.expired(); });
      std::weak_ptr<Object>& known = known_[key];
      *object = known.lock();
      if (*object != nullptr) return Status::OK();
      DLSM_RETURN_IF_ERROR(make(object));
      known = *object;
      return Status::OK();
    }

   private:
    port::Mutex mutex_;
    std::map<Key, std::weak_ptr<Object>> known_ GUARDED_BY(mutex_);
  };

  port::PerProcess<Instances> here_;
};

}  // namespace dlsm
