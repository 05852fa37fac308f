// One thread of a workload: its handle on the store, its generators and what it measured.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "benchmarks/bench_options.h"
#include "benchmarks/engine.h"
#include "benchmarks/key_generator.h"
#include "benchmarks/tick_clock.h"
#include "benchmarks/value_generator.h"
#include "util/histogram.h"
#include "util/random.h"

namespace dlsm::bench {

// What all threads of one workload share. Constant while they run, but for the atomic.
struct SharedState {
  const BenchOptions& options;
  const ValueGenerator& values;
  const TickClock& clock;
  double duration_seconds = 0;  // 0: as many operations as the worker was given.
  // How many threads are measured. Others (the writer of readwhilewriting) go on until these are
  // done.
  uint32_t measured_threads = 1;
  std::atomic<uint32_t> measured_running{0};
};

// Of what worker `index` of the `run`th benchmark draws by itself. Unlike the seed of any stream of
// writes (step_stream.cc), whichever process made it: a reader that draws as a writer did asks for
// the keys that were written, and finds all of them.
inline uint64_t WorkerSeed(uint64_t seed, uint64_t run, uint32_t index) {
  constexpr uint64_t kSalt = 0x776f726b6572;
  return SplitMix64(seed ^ SplitMix64(kSalt ^ SplitMix64(run << 32 | index)));
}

// Used by its own thread; but anyone may ask Progress() at any time, and the rest when the thread
// is joined. Aligned so that two workers share no cache line.
class alignas(64) Worker {
 public:
  Worker(const SharedState& shared, uint32_t index, uint64_t operations, uint64_t seed)
      : shared_(shared),
        index_(index),
        operations_(shared.duration_seconds > 0 ? UINT64_MAX : operations),
        random_(seed),
        keys_(shared.options.key_bytes, shared.options.first_key) {}

  // The session is made and dropped by the thread that uses it.
  void Connect(Engine& engine) { session_ = engine.NewSession(); }
  void Disconnect() { session_.reset(); }

  // Calls body() until operations() are done, the time is up, or it returns 0. It returns how many
  // operations it did; each call is one latency, which includes making the keys and values.
  template <typename Body>
  void Loop(Body body) {
    LoopOverlapping([&](uint64_t* /*begun*/) { return body(); });
  }
  // The same of operations that overlap: body(&begun) ends one that began earlier than the call,
  // and sets `begun` to the clock's reading then. What it leaves alone is when the last call ended.
  template <typename Body>
  void LoopOverlapping(Body body) {
    const TickClock& clock = shared_.clock;
    const double seconds = shared_.duration_seconds;
    uint64_t before = clock.Now();
    const uint64_t deadline = seconds > 0 ? before + clock.FromSeconds(seconds) : UINT64_MAX;
    while (done_ < operations_ && before < deadline) {
      uint64_t begun = before;
      const uint64_t count = body(&begun);
      if (count == 0) [[unlikely]]
        break;
      const uint64_t now = clock.Now();
      latency_.Add(now - begun);
      before = now;
      CountDone(count);
    }
  }

  // Returns 0, for a body to end its loop with.
  uint64_t Fail(const Status& status) {
    if (status_.ok()) status_ = status;
    return 0;
  }
  bool MeasuredThreadsRun() const {
    return shared_.measured_running.load(std::memory_order_relaxed) > 0;
  }

  // Counts a value that was read, and reads of it what an application could not do without: a byte
  // of each cache line. Otherwise a value that is only pointed at would count as read.
  void Found(const Slice& value) {
    ++found_;
    Read(value);
  }
  void Missed() { ++missed_; }
  void Read(const Slice& value) {
    if (!shared_.options.touch_values) return;
    for (size_t i = 0; i < value.size(); i += 64) touched_ += static_cast<uint8_t>(value.data()[i]);
  }
  void CountWrite(size_t bytes) { bytes_written_ += bytes; }
  void CountSteps(uint64_t count) { steps_ += count; }
  // For those that loop by themselves.
  void CountDone(uint64_t count) {
    done_ += count;
    progress_.store(done_, std::memory_order_relaxed);
  }

  Session& session() { return *session_; }
  Random& random() { return random_; }
  KeyFormatter& keys() { return keys_; }
  const ValueGenerator& values() const { return shared_.values; }
  const BenchOptions& options() const { return shared_.options; }
  const TickClock& clock() const { return shared_.clock; }
  uint32_t index() const { return index_; }
  bool measured() const { return index_ < shared_.measured_threads; }
  // The most that the loop does; no limit if the time is one.
  uint64_t operations() const { return operations_; }

  uint64_t Progress() const { return progress_.load(std::memory_order_relaxed); }
  uint64_t done() const { return done_; }
  uint64_t found() const { return found_; }
  uint64_t missed() const { return missed_; }
  uint64_t bytes_written() const { return bytes_written_; }
  // Of the stream of a write workload, all of them done.
  uint64_t steps() const { return steps_; }
  const Histogram& latency() const { return latency_; }
  const Status& status() const { return status_; }

 private:
  const SharedState& shared_;
  const uint32_t index_;
  const uint64_t operations_;
  Random random_;
  KeyFormatter keys_;
  std::unique_ptr<Session> session_;
  uint64_t done_ = 0;
  uint64_t found_ = 0;
  uint64_t missed_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t steps_ = 0;
  uint64_t touched_ = 0;
  Status status_;
  Histogram latency_;  // In ticks.
  // Relaxed: a progress line needs no order.
  std::atomic<uint64_t> progress_{0};
};

}  // namespace dlsm::bench
