#include "dLSM/statistics.h"

#include <fmt/core.h>

#include "util/thread_number.h"

namespace dlsm {
namespace {

constexpr std::array<const char*, static_cast<size_t>(Ticker::kTickerCount)> kNames = {
    "dlsm.keys.written",
    "dlsm.bytes.written",
    "dlsm.keys.read",
    "dlsm.keys.found",
    "dlsm.bytes.read",
    "dlsm.memtable.hits",
    "dlsm.memtable.filter.useful",
    "dlsm.filter.useful",
    "dlsm.table.probes",
    "dlsm.table.probes.useless",
    "dlsm.block.cache.hits",
    "dlsm.block.cache.misses",
    "dlsm.value.cache.hits",
    "dlsm.value.cache.misses",
    "dlsm.value.cache.inserts",
    "dlsm.value.cache.evictions",
    "dlsm.iterators.created",
    "dlsm.seeks",
    "dlsm.iterator.steps",
    "dlsm.flushes",
    "dlsm.flush.bytes",
    "dlsm.flush.micros",
    "dlsm.merges.remote",
    "dlsm.merges.local",
    "dlsm.placed.fixed",
    "dlsm.placed.near.data",
    "dlsm.placed.unknown",
    "dlsm.placed.memory.node.busy",
    "dlsm.placed.refused",
    "dlsm.placed.own.code",
    "dlsm.trivial.moves",
    "dlsm.merge.bytes.read",
    "dlsm.merge.bytes.written",
    "dlsm.merge.micros",
    "dlsm.merge.calls",
    "dlsm.merge.allocations",
    "dlsm.merge.tables",
    "dlsm.merge.hidden",
    "dlsm.merge.filtered",
    "dlsm.merges.in.place",
    "dlsm.merges.for.reads",
    "dlsm.merges.down.for.reads",
    "dlsm.merges.while.idle",
    "dlsm.merges.by.steps",
    "dlsm.stall.micros.memtables",
    "dlsm.stall.micros.level0",
    "dlsm.stall.micros.components",
    "dlsm.stall.micros.memory",
    "dlsm.stall.micros.slowed",
    "dlsm.stall.micros.log",
    "dlsm.stalls",
    "dlsm.writes.not.waiting",
    "dlsm.synced.writes",
    "dlsm.grants",
    "dlsm.freed.bytes",
    "dlsm.publications",
    "dlsm.publication.bytes",
    "dlsm.catch.ups",
    "dlsm.tables.elsewhere",
    "dlsm.metadata.evictions",
    "dlsm.metadata.loads",
    "dlsm.log.bytes",
    "dlsm.log.chains",
    "dlsm.log.persists",
    "dlsm.log.persisted.bytes",
    "dlsm.log.persist.micros",
    "dlsm.retries",
};
static_assert(kNames.back() != nullptr, "every ticker has a name");

}  // namespace

const char* TickerName(Ticker ticker) { return kNames[static_cast<size_t>(ticker)]; }

struct Statistics::Threads {
  PerThread<Counts> counts;
};

Statistics::Statistics() : threads_(std::make_unique<Threads>()) {}
Statistics::~Statistics() = default;

Statistics::Mine Statistics::OfThisThread() { return Mine(&threads_->counts.Local()); }

uint64_t Statistics::Sum(size_t ticker) const {
  uint64_t sum = 0;
  threads_->counts.ForEach([&sum, ticker](const Counts& counts) {
    sum += counts[ticker].load(std::memory_order_relaxed);
    return true;
  });
  return sum;
}

uint64_t Statistics::Get(Ticker ticker) const {
  const auto i = static_cast<size_t>(ticker);
  // In this order: sums only grow.
  const uint64_t at_reset = at_reset_[i].load(std::memory_order_acquire);
  const uint64_t sum = Sum(i);
  return sum > at_reset ? sum - at_reset : 0;
}

void Statistics::Reset() {
  for (size_t i = 0; i < at_reset_.size(); ++i) {
    at_reset_[i].store(Sum(i), std::memory_order_release);
  }
}

std::string Statistics::ToString() const {
  std::string text;
  for (size_t i = 0; i < at_reset_.size(); ++i) {
    const auto ticker = static_cast<Ticker>(i);
    const uint64_t count = Get(ticker);
    if (count != 0) text += fmt::format("{:<32}{}\n", TickerName(ticker), count);
  }
  return text;
}

std::shared_ptr<Statistics> CreateStatistics() { return std::make_shared<Statistics>(); }

}  // namespace dlsm
