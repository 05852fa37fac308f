// Wing and Gong's search for an order that explains a history, with memoisation and just in time
// (Lowe, 2017):
//
//   1. Calls and returns are gone through in their order. A configuration is one way in which
//      things may stand: the registers' values, and which operations under way have taken effect.
//   2. At the return of an operation each configuration in which it has not taken effect is
//      replaced by all those that follow when some of the operations under way take effect and it
//      is the last. Equal configurations are one. If none is left, no order explains that return.
//   3. A read that sees what the registers hold takes effect at once: it stands in nobody's way.
//      A write that has told what was there before takes effect only then.
//   4. A write whose outcome is not known is under way for ever. One that nobody saw is left out.
//      On one register it takes effect only when a read under way waits for its value: any order
//      can be rearranged so. Of several alike it does not matter which; and of configurations that
//      differ only in how many of them have been used up, the one with fewer can do all that the
//      other can.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "db/test/history_testing.h"

namespace dlsm {

// The operations of registers that are connected.
using Component = std::vector<const Operation*>;

class JustInTimeSearch {
 public:
  struct Limits {
    std::chrono::steady_clock::time_point deadline;
    size_t configurations;  // At once.
  };
  enum class Outcome : uint8_t { kFound, kThereIsNone, kGivenUp };

  // The operations outlive the search.
  JustInTimeSearch(const Component& component, const Limits& limits);

  // Once.
  Outcome Run();

  // Of kThereIsNone: the operation whose return nothing explains.
  const Operation* unexplained() const { return unexplained_; }
  // Of kGivenUp: why.
  const char* limit() const { return limit_; }

 private:
  static constexpr size_t kSlots = 64;  // Operations under way: bits of a word.

  // Which of the operations under way have taken effect, and then the value of each register.
  using Words = std::vector<uint64_t>;
  static constexpr size_t kEffective = 0;
  static constexpr size_t kFirstRegister = 1;
  struct WordsHash {
    size_t operator()(const Words& words) const;
  };
  struct Configuration {
    Words words;
    Words used;  // Of each class of unknown writes, how many have taken effect.
  };

  // No two of which one can do all that the other can.
  class Configurations {
   public:
    // False if there was one that can do as much.
    bool Insert(Configuration configuration);
    size_t size() const { return size_; }
    template <typename Function>
    void ForEach(const Function& function) const {
      for (const auto& [words, alternatives] : by_words_) {
        for (const Words& used : alternatives) function(Configuration{words, used});
      }
    }

   private:
    std::unordered_map<Words, std::vector<Words>, WordsHash> by_words_;
    size_t size_ = 0;
  };

  // A call or a return.
  struct Event {
    Tick tick;
    bool is_return;
    const Operation* operation;
  };
  // Unknown writes of the same values.
  struct UnknownWrites {
    const Operation* write;
    Tick last_seen = 0;      // When the last read that saw one of its values returned.
    uint64_t available = 0;  // Called by now.
  };

  void FindUnknownWrites(const Component& component);
  // The outcome, if that is the end.
  std::optional<Outcome> Call(const Operation& operation);
  std::optional<Outcome> Return(const Operation& operation);
  // What follows from `configuration` by one write.
  template <typename Reach>
  void ForEachSuccessor(const Configuration& configuration, Tick now, const Reach& reach) const;

  size_t WordOf(const Access& access) const { return registers_.at(access.register_index); }
  bool Sees(const std::vector<Access>& accesses, const Words& words) const;
  void Apply(const Operation& write, Words* words) const;
  // Makes all reads take effect that can.
  void LetReadsPass(Words* words) const;
  bool IsWorthTrying(const UnknownWrites& writes, const Words& words, Tick now) const;
  bool OutOfLimits(size_t configurations);

  const Limits limits_;
  std::map<uint32_t, size_t> registers_;  // Index -> word of a configuration.
  std::vector<Event> events_;
  std::vector<UnknownWrites> unknown_;
  std::map<const Operation*, size_t> unknown_class_;

  std::array<const Operation*, kSlots> under_way_{};
  std::map<const Operation*, size_t> slots_;
  uint64_t writes_ = 0;  // Slots of writes under way.
  uint64_t reads_ = 0;
  Configurations configurations_;

  const Operation* unexplained_ = nullptr;
  const char* limit_ = "";
};

}  // namespace dlsm
