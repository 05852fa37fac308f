#include "db/test/just_in_time_search_testing.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "util/random.h"

namespace dlsm {

using Outcome = JustInTimeSearch::Outcome;

// -------- Configurations

size_t JustInTimeSearch::WordsHash::operator()(const Words& words) const {
  uint64_t hash = 0;
  for (const uint64_t word : words) hash = SplitMix64(hash ^ word);
  return hash;
}

bool JustInTimeSearch::Configurations::Insert(Configuration configuration) {
  const auto uses_no_more = [](const Words& a, const Words& b) {
    return std::ranges::equal(a, b, std::less_equal<>());
  };
  std::vector<Words>& alternatives = by_words_[std::move(configuration.words)];
  const Words& used = configuration.used;
  if (std::ranges::any_of(alternatives,
                          [&](const Words& other) { return uses_no_more(other, used); })) {
    return false;
  }
  size_ -=
      std::erase_if(alternatives, [&](const Words& other) { return uses_no_more(used, other); });
  alternatives.push_back(std::move(configuration.used));
  ++size_;
  return true;
}

// -------- Events

JustInTimeSearch::JustInTimeSearch(const Component& component, const Limits& limits)
    : limits_(limits) {
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

void JustInTimeSearch::FindUnknownWrites(const Component& component) {
  std::map<Access, Tick> last_seen;
  for (const Operation* operation : component) {
    if (operation->writes() || operation->unknown()) continue;
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

Outcome JustInTimeSearch::Run() {
  configurations_.Insert(
      {Words(kFirstRegister + registers_.size(), kNoValue), Words(unknown_.size())});
  for (const Event& event : events_) {
    const std::optional<Outcome> ended =
        event.is_return ? Return(*event.operation) : Call(*event.operation);
    if (ended) return *ended;
  }
  return Outcome::kFound;
}

std::optional<Outcome> JustInTimeSearch::Call(const Operation& operation) {
  if (operation.unknown()) {
    ++unknown_[unknown_class_.at(&operation)].available;
    return std::nullopt;
  }
  const auto slot = static_cast<size_t>(std::countr_one(writes_ | reads_));
  if (slot == kSlots) {
    limit_ = "more than 64 operations were under way";
    return Outcome::kGivenUp;
  }
  slots_[&operation] = slot;
  under_way_[slot] = &operation;
  if (operation.writes()) {
    writes_ |= uint64_t{1} << slot;
    return std::nullopt;
  }
  reads_ |= uint64_t{1} << slot;
  Configurations passed;
  configurations_.ForEach([&](Configuration configuration) {
    LetReadsPass(&configuration.words);
    passed.Insert(std::move(configuration));
  });
  configurations_ = std::move(passed);
  return std::nullopt;
}

std::optional<Outcome> JustInTimeSearch::Return(const Operation& operation) {
  const size_t slot = slots_.at(&operation);
  const uint64_t bit = uint64_t{1} << slot;
  Configurations next;
  Configurations visited;
  std::vector<Configuration> unfinished;
  const auto reach = [&](Configuration configuration) {
    LetReadsPass(&configuration.words);
    if ((configuration.words[kEffective] & bit) != 0) {
      configuration.words[kEffective] &= ~bit;  // The slot is given back.
      next.Insert(std::move(configuration));
    } else if (visited.Insert(configuration)) {
      unfinished.push_back(std::move(configuration));
    }
  };
  configurations_.ForEach(reach);
  while (!unfinished.empty()) {
    if (OutOfLimits(next.size() + visited.size())) return Outcome::kGivenUp;
    const Configuration configuration = std::move(unfinished.back());
    unfinished.pop_back();
    ForEachSuccessor(configuration, operation.returned, reach);
  }
  if (next.size() == 0) {
    unexplained_ = &operation;
    return Outcome::kThereIsNone;
  }
  configurations_ = std::move(next);
  slots_.erase(&operation);
  under_way_[slot] = nullptr;
  writes_ &= ~bit;
  reads_ &= ~bit;
  return std::nullopt;
}

bool JustInTimeSearch::OutOfLimits(size_t configurations) {
  if (configurations > limits_.configurations) {
    limit_ = "too many configurations are possible at once";
    return true;
  }
  if (std::chrono::steady_clock::now() >= limits_.deadline) {
    limit_ = "it took too long";
    return true;
  }
  return false;
}

// -------- Taking effect

template <typename Reach>
void JustInTimeSearch::ForEachSuccessor(const Configuration& configuration, Tick now,
                                        const Reach& reach) const {
  for (uint64_t left = writes_ & ~configuration.words[kEffective]; left != 0; left &= left - 1) {
    const auto slot = static_cast<size_t>(std::countr_zero(left));
    if (!Sees(under_way_[slot]->saw, configuration.words)) continue;
    Configuration successor = configuration;
    Apply(*under_way_[slot], &successor.words);
    successor.words[kEffective] |= uint64_t{1} << slot;
    reach(std::move(successor));
  }
  for (size_t i = 0; i < unknown_.size(); ++i) {
    if (configuration.used[i] >= unknown_[i].available) continue;
    if (!IsWorthTrying(unknown_[i], configuration.words, now)) continue;
    Configuration successor = configuration;
    Apply(*unknown_[i].write, &successor.words);
    ++successor.used[i];
    reach(std::move(successor));
  }
}

// On several registers it may be covered in one and seen in another, at any time until then.
bool JustInTimeSearch::IsWorthTrying(const UnknownWrites& writes, const Words& words,
                                     Tick now) const {
  const std::vector<Access>& accesses = writes.write->accesses;
  const bool changes_nothing = std::ranges::all_of(
      accesses, [&](const Access& access) { return words[WordOf(access)] == access.value; });
  if (changes_nothing || writes.last_seen < now) return false;
  if (accesses.size() > 1) return true;
  for (uint64_t left = reads_ & ~words[kEffective]; left != 0; left &= left - 1) {
    const Operation& read = *under_way_[static_cast<size_t>(std::countr_zero(left))];
    if (std::ranges::find(read.accesses, accesses.front()) != read.accesses.end()) return true;
  }
  return false;
}

bool JustInTimeSearch::Sees(const std::vector<Access>& accesses, const Words& words) const {
  return std::ranges::all_of(
      accesses, [&](const Access& access) { return words[WordOf(access)] == access.value; });
}

void JustInTimeSearch::Apply(const Operation& write, Words* words) const {
  for (const Access& access : write.accesses) (*words)[WordOf(access)] = access.value;
}

void JustInTimeSearch::LetReadsPass(Words* words) const {
  for (uint64_t left = reads_ & ~(*words)[kEffective]; left != 0; left &= left - 1) {
    const Operation& read = *under_way_[static_cast<size_t>(std::countr_zero(left))];
    if (!Sees(read.accesses, *words)) continue;
    (*words)[kEffective] |= left & -left;
  }
}

}  // namespace dlsm
