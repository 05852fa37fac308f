// Which clients wait for a change of which keys (WATCH).
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/slice.h"
#include "port/mutex.h"

namespace dlsm::serve {

// What one client watches. `changed`: one of its keys has been written since.
struct Watch {
  std::atomic<bool> changed{false};
  std::map<std::string, bool> head_keys;  // To whether the key had expired when its watch began.
};

// Thread-safe. A thread that writes a key holds the key's lock while it tells so. A thread that
// asks whether a watched key has changed holds that lock, too.
class Watches {
 public:
  void Add(const std::shared_ptr<Watch>& watch, const std::string& head_key, bool expired) {
    const port::MutexLock lock(mutex_);
    if (!watch->head_keys.emplace(head_key, expired).second) return;
    watchers_.emplace(head_key, watch);
    count_.store(watchers_.size(), std::memory_order_seq_cst);
  }
  void Remove(const std::shared_ptr<Watch>& watch) {
    const port::MutexLock lock(mutex_);
    for (const auto& [head_key, expired] : watch->head_keys) {
      for (auto [at, end] = watchers_.equal_range(head_key); at != end; ++at) {
        if (at->second != watch) continue;
        watchers_.erase(at);
        break;
      }
    }
    count_.store(watchers_.size(), std::memory_order_seq_cst);
    watch->head_keys.clear();
  }
  // Those that somebody watches, in [from, to).
  std::vector<std::string> WatchedIn(const std::string& from, const std::string& to) {
    std::vector<std::string> head_keys;
    if (count_.load(std::memory_order_seq_cst) == 0) return head_keys;
    const port::MutexLock lock(mutex_);
    const auto end = watchers_.lower_bound(to);
    for (auto at = watchers_.lower_bound(from); at != end; ++at) head_keys.push_back(at->first);
    return head_keys;
  }
  void NoteChange(const std::string& head_key) {
    if (count_.load(std::memory_order_seq_cst) == 0) return;
    const port::MutexLock lock(mutex_);
    for (auto [at, end] = watchers_.equal_range(head_key); at != end; ++at) {
      at->second->changed.store(true);
    }
  }

 private:
  port::Mutex mutex_;
  std::multimap<std::string, std::shared_ptr<Watch>> watchers_ GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};
};

}  // namespace dlsm::serve
