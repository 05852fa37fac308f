// A violation is made small: writes are left out together with all reads that may have seen them,
// and reads by themselves, as long as it stays one. What is linearizable stays so when they are
// left out, so the rest proves as much as the whole did.
#include "db/test/linearizability_checker_testing.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "db/test/just_in_time_search_testing.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;
using Limits = JustInTimeSearch::Limits;

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
  result.reserve(components.size());
  for (auto& [root, component] : components) result.push_back(std::move(component));
  return result;
}

// -------- Small counterexamples

// Which of the writes of what a read saw it may have seen, whatever order explains the history. Of
// deletions there are many, so it matters which; anything else that was seen should be found in the
// counterexample where it was written, however long before.
class Sight {
 public:
  explicit Sight(const Component& component) {
    for (const Operation* operation : component) {
      if (!operation->writes() || operation->unknown()) continue;
      for (const Access& access : operation->accesses) {
        writes_[access.register_index].push_back({operation->returned, operation->called});
      }
    }
    for (auto& [index, writes] : writes_) {
      std::ranges::sort(writes);
      Tick latest = 0;
      for (auto& [returned, latest_call] : writes) {
        latest = latest_call = std::max(latest, latest_call);
      }
    }
  }

  // Not one that another write came after which had returned before the read was called.
  bool MayHaveSeen(const Operation& read, const Access& access, const Operation& write) const {
    return access.value != kNoValue ||
           (write.called <= read.returned && write.returned >= LastCallBefore(read, access));
  }

 private:
  // When the last write was called that had returned by then.
  Tick LastCallBefore(const Operation& read, const Access& access) const {
    const auto writes = writes_.find(access.register_index);
    if (writes == writes_.end()) return 0;
    const auto after =
        std::ranges::lower_bound(writes->second, read.called, {}, &std::pair<Tick, Tick>::first);
    return after == writes->second.begin() ? 0 : std::prev(after)->second;
  }

  // Of each register, by their return: and the latest call up to there.
  std::map<uint32_t, std::vector<std::pair<Tick, Tick>>> writes_;
};

class Shrinker {
 public:
  // `component` is a violation, found at `unexplained`.
  Shrinker(const Component& component, const Operation& unexplained)
      : sight_(component), unexplained_(&unexplained) {
    std::ranges::copy_if(component, std::back_inserter(kept_), [&](const Operation* operation) {
      return operation->called < unexplained.returned;
    });
    // So that neighbours here overlap, and pieces are spans of time.
    std::ranges::stable_sort(kept_, {}, &Operation::called);
  }

  const Component& Shrink() {
    for (size_t before = 0; before != kept_.size() && Clock::now() < limits_.deadline;) {
      before = kept_.size();
      LeaveOut(Operation::Kind::kWrite);
      LeaveOut(Operation::Kind::kRead);
    }
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

  // Operations that may have seen what is left out are left out, too, and those that saw these.
  void TryWithout(std::set<const Operation*> left_out) {
    while (LeaveOutThoseThatSaw(&left_out)) {
    }
    Component rest;
    std::ranges::copy_if(kept_, std::back_inserter(rest), [&left_out](const Operation* operation) {
      return !left_out.contains(operation);
    });
    if (rest.size() == kept_.size()) return;
    JustInTimeSearch search(rest, limits_);
    if (search.Run() != JustInTimeSearch::Outcome::kThereIsNone) return;
    kept_ = std::move(rest);
    unexplained_ = search.unexplained();
  }

  // Returns true if there was a write among them.
  bool LeaveOutThoseThatSaw(std::set<const Operation*>* left_out) const {
    std::map<Access, std::vector<const Operation*>> never_written;
    for (const Operation* operation : *left_out) {
      if (!operation->writes()) continue;
      for (const Access& access : operation->accesses) never_written[access].push_back(operation);
    }
    const auto may_have_seen = [&](const Operation& read, const Access& access) {
      const auto writes = never_written.find(access);
      return writes != never_written.end() &&
             std::ranges::any_of(writes->second, [&](const Operation* write) {
               return sight_.MayHaveSeen(read, access, *write);
             });
    };
    bool left_out_a_write = false;
    for (const Operation* operation : kept_) {
      const std::vector<Access>& seen = operation->writes() ? operation->saw : operation->accesses;
      const bool saw = std::ranges::any_of(
          seen, [&](const Access& access) { return may_have_seen(*operation, access); });
      if (saw && left_out->insert(operation).second) left_out_a_write |= operation->writes();
    }
    return left_out_a_write;
  }

  // What takes long is not tried: the next piece may be easier.
  const Limits limits_{Clock::now() + std::chrono::seconds(10), 4096};
  const Sight sight_;
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
  JustInTimeSearch search(component, limits);
  switch (search.Run()) {
    case JustInTimeSearch::Outcome::kFound:
      break;
    case JustInTimeSearch::Outcome::kGivenUp:
      verdict.outcome = Verdict::Outcome::kUndecided;
      verdict.explanation = std::string("undecided: ") + search.limit() + ", with " +
                            std::to_string(component.size()) + " operations";
      break;
    case JustInTimeSearch::Outcome::kThereIsNone: {
      Shrinker shrinker(component, *search.unexplained());
      const Component& shrunk = shrinker.Shrink();
      verdict.outcome = Verdict::Outcome::kViolation;
      for (const Operation* operation : shrunk) verdict.counterexample.push_back(*operation);
      verdict.explanation = "not linearizable: no order explains these " +
                            std::to_string(shrunk.size()) + " of " +
                            std::to_string(component.size()) + " operations:\n" +
                            Draw(shrunk, shrinker.unexplained());
    }
  }
  return verdict;
}

}  // namespace

Verdict CheckLinearizability(const History& history, const CheckerLimits& limits) {
  const Limits until{Clock::now() + limits.time, limits.configurations};
  Verdict undecided;
  for (const Component& component : ConnectedComponents(history)) {
    Verdict verdict = CheckComponent(component, until);
    if (verdict.outcome == Verdict::Outcome::kViolation) return verdict;
    if (verdict.outcome == Verdict::Outcome::kUndecided) undecided = std::move(verdict);
  }
  return undecided;
}

std::ostream& operator<<(std::ostream& out, const Verdict& verdict) {
  return out << (verdict.outcome == Verdict::Outcome::kLinearizable ? "linearizable"
                                                                    : verdict.explanation);
}

}  // namespace dlsm
