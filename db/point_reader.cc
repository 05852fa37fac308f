#include "db/point_reader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "db/cached_records.h"
#include "util/status_macros.h"

namespace dlsm {

bool PointReader::GetFromMemtables(const ReadView& view, const LookupKey& key,
                                   LookupResult* result) const {
  view.active->Get(key, sequencer_, result);
  for (const std::shared_ptr<Memtable>& memtable : view.immutables) {
    if (result->state != LookupState::kAbsent) break;
    memtable->Get(key, sequencer_, result);
  }
  if (result->state == LookupState::kAbsent) return false;
  statistics_->Add(Ticker::kMemtableHits);
  return true;
}

Status PointReader::Get(const ReadView& view, const LookupKey& key, const TableReadOptions& options,
                        LookupResult* result, bool* fetched) const {
  *fetched = false;
  if (GetFromMemtables(view, key, result)) return Status::OK();
  Status status;
  uint64_t excluded = 0;
  uint64_t probes = 0;
  excluded += view.version->ForEachCandidate(key, [&](const Table& table, bool filtered) {
    TableProbe probe;
    if (!table.reader().Find(key, filtered, &probe)) {
      ++excluded;
      return true;
    }
    ++probes;
    status = Read(table, key, probe, options, result, fetched);
    return status.ok() && result->state == LookupState::kAbsent;
  });
  if (excluded > 0) statistics_->Add(Ticker::kFilterUseful, excluded);
  if (probes > 0) {
    statistics_->Add(Ticker::kTableProbes, probes);
    const uint64_t useless = probes - (result->state == LookupState::kAbsent ? 0 : 1);
    if (useless > 0) statistics_->Add(Ticker::kTableProbesUseless, useless);
  }
  return status;
}

Status PointReader::Read(const Table& table, const LookupKey& key, const TableProbe& probe,
                         const TableReadOptions& options, LookupResult* result,
                         bool* fetched) const {
  if (AnswerFromCache(table, key, probe, options, result)) {
    *fetched = true;
    return Status::OK();
  }
  CountBlock(table, probe);
  Slice bytes;
  if (probe.cached == nullptr) DLSM_RETURN_IF_ERROR(Fetch(probe.span, options, &bytes, fetched));
  DLSM_RETURN_IF_ERROR(table.reader().Decode(key, probe, bytes, options, result));
  KeepInCache(table, probe, bytes, options);
  return Status::OK();
}

// A reader who asks for verification gets it for what comes from the cache as well; what fails
// there is fetched.
bool PointReader::AnswerFromCache(const Table& table, const LookupKey& key, const TableProbe& probe,
                                  const TableReadOptions& options, LookupResult* result) const {
  const CachedRecords* const records = table.cached_records();
  // No bytes: there is nothing to fetch, Decode() says why.
  if (records == nullptr || probe.span.bytes == 0) return false;
  Slice bytes;
  const bool answered = records->Lookup(probe.span, &bytes) &&
                        table.reader().Decode(key, probe, bytes, options, result).ok();
  statistics_->Add(answered ? Ticker::kValueCacheHits : Ticker::kValueCacheMisses);
  return answered;
}

void PointReader::CountBlock(const Table& table, const TableProbe& probe) const {
  if (table.meta().format != TableFormat::kBlockBased || probe.span.bytes == 0) return;
  const bool cached = probe.cached != nullptr;
  statistics_->Add(cached ? Ticker::kBlockCacheHits : Ticker::kBlockCacheMisses);
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

Status PointReader::Fetch(const RemoteSpan& span, const TableReadOptions& options, Slice* bytes,
                          bool* fetched) const {
  QueuePair* queue_pair;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(span.node, &queue_pair));
  if (const char* direct = queue_pair->Direct(span); direct != nullptr) {
    queue_pair->CountDirectRead(span.bytes, options.purpose);
    *bytes = Slice(direct, span.bytes);
    *fetched = false;
    return Status::OK();
  }
  LocalSpan scratch;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ScratchForThisThread(span.node, span.bytes, &scratch));
  Ticket ticket;
  DLSM_RETURN_IF_ERROR(queue_pair->PostRead(span, scratch, options.purpose, &ticket));
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(ticket, Deadline::In(options.timeout)));
  *bytes = Slice(scratch.data, span.bytes);
  *fetched = true;
  return Status::OK();
}

// -------- MultiGet

// One request that no memtable answered, and how far it has got in the version.
struct PointReader::Pending {
  Request* request;
  struct Candidate {
    const Table* table;
    bool filtered;  // Its filter has been asked.
  };

  std::vector<Candidate> candidates;  // That may hold the key, newest first.
  size_t next = 0;
  const Table* probed = nullptr;  // This round's table; null: the request is finished.
  TableProbe probe;
  Slice bytes;
  size_t way = 0;
  size_t scratch_offset = 0;

  // Moves on to the next table that its filter does not exclude.
  bool Advance() {
    for (probed = nullptr; next < candidates.size();) {
      const Candidate& candidate = candidates[next++];
      probe = TableProbe();
      if (candidate.table->reader().Find(request->key, candidate.filtered, &probe)) {
        probed = candidate.table;
        return true;
      }
    }
    return false;
  }

  // Whether the request is answered.
  bool Take(const LookupResult& result) {
    request->state = result.state;
    if (result.state == LookupState::kFound) {
      request->value->assign(result.value.data(), result.value.size());
    }
    return result.state != LookupState::kAbsent;
  }
};

// This thread's way to one memory node, for one round.
struct PointReader::Way {
  Way(ThreadQueuePairs* pairs, NodeId node) : queue_pairs(pairs) {
    status =
        pairs == nullptr ? NodeQueuePairs::Unknown(node) : pairs->ForThisThread(node, &queue_pair);
  }

  void Post(const RemoteSpan& from, const LocalSpan& to, Purpose purpose) {
    if (!status.ok()) return;
    status = queue_pair->PostRead(from, to, purpose, &last);
    posted |= status.ok();
  }
  // The buffer is the fabric's until the reads that were posted have ended, whatever came after.
  void Wait(std::chrono::nanoseconds timeout) {
    if (!posted) return;
    KeepFirstError(queue_pair->Wait(last, Deadline::In(timeout)), &status);
  }

  ThreadQueuePairs* queue_pairs;
  QueuePair* queue_pair = nullptr;
  Status status;
  size_t scratch_bytes = 0;
  LocalSpan scratch;
  Ticket last{};
  bool posted = false;
};

void PointReader::MultiGet(const std::vector<std::unique_ptr<Request>>& requests,
                           const TableReadOptions& options) {
  std::vector<Pending> pending;
  for (const std::unique_ptr<Request>& request : requests) {
    LookupResult result;
    if (request->reader->GetFromMemtables(*request->view, request->key, &result)) {
      request->state = result.state;
      request->value->assign(result.value.data(), result.value.size());
      continue;
    }
    Pending& added = pending.emplace_back();
    added.request = request.get();
    request->view->version->ForEachCandidate(request->key,
                                             [&added](const Table& table, bool filtered) {
                                               added.candidates.push_back({&table, filtered});
                                               return true;
                                             });
    if (!AdvanceToFetch(options, &added)) pending.pop_back();
  }
  while (!pending.empty()) {
    FetchRound(options, &pending);
    DecodeRound(options, &pending);
  }
}

// Moves on to the next table whose record the cache does not have; false: the request is finished.
bool PointReader::AdvanceToFetch(const TableReadOptions& options, Pending* pending) {
  const PointReader& reader = *pending->request->reader;
  while (pending->Advance()) {
    LookupResult result;
    if (!reader.AnswerFromCache(*pending->probed, pending->request->key, pending->probe, options,
                                &result)) {
      reader.CountBlock(*pending->probed, pending->probe);
      return true;
    }
    reader.statistics_->Add(Ticker::kTableProbes);
    if (pending->Take(result)) return false;
    reader.statistics_->Add(Ticker::kTableProbesUseless);
  }
  return false;
}

// Fetches what every pending request needs next, with one doorbell for each memory node. What
// cannot be fetched has its request's status set.
void PointReader::FetchRound(const TableReadOptions& options, std::vector<Pending>* pending) {
  std::vector<Way> ways;
  for (Pending& waiting : *pending) {
    const NodeId node = waiting.probed->meta().image.node;
    ThreadQueuePairs* const queue_pairs = waiting.request->reader->queue_pairs_->Of(node);
    const auto found = std::find_if(ways.begin(), ways.end(), [queue_pairs](const Way& way) {
      return way.queue_pairs == queue_pairs;
    });
    waiting.way = static_cast<size_t>(found - ways.begin());
    if (found == ways.end()) ways.emplace_back(queue_pairs, node);
    Way& way = ways[waiting.way];
    if (waiting.probe.cached != nullptr || !way.status.ok()) continue;
    if (const char* direct = way.queue_pair->Direct(waiting.probe.span); direct != nullptr) {
      way.queue_pair->CountDirectRead(waiting.probe.span.bytes, options.purpose);
      waiting.bytes = Slice(direct, waiting.probe.span.bytes);
    } else {
      waiting.scratch_offset = way.scratch_bytes;
      way.scratch_bytes += waiting.probe.span.bytes;
    }
  }
  for (Way& way : ways) {
    if (way.scratch_bytes == 0) continue;
    way.status = way.queue_pairs->ScratchForThisThread(way.scratch_bytes, &way.scratch);
  }
  for (Pending& waiting : *pending) {
    Way& way = ways[waiting.way];
    if (waiting.probe.cached != nullptr || !waiting.bytes.empty() || !way.status.ok()) continue;
    const LocalSpan to = way.scratch.Sub(waiting.scratch_offset, waiting.probe.span.bytes);
    way.Post(waiting.probe.span, to, options.purpose);
    waiting.bytes = Slice(to.data, to.bytes);
  }
  for (Way& way : ways) way.Wait(options.timeout);
  for (Pending& waiting : *pending) {
    if (waiting.probe.cached == nullptr) waiting.request->status = ways[waiting.way].status;
  }
}

// Finishes the requests that were answered and moves the others on.
void PointReader::DecodeRound(const TableReadOptions& options, std::vector<Pending>* pending) {
  std::vector<Pending> unanswered;
  Statistics* const statistics = pending->front().request->reader->statistics_;
  statistics->Add(Ticker::kTableProbes, pending->size());
  for (Pending& waiting : *pending) {
    Request& request = *waiting.request;
    if (!request.status.ok()) continue;
    LookupResult result;
    request.status = waiting.probed->reader().Decode(request.key, waiting.probe, waiting.bytes,
                                                     options, &result);
    if (!request.status.ok()) continue;
    request.reader->KeepInCache(*waiting.probed, waiting.probe, waiting.bytes, options);
    if (waiting.Take(result)) continue;
    statistics->Add(Ticker::kTableProbesUseless);
    waiting.bytes.clear();
    if (AdvanceToFetch(options, &waiting)) unanswered.push_back(std::move(waiting));
  }
  *pending = std::move(unanswered);
}

}  // namespace dlsm
