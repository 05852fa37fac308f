// Counters of a database: always on, monotonic, cheap enough not to matter. ToString() and the
// property dlsm.stats name them after their enumerators: kMergesWhileIdle is
// dlsm.merges.while.idle. Those of micros are microseconds, summed over what ran side by side.
//
// At StatsLevel::kLatencies also how long public calls take: histograms, which ToString() and
// dlsm.stats show as dlsm.get.nanos. metrics.h exports both to Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace dlsm {

enum class Ticker : uint32_t {
  kKeysWritten = 0,       // Entries of batches; a Put or Delete is one.
  kBytesWritten,          // Keys and values.
  kKeysRead,              // Get, and each key of a MultiGet or a pipeline.
  kKeysFound,             // Of these, the ones that were there.
  kBytesRead,             // Values returned by point reads.
  kMemtableHits,          // Point reads answered by a memtable.
  kMemtableFilterUseful,  // Memtables that point reads passed over because of their filters.
  kFilterUseful,          // Tables that the resident part excluded.
  kTableProbes,           // Records or blocks that point reads fetched, or found in a cache.
  kTableProbesUseless,    // Of these, the ones that did not hold the key.
  kBlockCacheHits,        // Of blocks that point reads asked for; iterators' are not counted.
  kBlockCacheMisses,
  kValueCacheHits,    // Records of point reads that were there, see Options::value_cache_size.
  kValueCacheMisses,  // That were fetched.
  kValueCacheInserts,
  kValueCacheEvictions,  // Without those of tables that are gone.
  kIteratorsCreated,
  kSeeks,          // Of iterators, counted when they are deleted.
  kIteratorSteps,  // Next and Prev; likewise.
  kFlushes,        // Of a memtable each.
  kFlushBytes,     // Images written by flushes.
  kFlushMicros,    // From the begin of a flush until readers see its tables.
  kMergesRemote,   // Done by memory nodes.
  kMergesLocal,    // Done by the compute node.
  // Parts of merges, by why they ran where they did; see CompactionPlace::kAutomatic.
  kPlacedFixed,           // The options say where.
  kPlacedNearData,        // On the memory node, which is not clearly the slower one.
  kPlacedUnknown,         // There, since its load or a rate is not known.
  kPlacedMemoryNodeBusy,  // Here, where they are done much earlier.
  kPlacedRefused,         // Here, since the memory node does not take them, or so long a request.
  kPlacedOwnCode,         // Here, for they need the application's comparator or filter policy.
  kTrivialMoves,          // Tables that went a level down untouched.
  kMergeBytesRead,
  kMergeBytesWritten,
  kMergeMicros,          // From the begin of a merge until readers see its tables.
  kLocalMergeBytesRead,  // Of these three, the ones of merges on the compute node.
  kLocalMergeBytesWritten,
  kLocalMergeMicros,
  kMergeCalls,            // To memory nodes.
  kMergeAllocations,      // Of memory nodes, for the outputs.
  kMergeTables,           // Made by merges.
  kMergeHidden,           // Entries that merges have dropped because DeleteRange() had hidden them.
  kMergeFiltered,         // Entries that the compaction filter has removed or changed.
  kMergesInPlace,         // Of a guard, back into it.
  kMergesForReads,        // Of these, the ones that reads have asked for.
  kMergesDownForReads,    // Into the next level, because reads have asked for it.
  kMergesWhileIdle,       // Of all, those that nobody had asked for, while nobody wrote.
  kMergesBySteps,         // Of all, steps of a merge that was too large for the room that was left.
  kStallMicrosMemtables,  // Writers waited for a flush.
  kStallMicrosLevel0,     // Writers waited for merges out of level 0.
  kStallMicrosComponents,  // Writers waited for merges in any level.
  kStallMicrosMemory,      // Writers waited for room on a memory node.
  kStallMicrosSlowed,      // Writers were slowed down by Options::slow_down_writes.
  kStallMicrosLog,         // Writers waited for room in the log.
  kStalls,                 // Of all these.
  kWritesNotWaiting,       // Refused for WriteOptions::no_slowdown.
  kSyncedWrites,           // By WriteOptions::sync: batches, puts and deletes.
  kGrants,                 // Calls by which memory nodes have given memory.
  kFreedBytes,             // Given back to memory nodes.
  kPublications,           // Versions published for followers.
  kPublicationBytes,       // Of their images.
  kCatchUps,               // Of a follower: publications that it has gone on to.
  kTablesElsewhere,  // Not where Options::placement wanted them first: full, or it did not answer.
  kMetadataEvictions,  // Tables whose index and filter had to go; see Options::memory_budget.
  kMetadataLoads,      // Tables whose index and filter a read had to fetch.
  kLogWrites,          // Puts, deletes and batches that went into the log.
  kLogBytes,           // Of frames that were made durable.
  kLogChains,          // Of writes by which they went to the log node; none where it is mapped.
  kLogPersists,        // Calls by which the log got into files.
  kLogPersistedBytes,  // Of the log, that got there.
  kLogPersistMicros,   // That these calls took.
  kIngests,            // Of DB::IngestSorted(), in each shard.
  kIngestBytes,        // Images of their tables.
  kRetries,            // Flushes and merges that were tried again after a fault.
  kTickerCount,
};

const char* TickerName(Ticker ticker);

// What a Statistics measures.
enum class StatsLevel : uint32_t {
  kCounters = 0,  // The tickers alone: the default. A public call pays a few instructions.
  kLatencies,     // Also the latencies: each public call looks at the clock twice.
};

// Public calls of DB, which have a histogram of their latencies each. Calls that fail count, too.
enum class HistogramType : uint32_t {
  kGet = 0,
  kMultiGet,  // All keys of a call together.
  kPut,       // Put, Delete and Write include the waits of a stall.
  kDelete,
  kWrite,
  kSeek,   // Seeks of iterators. A step takes less time than a look at the clock.
  kFlush,  // Of callers. Flushes in the background are Ticker::kFlushMicros.
  kCompactRange,
  kFlushLog,
  kWaitDurable,
  kHistogramCount
};

// "dlsm.get.nanos": times are nanoseconds.
const char* HistogramName(HistogramType type);

// Latencies so far. Percentiles and max are within an eighth; count and sum are exact.
struct HistogramData {
  static constexpr size_t kPowers = 41;

  uint64_t count = 0;
  uint64_t sum = 0;
  double average = 0;
  double median = 0;
  double percentile95 = 0;
  double percentile99 = 0;
  double percentile999 = 0;
  double max = 0;
  // at_most[i] calls took at most 2^i nanoseconds: exact.
  std::array<uint64_t, kPowers> at_most{};
};

// Thread-safe. Each thread adds to counts of its own, which nobody else writes: no locked
// instruction, which would have the processor wait for all that it has under way.
class Statistics {
 public:
  // The counts of one thread, for that thread alone: who adds to several counters gets it once,
  // where Add() below looks for the thread's counts at each call. Good for as long as the
  // Statistics.
  class Mine;

  Statistics();
  ~Statistics();  // NOLINT(performance-trivially-destructible): of a shared library.

  Mine OfThisThread();
  void Add(Ticker ticker, uint64_t count = 1);
  uint64_t Get(Ticker ticker) const;
  // All count from zero again, latencies too. What other threads add meanwhile may count or not.
  void Reset();
  // One line for each counter and each histogram that is not zero.
  std::string ToString() const;

  // The level may change at any time. Calls under way may count or not. If there is no memory for
  // latencies, the level stays as it is.
  void SetLevel(StatsLevel level);
  StatsLevel level() const { return level_.load(std::memory_order_relaxed); }
  // Adds one call. Below kLatencies, and if this thread has no memory for it, nothing is added.
  void AddLatency(HistogramType type, uint64_t nanos) noexcept;
  HistogramData Get(HistogramType type) const;

 private:
  using Counts = std::array<std::atomic<uint64_t>, static_cast<size_t>(Ticker::kTickerCount)>;
  struct Threads;
  uint64_t Sum(size_t ticker) const;

  const std::unique_ptr<Threads> threads_;
  std::atomic<StatsLevel> level_{StatsLevel::kCounters};
  Counts at_reset_{};  // The sums then.
};

class Statistics::Mine {
 public:
  void Add(Ticker ticker, uint64_t count = 1) const {
    std::atomic<uint64_t>& mine = (*counts_)[static_cast<size_t>(ticker)];
    mine.store(mine.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }

 private:
  friend class Statistics;
  explicit Mine(Counts* counts) : counts_(counts) {}

  Counts* counts_;
};

inline void Statistics::Add(Ticker ticker, uint64_t count) { OfThisThread().Add(ticker, count); }

std::shared_ptr<Statistics> CreateStatistics();

}  // namespace dlsm
