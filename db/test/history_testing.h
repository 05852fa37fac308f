// Histories of concurrent operations: what was called when, and what it saw.
//
// Operations are on registers. A register holds one value at a time: it is a key of a database, or
// several keys that are only ever written together. An operation on several registers happens at
// one moment.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "port/cpu.h"

namespace dlsm {

// Orders the calls and returns of one history; no two are equal. What returned before something
// else was called has the smaller number.
using Tick = uint64_t;
inline constexpr Tick kNever = std::numeric_limits<Tick>::max();

// The value of a register that nobody has written, or that was deleted.
inline constexpr uint64_t kNoValue = 0;

struct Access {
  uint32_t register_index = 0;
  uint64_t value = kNoValue;

  bool operator==(const Access&) const = default;
  // NOLINTNEXTLINE(modernize-use-nullptr): none is written here.
  auto operator<=>(const Access&) const = default;
};

struct Operation {
  enum class Kind : uint8_t { kRead, kWrite };

  Kind kind = Kind::kRead;
  int thread = 0;
  const char* name = "";  // Of what was called, for people.
  Tick called = 0;
  // kNever: a write whose outcome is not known. It takes effect at any time after the call, or
  // never.
  Tick returned = kNever;
  // Each register at most once.
  std::vector<Access> accesses;
  // Of a write that has told what some of its registers held before, such as an addition: it takes
  // effect only where they do. They are among the registers of `accesses`. A history with such
  // writes has none whose outcome is not known.
  std::vector<Access> saw = {};
  // It has its place among the operations on the same register, but need not have one among those
  // on others: what a database promises of point reads without a snapshot.
  bool ordered_per_register = false;

  bool writes() const { return kind == Kind::kWrite; }
  bool unknown() const { return returned == kNever; }
};

using History = std::vector<Operation>;

// "register 3 := 17", "register 3 = absent, register 4 = 2"
std::string DescribeAccesses(const Operation& operation);

// The same operations, each cut into one for each register: what must hold of every register by
// itself.
History CutIntoRegisters(const History& history);

// Without what is ordered per register only: what must hold of all registers together.
History OrderedTogether(const History& history);

// Records what several threads do: each has a log of its own. All logs share one clock.
class HistoryRecorder {
 public:
  class Log {
   public:
    Log(HistoryRecorder& recorder, int thread) : recorder_(&recorder), thread_(thread) {}

    // To be called right before the call, and right after it.
    Tick Now() { return recorder_->Now(); }
    void Add(Operation operation) {
      operation.thread = thread_;
      operations_.push_back(std::move(operation));
    }

   private:
    friend class HistoryRecorder;
    HistoryRecorder* recorder_;
    int thread_;
    History operations_;
  };

  explicit HistoryRecorder(int threads);

  // For one thread at a time.
  Log& LogOf(int thread) { return logs_[static_cast<size_t>(thread)]; }

  // What all threads have recorded. None of them is recording.
  History Collect() const;

 private:
  // A counter, not the time of day: that a number is larger proves that its thread came later, and
  // what had been stored by then can be seen. On x86 every such increment is a full barrier, of
  // whatever memory order; so ThreadSanitizer is shown none, and does not take the counter for what
  // orders the threads that it watches.
#if defined(__x86_64__)
  static constexpr std::memory_order kOrder = std::memory_order_relaxed;
#else
  static constexpr std::memory_order kOrder = std::memory_order_acq_rel;
#endif
  Tick Now() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const Tick now = ticks_.fetch_add(1, kOrder) + 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return now;
  }

  alignas(port::kCacheLineBytes) std::atomic<Tick> ticks_{0};
  alignas(port::kCacheLineBytes) std::vector<Log> logs_;
};

}  // namespace dlsm
