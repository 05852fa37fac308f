// What the threads of a write workload do: a sequence of steps that is a fixed function of the
// workload's description. So what a database must hold afterwards can be told from descriptions and
// from how many steps each thread took, and `verify` needs no record of what was written.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/key_generator.h"
#include "util/random.h"

namespace dlsm::bench {

enum class StepKind : uint8_t { kPut, kDelete, kDeleteRange, kRead };

// So many keys, from that of the step on, a kDeleteRange deletes.
inline constexpr uint64_t kRangeKeys = 100;

struct Step {
  StepKind kind;
  uint64_t key_index;
};

enum class Order {
  kSequential,  // Each index once, ascending; each thread has a part of the range of its own.
  kUnique,      // Each index once, in random order; each thread has a part of the permutation.
  kRandom,      // As `distribution` says, each thread by itself.
};

struct StreamDescription {
  StepKind kind = StepKind::kPut;  // Of the steps that are not reads.
  Order order = Order::kRandom;
  Distribution distribution = Distribution::kUniform;
  double zipf_theta = 0.99;
  uint64_t num = 0;  // Indexes are below.
  uint32_t threads = 1;
  uint32_t read_percent = 0;
  uint64_t seed = 0;
  // Of the values put; later workloads on one database have higher ones. From 1.
  uint16_t version = 1;
};

// What the threads of one workload share. Thread-safe.
class StreamPlan {
 public:
  explicit StreamPlan(const StreamDescription& description);

  const StreamDescription& description() const { return description_; }
  const KeyChooser& chooser() const { return chooser_; }
  const Permutation& permutation() const { return permutation_; }
  // Where the part of `thread` begins, in the orders that share out [0, num).
  uint64_t PartBegin(uint32_t thread) const {
    return description_.num * thread / description_.threads;
  }

 private:
  StreamDescription description_;
  KeyChooser chooser_;
  Permutation permutation_;
};

// The steps of one thread. Sequential and unique orders start over when their part is done.
class StepStream {
 public:
  StepStream(const StreamPlan& plan, uint32_t thread);

  const StreamPlan& plan() const { return plan_; }

  Step Next() {
    const StreamDescription& what = plan_.description();
    StepKind kind = what.kind;
    if (what.read_percent > 0 && random_.Uniform(100) < what.read_percent) kind = StepKind::kRead;
    return {kind, NextIndex(what.order)};
  }

 private:
  uint64_t NextIndex(Order order) {
    if (order == Order::kRandom) return plan_.chooser().Choose(random_);
    if (next_ == end_) next_ = begin_;
    const uint64_t index = next_++;
    return order == Order::kUnique ? plan_.permutation().Map(index) : index;
  }

  const StreamPlan& plan_;
  Random random_;
  uint64_t begin_, end_, next_;
};

// The write workloads that a database has seen since it was empty.
class WriteHistory {
 public:
  void Clear() { entries_.clear(); }
  void Add(const StreamDescription& description, std::vector<uint64_t> steps_of_thread) {
    entries_.push_back({description, std::move(steps_of_thread)});
  }
  uint16_t NextVersion() const { return static_cast<uint16_t>(entries_.size() + 1); }

  // result[i]: the version that key i must have, 0 if it must not exist.
  std::vector<uint16_t> Replay(uint64_t num) const;

 private:
  struct Entry {
    StreamDescription description;
    std::vector<uint64_t> steps_of_thread;
  };
  static void ReplayEntry(const Entry& entry, std::vector<uint16_t>* versions);

  std::vector<Entry> entries_;
};

}  // namespace dlsm::bench
