#include "db/read/point_reader.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "db/tree/cached_records.h"
#include "port/allocation_point.h"
#include "port/prefetch.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

[[gnu::noinline]] TableReadOptions WithLimits(TableReadOptions read_options,
                                              const ReadOptions& options) {
  read_options.limited = true;
  read_options.local = options.read_tier != kReadAllTier;
  if (options.deadline != kNoDeadline) read_options.deadline = options.deadline;
  return read_options;
}

// Both at once: most reads have neither.
bool HasLimits(const ReadOptions& options) {
  static_assert(kReadAllTier == 0 && kNoDeadline.time_since_epoch().count() == 0);
  return (options.deadline.time_since_epoch().count() | options.read_tier) != 0;
}

}  // namespace

TableReadOptions TableReadOptionsFor(const Options& database_options, const ReadOptions& options) {
  TableReadOptions read_options;
  read_options.verify_checksums = options.verify_checksums || database_options.paranoid_checks;
  read_options.fill_cache = options.fill_cache;
  read_options.timeout = std::chrono::milliseconds(database_options.operation_timeout_ms);
  if (HasLimits(options)) [[unlikely]]
    return WithLimits(read_options, options);
  return read_options;
}

Slice RecordInPlace(QueuePair* queue_pair, const RemoteSpan& span,
                    const TableReadOptions& options) {
  const char* const direct = MayReadInPlace(options) ? queue_pair->Direct(span) : nullptr;
  if (direct == nullptr) return Slice();
  queue_pair->CountDirectRead(span.bytes, options.purpose);
  port::PrefetchBytes(direct, span.bytes);
  return Slice(direct, span.bytes);
}

bool SharesFetched(const Table& table, uint64_t bytes) {
  constexpr uint64_t kSharedBytesMin = 8192;
  return bytes >= kSharedBytesMin && table.meta().format == TableFormat::kByteAddressable;
}

void Pin(LookupResult* result, std::shared_ptr<const void> keeper, PinnableSlice* value) {
  if (result->holder != nullptr) {
    value->PinSlice(result->value, std::move(result->holder));
  } else if (keeper != nullptr) {
    value->PinSlice(result->value, std::move(keeper));
  } else {
    value->PinSelf(result->value);
  }
}

// Apart from AskMemtablesHere(): few versions have tombstones.
[[gnu::noinline]] void PointReader::AskTombstones(const Version& version, const LookupKey& key,
                                                  LookupResult* result) {
  result->hidden_below = std::max(result->hidden_below,
                                  version.tombstones()->NewestAt(key.user_key(), key.sequence()));
}

[[gnu::always_inline]] inline bool PointReader::AskMemtablesHere(const ReadView& view,
                                                                 const LookupKey& key,
                                                                 const Statistics::Mine& counts,
                                                                 LookupResult* result) const {
  uint64_t passed_over = view.active->Get(key, sequencer_, result) ? 0 : 1;
  for (const std::shared_ptr<Memtable>& memtable : view.immutables) {
    if (result->state != LookupState::kAbsent) break;
    passed_over += memtable->Get(key, sequencer_, result) ? 0 : 1;
  }
  if (passed_over > 0) counts.Add(Ticker::kMemtableFilterUseful, passed_over);
  if (result->state == LookupState::kAbsent) {
    if (view.version->tombstones() != nullptr) [[unlikely]]
      AskTombstones(*view.version, key, result);
    return false;
  }
  counts.Add(Ticker::kMemtableHits);
  return true;
}

Status PointReader::Get(const ReadView& view, const Slice& user_key, SequenceNumber sequence,
                        const TableReadOptions& options, LookupResult* result) const {
  const LookupKey key(user_key, sequence);
  const Statistics::Mine counts = statistics_->OfThisThread();
  counts.Add(Ticker::kKeysRead);
  if (options.limited) [[unlikely]] {
    DLSM_RETURN_IF_ERROR(GetWithinLimits(view, key, options, counts, result));
  } else if (!AskMemtablesHere(view, key, counts, result)) {
    DLSM_RETURN_IF_ERROR(AskTables(view, key, options, counts, result));
  }
  if (result->state != LookupState::kFound) return Status::NotFound(Slice());
  counts.Add(Ticker::kKeysFound);
  counts.Add(Ticker::kBytesRead, result->value.size());
  return Status::OK();
}

bool PointReader::AskMemtables(const ReadView& view, const LookupKey& key,
                               const Statistics::Mine& counts, LookupResult* result) const {
  return AskMemtablesHere(view, key, counts, result);
}

[[gnu::always_inline]] inline PointReader::TableAnswer PointReader::AskTableHere(
    const Table& table, bool filtered, const LookupKey& key, const TableReadOptions& options,
    const Statistics::Mine& counts, TableProbe* probe, LookupResult* result) const {
  // All that it may have of the key is hidden. A table behind it may have been merged from newer
  // ones.
  if (table.meta().sequence_max < result->hidden_below) [[unlikely]]
    return TableAnswer::kAbsent;
  if (!table.reader().Find(key, filtered, probe)) {
    counts.Add(Ticker::kFilterUseful);
    return TableAnswer::kAbsent;
  }
  // A table that was asked before, and did not have the key, may have left what it looked at.
  result->holder.reset();
  if (!AskCache(table, key, *probe, options, counts, result)) return TableAnswer::kFetch;
  counts.Add(Ticker::kTableProbes);
  if (result->state != LookupState::kAbsent) return TableAnswer::kEnded;
  counts.Add(Ticker::kTableProbesUseless);
  return TableAnswer::kAbsent;
}

Status PointReader::AskTables(const ReadView& view, const LookupKey& key,
                              const TableReadOptions& options, const Statistics::Mine& counts,
                              LookupResult* result) const {
  Status status;
  Habit& habit = habits_.Local();
  const auto visit = [&](const Table& table, bool filtered, TableProbe* probe) {
    // A filter of the user's own is asked only by Find(), and denies most.
    if (filtered) {
      table.reader().ApproachFurther(key, probe);
      PrefetchPage(probe->span, options);
    }
    const TableAnswer answer = AskTableHere(table, filtered, key, options, counts, probe, result);
    if (answer != TableAnswer::kFetch) return answer == TableAnswer::kAbsent;
    status = FetchRecord(table, key, *probe, options, counts, result);
    return status.ok() && result->state == LookupState::kAbsent;
  };
  const uint64_t excluded = view.version->ForEachCandidate(key, visit, habit.finds());
  habit.Note(result->state != LookupState::kAbsent);
  if (excluded > 0) counts.Add(Ticker::kFilterUseful, excluded);
  return status;
}

PointReader::TableAnswer PointReader::AskTable(const Table& table, bool filtered,
                                               const LookupKey& key,
                                               const TableReadOptions& options,
                                               const Statistics::Mine& counts, TableProbe* probe,
                                               LookupResult* result) const {
  return AskTableHere(table, filtered, key, options, counts, probe, result);
}

Status PointReader::AskRecord(const Table& table, const LookupKey& key, const TableProbe& probe,
                              const Slice& bytes, const TableReadOptions& options,
                              const Statistics::Mine& counts, LookupResult* result) const {
  counts.Add(Ticker::kTableProbes);
  DLSM_RETURN_IF_ERROR(table.reader().Decode(key, probe, bytes, options, result));
  KeepInCache(table, probe, bytes, options, counts);
  if (result->state == LookupState::kAbsent) counts.Add(Ticker::kTableProbesUseless);
  return Status::OK();
}

Status PointReader::FetchRecord(const Table& table, const LookupKey& key, const TableProbe& probe,
                                const TableReadOptions& options, const Statistics::Mine& counts,
                                LookupResult* result) const {
  Slice bytes;
  result->in_scratch = false;
  if (probe.cached == nullptr) {
    const bool shares = result->pins && SharesFetched(table, probe.span.bytes);
    DLSM_RETURN_IF_ERROR(Fetch(probe.span, options, shares ? &result->holder : nullptr, &bytes,
                               &result->in_scratch));
  }
  return AskRecord(table, key, probe, bytes, options, counts, result);
}

// A reader that asks for verification gets it for what comes from the cache as well; what fails
// there is fetched. Of a block-based table Find() has asked the block cache.
bool PointReader::AskCache(const Table& table, const LookupKey& key, const TableProbe& probe,
                           const TableReadOptions& options, const Statistics::Mine& counts,
                           LookupResult* result) {
  if (probe.span.bytes == 0) return false;  // There is nothing to fetch, Decode() says why.
  const CachedRecords* const records = table.cached_records();
  if (records == nullptr) {
    if (table.meta().format == TableFormat::kBlockBased) {
      const bool cached = probe.cached != nullptr;
      counts.Add(cached ? Ticker::kBlockCacheHits : Ticker::kBlockCacheMisses);
    }
    return false;
  }
  Slice bytes;
  const bool answered = records->Lookup(probe.span, &bytes) &&
                        table.reader().Decode(key, probe, bytes, options, result).ok();
  counts.Add(answered ? Ticker::kValueCacheHits : Ticker::kValueCacheMisses);
  result->in_scratch = answered;
  return answered;
}

void PointReader::KeepInCache(const Table& table, const TableProbe& probe, const Slice& fetched,
                              const TableReadOptions& options, const Statistics::Mine& counts) {
  const CachedRecords* const records = table.cached_records();
  if (records == nullptr || probe.span.bytes == 0 || !options.fill_cache) return;
  const ValueCache::Change change =
      records->Insert(probe.span, fetched, /*verified=*/options.verify_checksums);
  if (change.inserted) counts.Add(Ticker::kValueCacheInserts);
  if (change.evicted > 0) counts.Add(Ticker::kValueCacheEvictions, change.evicted);
}

Status PointReader::Fetch(const RemoteSpan& span, const TableReadOptions& options,
                          std::shared_ptr<const void>* holder, Slice* bytes,
                          bool* in_scratch) const {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(options.limited
                           ? queue_pairs_->ForLimitedRead(span.node, options, &queue_pair)
                           : queue_pairs_->ForThisThread(span.node, &queue_pair));
  *bytes = RecordInPlace(queue_pair, span, options);
  if (!bytes->empty()) return Status::OK();
  if (options.limited) DLSM_RETURN_IF_ERROR(options.CheckTransfer());
  LocalSpan to;
  if (holder != nullptr) {
    port::AllocationPoint();
    port::AllocationPoint("value");
    const auto buffer = std::make_shared<RegisteredBuffer>();
    DLSM_RETURN_IF_ERROR(queue_pairs_->NewBuffer(span.node, span.bytes, buffer.get()));
    to = buffer->span().Sub(0, span.bytes);
    *holder = buffer;
  } else {
    DLSM_RETURN_IF_ERROR(queue_pairs_->ScratchForThisThread(span.node, span.bytes, &to));
    *in_scratch = true;
  }
  Ticket ticket;
  DLSM_RETURN_IF_ERROR(queue_pair->PostRead(span, to, options.purpose, &ticket));
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(ticket, options.WaitEnds()));
  queue_pair->held().Complete(ticket);
  *bytes = Slice(to.data, span.bytes);
  return Status::OK();
}

bool PointReader::PrefetchPage(const RemoteSpan& near, const TableReadOptions& options) const {
  if (near.bytes == 0) return true;
  const char* const direct = MayReadInPlace(options) ? queue_pairs_->Direct(near) : nullptr;
  if (direct == nullptr) return false;
  port::PrefetchRead(direct);
  return true;
}

}  // namespace dlsm
