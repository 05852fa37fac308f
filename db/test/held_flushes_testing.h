// Flushes that do not end while a test wants memtables to wait.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "port/sync_point.h"

namespace dlsm {

// While there is one, flushes of this process that are as good as done are held up. One at a time.
class HeldFlushes {
 public:
  HeldFlushes() {
    any_ = false;
    holding_ = true;
    port::SyncPointHookOfProcess() = [](const char* place) {
      if (std::strcmp(place, "flush: stored") == 0) Hold();
    };
  }
  ~HeldFlushes() {
    holding_ = false;
    port::SyncPointHookOfProcess() = nullptr;
  }
  HeldFlushes(const HeldFlushes&) = delete;
  HeldFlushes& operator=(const HeldFlushes&) = delete;

  static bool any() { return any_; }

 private:
  static void Hold() {
    any_ = true;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (holding_) {
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "a flush was held for too long";
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  static inline std::atomic<bool> any_{false};
  static inline std::atomic<bool> holding_{false};
};

}  // namespace dlsm
