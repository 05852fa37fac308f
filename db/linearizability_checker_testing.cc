// Wing and Gong's search with memoisation, just in time (Lowe, 2017):
//
//   1. Calls and returns are gone through in their order. A configuration is one way in which
//   things
//      may stand: the registers' values, and which operations under way have taken effect.
//   2. At the return of an operation each configuration in which it has not taken effect is
//   replaced
//      by all those that follow when some of the operations under way take effect and it is the
//      last. Equal configurations are one. If none is left, no order explains that return.
//   3. A read that sees what the registers hold takes effect at once: it stands in nobody's way.
//   4. A write whose outcome is not known is under way for ever. It is of no use until somebody
//   sees
//      what it wrote. On one register it takes effect right before a read that sees it, or never:
//      any order can be rearranged so. Of several alike it does not matter which.
//   5. A violation is made small: writes are left out together with all reads that saw them, and
//      reads by themselves, as long as it stays one. What is linearizable stays so when they are
//      left out, so the rest proves as much as the whole did.
#include "db/linearizability_checker_testing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "util/random.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = Verdict::Outcome;

constexpr size_t kSlots = 64;  // Operations under way: bits of a word.

// Which of the operations under way have taken effect; then the value of each register; then how
// many of each class of unknown writes have taken effect.
using Configuration = std::vector<uint64_t>;
constexpr size_t kEffective = 0;
constexpr size_t kFirstRegister = 1;

struct ConfigurationHash {
  size_t operator()(const Configuration& configuration) const {
    uint64_t hash = 0;
    for (const uint64_t word : configuration) hash = SplitMix64(hash ^ word);
    return hash;
  }
};
using Configurations = std::unordered_set<Configuration, ConfigurationHash>;

// The operations of registers that are connected.
using Component = std::vector<const Operation*>;

struct Limits {
  Clock::time_point deadline;
  size_t configurations;
};

class Search {
 public:
  Search(const Component& component, const Limits& limits);

  Outcome Run();

  // Of kViolation: the operation whose return nothing explains.
  const Operation* unexplained() const { return unexplained_; }
  // Of kUndecided.
  const char* limit() const { return limit_; }

 private:
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
  std::optional<Outcome> Call(const Operation& operation);
  std::optional<Outcome> Return(const Operation& operation);
  // What follows from `configuration` by one write.
  template <typename Reach>
  void ForEachSuccessor(const Configuration& configuration, Tick now, const Reach& reach) const;

  size_t RegisterWord(const Access& access) const { return registers_.at(access.register_index); }
  bool Sees(const Operation& read, const Configuration& configuration) const;
  void Apply(const Operation& write, Configuration* configuration) const;
  // Makes all reads take effect that can. Returns whether there were any.
  bool LetReadsPass(Configuration* configuration) const;
  bool OutOfLimits(size_t configurations);

  const Limits limits_;
  std::map<uint32_t, size_t> registers_;  // Index -> word of a configuration.
  std::vector<Event> events_;
  std::vector<UnknownWrites> unknown_;  // As in the last words of a configuration.
  std::map<const Operation*, size_t> unknown_class_;

  std::array<const Operation*, kSlots> under_way_{};
  std::map<const Operation*, size_t> slots_;
  uint64_t writes_ = 0;  // Slots of writes under way.
  uint64_t reads_ = 0;
  Configurations configurations_;

  const Operation* unexplained_ = nullptr;
  const char* limit_ = "";
};

Search::Search(const Component& component, const Limits& limits) : limits_(limits) {
  for (const Operation* operation : component) {
    for (const Access& access : operation->accesses) {
      registers_.try_emplace(access.register_index, kFirstRegister + registers_.size());
    }
  }
  FindUnknownWrites(component);
  for (const Operation* operation : component) {
    if (operation->unknown() && !unknown_class_.contains(operation)) continue;
    events_.push_back({operation->called, false, operation});
    if (!operation->unknown()) events_.push_back({operation->returned, true, operation});
  }
  // What has the same tick overlaps.
  std::ranges::stable_sort(events_, [](const Event& a, const Event& b) {
    return std::pair(a.tick, a.is_return) < std::pair(b.tick, b.is_return);
  });
}

void Search::FindUnknownWrites(const Component& component) {
  std::map<Access, Tick> last_seen;
  for (const Operation* operation : component) {
    if (operation->writes()) continue;
    for (const Access& access : operation->accesses) {
      Tick& seen = last_seen[access];
      seen = std::max(seen, operation->returned);
    }
  }
  std::map<std::vector<Access>, size_t> classes;
  for (const Operation* operation : component) {
    if (!operation->writes() || !operation->unknown()) continue;
    Tick seen = 0;
    for (const Access& access : operation->accesses) {
      if (const auto found = last_seen.find(access); found != last_seen.end()) {
        seen = std::max(seen, found->second);
      }
    }
    if (seen < operation->called) continue;  // Nobody saw it.
    const auto [place, is_new] = classes.try_emplace(operation->accesses, unknown_.size());
    if (is_new) unknown_.push_back({operation});
    unknown_[place->second].last_seen = seen;
    unknown_class_[operation] = place->second;
  }
}

Outcome Search::Run() {
  configurations_.insert(Configuration(kFirstRegister + registers_.size() + unknown_.size()));
  for (const Event& event : events_) {
    const std::optional<Outcome> ended =
        event.is_return ? Return(*event.operation) : Call(*event.operation);
    if (ended) return *ended;
  }
  return Outcome::kLinearizable;
}

std::optional<Outcome> Search::Call(const Operation& operation) {
  if (operation.unknown()) {
    ++unknown_[unknown_class_.at(&operation)].available;
    return std::nullopt;
  }
  const auto slot = static_cast<size_t>(std::countr_one(writes_ | reads_));
  if (slot == kSlots) {
    limit_ = "more than 64 operations were under way";
    return Outcome::kUndecided;
  }
  slots_[&operation] = slot;
  under_way_[slot] = &operation;
  if (operation.writes()) {
    writes_ |= uint64_t{1} << slot;
    return std::nullopt;
  }
  reads_ |= uint64_t{1} << slot;
  Configurations passed;
  while (!configurations_.empty()) {
    auto node = configurations_.extract(configurations_.begin());
    LetReadsPass(&node.value());
    passed.insert(std::move(node));
  }
  configurations_ = std::move(passed);
  return std::nullopt;
}

std::optional<Outcome> Search::Return(const Operation& operation) {
  const size_t slot = slots_.at(&operation);
  const uint64_t bit = uint64_t{1} << slot;
  Configurations next;
  Configurations visited;
  std::vector<Configuration> unfinished;
  const auto reach = [&](Configuration configuration) {
    if ((configuration[kEffective] & bit) != 0) {
      configuration[kEffective] &= ~bit;  // The slot is given back.
      next.insert(std::move(configuration));
    } else if (visited.insert(configuration).second) {
      unfinished.push_back(std::move(configuration));
    }
  };
  for (const Configuration& configuration : configurations_) reach(configuration);
  while (!unfinished.empty()) {
    if (OutOfLimits(next.size() + visited.size())) return Outcome::kUndecided;
    const Configuration configuration = std::move(unfinished.back());
    unfinished.pop_back();
    ForEachSuccessor(configuration, operation.returned, reach);
  }
  if (next.empty()) {
    unexplained_ = &operation;
    return Outcome::kViolation;
  }
  configurations_ = std::move(next);
  slots_.erase(&operation);
  under_way_[slot] = nullptr;
  writes_ &= ~bit;
  reads_ &= ~bit;
  return std::nullopt;
}

template <typename Reach>
void Search::ForEachSuccessor(const Configuration& configuration, Tick now,
                              const Reach& reach) const {
  for (uint64_t left = writes_ & ~configuration[kEffective]; left != 0; left &= left - 1) {
    const auto slot = static_cast<size_t>(std::countr_zero(left));
    Configuration successor = configuration;
    Apply(*under_way_[slot], &successor);
    successor[kEffective] |= uint64_t{1} << slot;
    LetReadsPass(&successor);
    reach(std::move(successor));
  }
  for (size_t i = 0; i < unknown_.size(); ++i) {
    const UnknownWrites& writes = unknown_[i];
    const size_t word = kFirstRegister + registers_.size() + i;
    if (configuration[word] >= writes.available || writes.last_seen < now) continue;
    Configuration successor = configuration;
    Apply(*writes.write, &successor);
    ++successor[word];
    const bool seen = LetReadsPass(&successor);
    if (seen || writes.write->accesses.size() > 1) reach(std::move(successor));
  }
}

bool Search::Sees(const Operation& read, const Configuration& configuration) const {
  return std::ranges::all_of(read.accesses, [&](const Access& access) {
    return configuration[RegisterWord(access)] == access.value;
  });
}

void Search::Apply(const Operation& write, Configuration* configuration) const {
  for (const Access& access : write.accesses) {
    (*configuration)[RegisterWord(access)] = access.value;
  }
}

bool Search::LetReadsPass(Configuration* configuration) const {
  bool any = false;
  for (uint64_t left = reads_ & ~(*configuration)[kEffective]; left != 0; left &= left - 1) {
    const auto slot = static_cast<size_t>(std::countr_zero(left));
    if (!Sees(*under_way_[slot], *configuration)) continue;
    (*configuration)[kEffective] |= uint64_t{1} << slot;
    any = true;
  }
  return any;
}

bool Search::OutOfLimits(size_t configurations) {
  if (configurations > limits_.configurations) {
    limit_ = "too many configurations are possible at once";
    return true;
  }
  if (Clock::now() >= limits_.deadline) {
    limit_ = "it took too long";
    return true;
  }
  return false;
}

// -------- Components

std::vector<Component> ConnectedComponents(const History& history) {
  std::map<uint32_t, uint32_t> parents;
  const auto root_of = [&parents](uint32_t index) {
    parents.try_emplace(index, index);
    while (parents[index] != index) index = parents[index] = parents[parents[index]];
    return index;
  };
  for (const Operation& operation : history) {
    for (const Access& access : operation.accesses) {
      parents[root_of(access.register_index)] = root_of(operation.accesses.front().register_index);
    }
  }
  std::map<uint32_t, Component> components;
  for (const Operation& operation : history) {
    if (operation.accesses.empty()) continue;
    if (!operation.writes() && operation.unknown()) continue;  // A read that saw nothing.
    components[root_of(operation.accesses.front().register_index)].push_back(&operation);
  }
  std::vector<Component> result;
  for (auto& [root, component] : components) result.push_back(std::move(component));
  return result;
}

// -------- Small counterexamples

class Shrinker {
 public:
  // `component` is a violation, found at `unexplained`.
  Shrinker(const Component& component, const Operation& unexplained, const Limits& limits)
      : limits_(limits), unexplained_(&unexplained) {
    std::ranges::copy_if(component, std::back_inserter(kept_), [&](const Operation* operation) {
      return operation->called < unexplained.returned;
    });
  }

  const Component& Shrink() {
    for (size_t before = 0; before != kept_.size();) {
      before = kept_.size();
      LeaveOut(Operation::Kind::kWrite);
      LeaveOut(Operation::Kind::kRead);
    }
    std::ranges::stable_sort(kept_, {}, &Operation::called);
    return kept_;
  }
  const Operation& unexplained() const { return *unexplained_; }

 private:
  // Tries large pieces first.
  void LeaveOut(Operation::Kind kind) {
    for (size_t piece = kept_.size(); piece > 0; piece /= 2) {
      std::vector<const Operation*> candidates;
      std::ranges::copy_if(kept_, std::back_inserter(candidates),
                           [kind](const Operation* operation) { return operation->kind == kind; });
      for (size_t i = 0; i < candidates.size(); i += piece) {
        const size_t end = std::min(i + piece, candidates.size());
        TryWithout({candidates.begin() + static_cast<ptrdiff_t>(i),
                    candidates.begin() + static_cast<ptrdiff_t>(end)});
        if (Clock::now() >= limits_.deadline) return;
      }
    }
  }

  void TryWithout(const std::set<const Operation*>& left_out) {
    std::set<Access> never_written;
    for (const Operation* operation : left_out) {
      if (operation->writes()) {
        never_written.insert(operation->accesses.begin(), operation->accesses.end());
      }
    }
    Component rest;
    for (const Operation* operation : kept_) {
      if (left_out.contains(operation)) continue;
      const bool saw = !operation->writes() &&
                       std::ranges::any_of(operation->accesses, [&](const Access& access) {
                         return never_written.contains(access);
                       });
      if (!saw) rest.push_back(operation);
    }
    if (rest.size() == kept_.size()) return;
    Search search(rest, limits_);
    if (search.Run() != Outcome::kViolation) return;
    kept_ = std::move(rest);
    unexplained_ = search.unexplained();
  }

  const Limits limits_;
  const Operation* unexplained_;
  Component kept_;
};

// One line for each operation, with a drawing of when it was under way.
std::string Draw(const Component& component, const Operation& unexplained) {
  std::set<Tick> ticks;
  for (const Operation* operation : component) {
    ticks.insert(operation->called);
    ticks.insert(operation->returned);
  }
  constexpr size_t kTicksMax = 64;
  std::string text;
  for (const Operation* operation : component) {
    const auto column = [&ticks](Tick tick) {
      return static_cast<size_t>(std::distance(ticks.begin(), ticks.find(tick)));
    };
    std::string line(ticks.size(), ' ');
    const size_t from = column(operation->called);
    const size_t to = column(operation->returned);
    for (size_t i = from; i <= to; ++i) line[i] = '-';
    line[from] = '|';
    line[to] = operation->unknown() ? '?' : '|';
    if (ticks.size() > kTicksMax) line.clear();
    text += "  " + line + "  thread " + std::to_string(operation->thread) + "  " + operation->name +
            "  " + DescribeAccesses(*operation) + "  [" + std::to_string(operation->called) + ", " +
            (operation->unknown() ? "unknown" : std::to_string(operation->returned)) + "]" +
            (operation == &unexplained ? "  <- unexplained\n" : "\n");
  }
  return text;
}

Verdict CheckComponent(const Component& component, const Limits& limits) {
  Verdict verdict;
  Search search(component, limits);
  verdict.outcome = search.Run();
  if (verdict.outcome == Outcome::kUndecided) {
    verdict.explanation = std::string("undecided: ") + search.limit() + ", with " +
                          std::to_string(component.size()) + " operations";
  }
  if (verdict.outcome == Outcome::kViolation) {
    Shrinker shrinker(component, *search.unexplained(), limits);
    const Component& shrunk = shrinker.Shrink();
    for (const Operation* operation : shrunk) verdict.counterexample.push_back(*operation);
    verdict.explanation =
        "not linearizable: no order explains these " + std::to_string(shrunk.size()) + " of " +
        std::to_string(component.size()) + " operations:\n" + Draw(shrunk, shrinker.unexplained());
  }
  return verdict;
}

}  // namespace

Verdict CheckLinearizability(const History& history, const CheckerLimits& limits) {
  const Limits until{Clock::now() + limits.time, limits.configurations};
  Verdict undecided;
  for (const Component& component : ConnectedComponents(history)) {
    Verdict verdict = CheckComponent(component, until);
    if (verdict.outcome == Outcome::kViolation) return verdict;
    if (verdict.outcome == Outcome::kUndecided) undecided = std::move(verdict);
  }
  return undecided;
}

std::ostream& operator<<(std::ostream& out, const Verdict& verdict) {
  return out << (verdict.outcome == Outcome::kLinearizable ? "linearizable" : verdict.explanation);
}

}  // namespace dlsm
