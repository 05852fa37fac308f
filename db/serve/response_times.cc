#include "db/serve/response_times.h"

#include <new>

#include "db/serve/command.h"
#include "db/serve/command_numbers.h"

namespace dlsm::serve {
ResponseTimes::ResponseTimes() : by_number_(kCommandNumbers) {}

ResponseTimes::~ResponseTimes() {
  for (auto& counts : by_number_) delete counts.load(std::memory_order_relaxed);
}

void ResponseTimes::Add(const Command& command, uint64_t nanos, uint64_t calls) {
  std::atomic<LatencyCounts*>& of_command = by_number_[command.number];
  LatencyCounts* counts = of_command.load(std::memory_order_relaxed);
  if (counts == nullptr) [[unlikely]] {
    counts = new (std::nothrow) LatencyCounts;
    if (counts == nullptr) return;
    // Pairs with the acquire in AddTo(): publishes the zeros.
    of_command.store(counts, std::memory_order_release);
  }
  counts->Add(nanos, calls);
}

void ResponseTimes::AddTo(size_t number, LatencySums* sums) const {
  const LatencyCounts* const counts = by_number_[number].load(std::memory_order_acquire);
  if (counts != nullptr) counts->AddTo(sums);
}

}  // namespace dlsm::serve
