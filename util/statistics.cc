#include "dLSM/statistics.h"

#include <fmt/core.h>

#include <new>

#include "util/latencies_by_thread.h"
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
    "dlsm.local.merge.bytes.read",
    "dlsm.local.merge.bytes.written",
    "dlsm.local.merge.micros",
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
    "dlsm.log.writes",
    "dlsm.log.bytes",
    "dlsm.log.chains",
    "dlsm.log.persists",
    "dlsm.log.persisted.bytes",
    "dlsm.log.persist.micros",
    "dlsm.ingests",
    "dlsm.ingest.bytes",
    "dlsm.retries",
};
static_assert(kNames.back() != nullptr, "every ticker has a name");

constexpr size_t kHistograms = LatenciesByThread::kTypes;
constexpr std::array<const char*, kHistograms> kHistogramNames = {
    "dlsm.get.nanos",          "dlsm.multi.get.nanos",     "dlsm.put.nanos",
    "dlsm.delete.nanos",       "dlsm.write.nanos",         "dlsm.seek.nanos",
    "dlsm.flush.nanos",        "dlsm.compact.range.nanos", "dlsm.flush.log.nanos",
    "dlsm.wait.durable.nanos",
};
static_assert(kHistogramNames.back() != nullptr, "every histogram has a name");

}  // namespace

const char* TickerName(Ticker ticker) { return kNames[static_cast<size_t>(ticker)]; }
const char* HistogramName(HistogramType type) { return kHistogramNames[static_cast<size_t>(type)]; }

struct Statistics::Threads {
  Threads() = default;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { delete latencies.load(std::memory_order_relaxed); }

  PerThread<Counts> counts;
  // Is null until latencies are asked for. A load of it acquires what SetLevel() releases.
  std::atomic<LatenciesByThread*> latencies{nullptr};
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
  LatenciesByThread* const latencies = threads_->latencies.load(std::memory_order_acquire);
  if (latencies == nullptr) return;
  latencies->Reset();
}

void Statistics::SetLevel(StatsLevel level) {
  if (level == StatsLevel::kLatencies &&
      threads_->latencies.load(std::memory_order_acquire) == nullptr) {
    auto* const fresh = new (std::nothrow) LatenciesByThread;
    if (fresh == nullptr) return;
    LatenciesByThread* expected = nullptr;
    if (!threads_->latencies.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) {
      delete fresh;
    }
  }
  level_.store(level, std::memory_order_relaxed);
}

void Statistics::AddLatency(HistogramType type, uint64_t nanos) noexcept try {
  if (level() != StatsLevel::kLatencies) return;
  LatenciesByThread* const latencies = threads_->latencies.load(std::memory_order_acquire);
  if (latencies == nullptr) return;  // Another thread has just set the level.
  latencies->Add(type, nanos);
} catch (const std::bad_alloc&) {
  // The call itself went well.
}

HistogramData Statistics::Get(HistogramType type) const {
  LatenciesByThread* const latencies = threads_->latencies.load(std::memory_order_acquire);
  return latencies == nullptr ? HistogramData() : latencies->Get(type);
}

std::string Statistics::ToString() const {
  std::string text;
  for (size_t i = 0; i < at_reset_.size(); ++i) {
    const auto ticker = static_cast<Ticker>(i);
    const uint64_t count = Get(ticker);
    if (count != 0) text += fmt::format("{:<32}{}\n", TickerName(ticker), count);
  }
  for (size_t i = 0; i < kHistograms; ++i) {
    const auto type = static_cast<HistogramType>(i);
    const HistogramData data = Get(type);
    if (data.count == 0) continue;
    text += fmt::format("{:<32}count {} mean {:.0f} P50 {:.0f} P95 {:.0f} P99 {:.0f} max {:.0f}\n",
                        HistogramName(type), data.count, data.average, data.median,
                        data.percentile95, data.percentile99, data.max);
  }
  return text;
}

std::shared_ptr<Statistics> CreateStatistics() { return std::make_shared<Statistics>(); }

}  // namespace dlsm
