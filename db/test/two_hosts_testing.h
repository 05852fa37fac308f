// What tests with a memory node on another host share: orders to that host, the state of the link
// to it, a model of what was acknowledged, and threads that keep a database busy and check it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/db.h"
#include "port/mutex.h"

namespace dlsm {

// The other host, where script/softroce/fault-host carries out what is ordered. It is told by files
// in a folder that both hosts see, because the network is what the tests break.
class OtherHost {
 public:
  // Empty where there is one; else why not, to skip with.
  static std::string WhyNot();
  static std::string Address();  // "host:port" of its memory node.

  // Returns what the order printed; an error fails the test.
  std::string Order(const std::string& order);
  // Reliable connections' queue pairs there.
  int QueuePairs() { return std::atoi(Order("queue-pairs").c_str()); }
};

// This host's end of the link. Whole again when destroyed.
class Link {
 public:
  ~Link() { Heal(); }
  void Down();     // The interface goes down: this host's kernel and device know.
  void Silence();  // What this host sends is lost, and nobody knows.
  // What this host sends arrives up to so much later, in any order.
  void DelayUpTo(std::chrono::milliseconds most);
  void Heal();
  static int QueuePairs();

 private:
  bool down_ = false;
  bool silent_ = false;
  std::chrono::milliseconds delay_{0};
};

// What has been written: each key's value names the key and its round, and all of its bytes follow
// from them. One thread writes.
class AcknowledgedModel {
 public:
  static constexpr uint32_t kKeys = 20'000;

  static std::string Key(uint32_t number);
  static std::string Value(uint32_t number, uint32_t round);

  // The next round of this key.
  Status Put(DB* db, uint32_t number);
  // All that is acknowledged now has been flushed as well.
  void NoteFlushed();
  // Only what has been flushed is sure to be there: the handle is gone.
  void ForgetUnflushed();
  void ForgetAll();

  // Reads the key, and fails the test if what it finds is not what has been written.
  Status Get(DB* db, uint32_t number) const;
  // The same for all of them, by a scan and by gets. What times out is tried again: the machine may
  // be busy.
  void ExpectAll(DB* db) const;

 private:
  struct Rounds {
    std::atomic<uint32_t> attempted{0};
    std::atomic<uint32_t> acknowledged{0};
    uint32_t flushed = 0;
  };
  void Check(uint32_t number, uint32_t least, const std::string& value) const;
  Status Scan(DB* db) const;

  std::array<Rounds, kKeys> rounds_;
};

// How long each kind of call took at most, and the errors that it returned. Thread-safe.
class CallTimes {
 public:
  // A call that takes longer fails the test.
  static constexpr std::chrono::seconds kPointCallMax{8};
  static constexpr std::chrono::seconds kLongCallMax{60};

  Status Time(const std::string& call, std::chrono::seconds most,
              const std::function<Status()>& function) LOCKS_EXCLUDED(mutex_);

  uint64_t errors() const LOCKS_EXCLUDED(mutex_);
  void Clear() LOCKS_EXCLUDED(mutex_);
  // Each error must say what it is about and what can be done.
  void ExpectHelpfulErrors() const LOCKS_EXCLUDED(mutex_);
  void Print(const std::string& title) const LOCKS_EXCLUDED(mutex_);

 private:
  struct Call {
    std::chrono::milliseconds longest{0};
    uint64_t count = 0;
    uint64_t errors = 0;
    std::chrono::milliseconds longest_error{0};
    std::map<std::string, uint64_t> messages;
  };
  mutable port::Mutex mutex_;
  std::map<std::string, Call> by_name_ GUARDED_BY(mutex_);
};

enum class Load { kFill, kRead, kMergeThere, kMergeHere };
const char* LoadName(Load load);
inline void PrintTo(Load load, std::ostream* out) { *out << LoadName(load); }

// Threads that do this to `db` until they are stopped, whatever fails.
class BusyThreads {
 public:
  BusyThreads(Load load, DB* db, AcknowledgedModel* model, CallTimes* times);
  ~BusyThreads() { Stop(); }
  // Returns when they are in the middle of it.
  void AwaitMiddle();
  void Stop();

 private:
  void Fill();
  void Read(uint32_t seed);
  void Merge();

  const Load load_;
  DB* const db_;
  AcknowledgedModel* const model_;
  CallTimes* const times_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> done_{0};  // Operations; of merges, how many have begun.
  std::vector<std::thread> threads_;
};

}  // namespace dlsm
