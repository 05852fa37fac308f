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

bool SharesFetched(const Table& table, uint64_t bytes) {
  constexpr uint64_t kSharedBytesMin = 8192;
  return bytes >= kSharedBytesMin && table.meta().format == TableFormat::kByteAddressable;
}

bool PointReader::GetFromMemtables(const ReadView& view, const LookupKey& key,
                                   const Statistics::Mine& counts, LookupResult* result) const {
  uint64_t passed_over = view.active->Get(key, sequencer_, result) ? 0 : 1;
  for (const std::shared_ptr<Memtable>& memtable : view.immutables) {
    if (result->state != LookupState::kAbsent) break;
    passed_over += memtable->Get(key, sequencer_, result) ? 0 : 1;
  }
  if (passed_over > 0) counts.Add(Ticker::kMemtableFilterUseful, passed_over);
  if (result->state == LookupState::kAbsent) return false;
  counts.Add(Ticker::kMemtableHits);
  return true;
}

Status PointReader::Get(const ReadView& view, const LookupKey& key, const TableReadOptions& options,
                        LookupResult* result, bool* fetched) const {
  *fetched = false;
  const Statistics::Mine counts = statistics_->OfThisThread();
  if (GetFromMemtables(view, key, counts, result)) return Status::OK();
  Status status;
  uint64_t excluded = 0;
  uint64_t probes = 0;
  Habit& habit = habits_.Local();
  const auto visit = [&](const Table& table, bool filtered, TableProbe* probe) {
    // A filter of the user's own is asked only by Find(), and denies most.
    if (filtered) {
      table.reader().ApproachFurther(key, probe);
      PrefetchPage(probe->span, options);
    }
    if (!table.reader().Find(key, filtered, probe)) {
      ++excluded;
      return true;
    }
    ++probes;
    status = Read(table, key, *probe, options, result, fetched);
    return status.ok() && result->state == LookupState::kAbsent;
  };
  excluded += view.version->ForEachCandidate(key, visit, habit.finds());
  habit.Note(result->state != LookupState::kAbsent);
  if (excluded > 0) counts.Add(Ticker::kFilterUseful, excluded);
  if (probes > 0) {
    counts.Add(Ticker::kTableProbes, probes);
    const uint64_t useless = probes - (result->state == LookupState::kAbsent ? 0 : 1);
    if (useless > 0) counts.Add(Ticker::kTableProbesUseless, useless);
  }
  return status;
}

Status PointReader::Read(const Table& table, const LookupKey& key, const TableProbe& probe,
                         const TableReadOptions& options, LookupResult* result,
                         bool* fetched) const {
  // A table that was asked before, and did not have the key, may have left what it looked at.
  result->holder.reset();
  if (AnswerFromCache(table, key, probe, options, result)) {
    *fetched = true;
    return Status::OK();
  }
  Slice bytes;
  if (probe.cached == nullptr) {
    const bool shares = result->pins && SharesFetched(table, probe.span.bytes);
    DLSM_RETURN_IF_ERROR(
        Fetch(probe.span, options, shares ? &result->holder : nullptr, &bytes, fetched));
  }
  DLSM_RETURN_IF_ERROR(table.reader().Decode(key, probe, bytes, options, result));
  KeepInCache(table, probe, bytes, options);
  return Status::OK();
}

// A reader who asks for verification gets it for what comes from the cache as well; what fails
// there is fetched. Of a block-based table Find() has asked the block cache.
bool PointReader::AnswerFromCache(const Table& table, const LookupKey& key, const TableProbe& probe,
                                  const TableReadOptions& options, LookupResult* result) const {
  if (probe.span.bytes == 0) return false;  // There is nothing to fetch, Decode() says why.
  const CachedRecords* const records = table.cached_records();
  if (records == nullptr) {
    if (table.meta().format == TableFormat::kBlockBased) {
      const bool cached = probe.cached != nullptr;
      statistics_->Add(cached ? Ticker::kBlockCacheHits : Ticker::kBlockCacheMisses);
    }
    return false;
  }
  Slice bytes;
  const bool answered = records->Lookup(probe.span, &bytes) &&
                        table.reader().Decode(key, probe, bytes, options, result).ok();
  statistics_->Add(answered ? Ticker::kValueCacheHits : Ticker::kValueCacheMisses);
  return answered;
}

void PointReader::KeepInCache(const Table& table, const TableProbe& probe, const Slice& fetched,
                              const TableReadOptions& options) const {
  const CachedRecords* const records = table.cached_records();
  if (records == nullptr || probe.span.bytes == 0 || !options.fill_cache) return;
  const ValueCache::Change change =
      records->Insert(probe.span, fetched, /*verified=*/options.verify_checksums);
  if (change.inserted) statistics_->Add(Ticker::kValueCacheInserts);
  if (change.evicted > 0) statistics_->Add(Ticker::kValueCacheEvictions, change.evicted);
}

Status PointReader::Fetch(const RemoteSpan& span, const TableReadOptions& options,
                          std::shared_ptr<const void>* holder, Slice* bytes, bool* fetched) const {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(span.node, &queue_pair));
  const char* const direct = MayReadInPlace(options) ? queue_pair->Direct(span) : nullptr;
  if (direct != nullptr) {
    queue_pair->CountDirectRead(span.bytes, options.purpose);
    *bytes = Slice(direct, span.bytes);
    PrefetchRecord(*bytes);
    *fetched = false;
    return Status::OK();
  }
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
  }
  Ticket ticket;
  DLSM_RETURN_IF_ERROR(queue_pair->PostRead(span, to, options.purpose, &ticket));
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(ticket, Deadline::In(options.timeout)));
  queue_pair->held().Complete(ticket);
  *bytes = Slice(to.data, span.bytes);
  *fetched = true;
  return Status::OK();
}

bool PointReader::PrefetchPage(const RemoteSpan& near, const TableReadOptions& options) const {
  if (near.bytes == 0) return true;
  const char* const direct = MayReadInPlace(options) ? queue_pairs_->Direct(near) : nullptr;
  if (direct == nullptr) return false;
  port::PrefetchRead(direct);
  return true;
}

void PrefetchRecord(const Slice& bytes) { port::PrefetchBytes(bytes.data(), bytes.size()); }

}  // namespace dlsm
