#include "db/serve/command_latencies.h"

#include <new>
#include <unordered_map>

#include "db/serve/command.h"

namespace dlsm::serve {
namespace {

size_t NumberOf(const Command& command) {
  static const std::unordered_map<const Command*, size_t> numbers = [] {
    std::unordered_map<const Command*, size_t> map;
    for (const Command* each : AllCommands()) map.emplace(each, map.size());
    return map;
  }();
  return numbers.at(&command);
}

}  // namespace

CommandLatencies::CommandLatencies() : by_number_(AllCommands().size()) {}

CommandLatencies::~CommandLatencies() {
  for (auto& counts : by_number_) delete counts.load(std::memory_order_relaxed);
}

void CommandLatencies::Add(const Command& command, uint64_t nanos, uint64_t calls) {
  std::atomic<LatencyCounts*>& of_command = by_number_[NumberOf(command)];
  LatencyCounts* counts = of_command.load(std::memory_order_relaxed);
  if (counts == nullptr) [[unlikely]] {
    counts = new (std::nothrow) LatencyCounts;
    if (counts == nullptr) return;
    // Pairs with the acquire in AddTo(): publishes the zeros.
    of_command.store(counts, std::memory_order_release);
  }
  counts->Add(nanos, calls);
}

void CommandLatencies::AddTo(size_t number, LatencySums* sums) const {
  const LatencyCounts* const counts = by_number_[number].load(std::memory_order_acquire);
  if (counts != nullptr) counts->AddTo(sums);
}

}  // namespace dlsm::serve
