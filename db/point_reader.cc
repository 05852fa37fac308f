#include "db/point_reader.h"

#include <utility>

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
    Slice bytes;
    if (probe.cached == nullptr) status = Fetch(probe.span, options, &bytes, fetched);
    if (status.ok()) status = table.reader().Decode(key, probe, bytes, options, result);
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

Status PointReader::Fetch(const RemoteSpan& span, const TableReadOptions& options, Slice* bytes,
                          bool* fetched) const {
  QueuePair* queue_pair;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(span.node, &queue_pair));
  if (const char* direct = queue_pair->Direct(span); direct != nullptr) {
    queue_pair->CountDirectRead(span.bytes, options.purpose);
    *bytes = Slice(direct, span.bytes);
    return Status::OK();
  }
  LocalSpan scratch;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ScratchForThisThread(span.bytes, &scratch));
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
};

void PointReader::MultiGet(const ReadView& view,
                           const std::vector<std::unique_ptr<Request>>& requests,
                           const TableReadOptions& options) const {
  std::vector<Pending> pending;
  for (const std::unique_ptr<Request>& request : requests) {
    LookupResult result;
    if (GetFromMemtables(view, request->key, &result)) {
      request->state = result.state;
      request->value->assign(result.value.data(), result.value.size());
      continue;
    }
    Pending& added = pending.emplace_back();
    added.request = request.get();
    view.version->ForEachCandidate(request->key, [&added](const Table& table, bool filtered) {
      added.candidates.push_back({&table, filtered});
      return true;
    });
    if (!added.Advance()) pending.pop_back();
  }
  while (!pending.empty()) {
    const Status fetched = FetchRound(options, &pending);
    if (!fetched.ok()) {
      for (Pending& waiting : pending) waiting.request->status = fetched;
      return;
    }
    DecodeRound(options, &pending);
  }
}

// Fetches what every pending request needs next, with one doorbell.
Status PointReader::FetchRound(const TableReadOptions& options,
                               std::vector<Pending>* pending) const {
  const NodeId node = pending->front().probed->meta().image.node;
  QueuePair* queue_pair;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ForThisThread(node, &queue_pair));
  size_t scratch_bytes = 0;
  for (Pending& waiting : *pending) {
    if (waiting.probe.cached != nullptr) continue;
    if (const char* direct = queue_pair->Direct(waiting.probe.span); direct != nullptr) {
      queue_pair->CountDirectRead(waiting.probe.span.bytes, options.purpose);
      waiting.bytes = Slice(direct, waiting.probe.span.bytes);
    } else {
      waiting.scratch_offset = scratch_bytes;
      scratch_bytes += waiting.probe.span.bytes;
    }
  }
  if (scratch_bytes == 0) return Status::OK();
  LocalSpan scratch;
  DLSM_RETURN_IF_ERROR(queue_pairs_->ScratchForThisThread(scratch_bytes, &scratch));
  Ticket last{};
  for (Pending& waiting : *pending) {
    if (waiting.probe.cached != nullptr || !waiting.bytes.empty()) continue;
    const LocalSpan to = scratch.Sub(waiting.scratch_offset, waiting.probe.span.bytes);
    DLSM_RETURN_IF_ERROR(queue_pair->PostRead(waiting.probe.span, to, options.purpose, &last));
    waiting.bytes = Slice(to.data, to.bytes);
  }
  return queue_pair->Wait(last, Deadline::In(options.timeout));
}

// Finishes the requests that were answered and moves the others on.
void PointReader::DecodeRound(const TableReadOptions& options,
                              std::vector<Pending>* pending) const {
  std::vector<Pending> unanswered;
  statistics_->Add(Ticker::kTableProbes, pending->size());
  for (Pending& waiting : *pending) {
    Request& request = *waiting.request;
    LookupResult result;
    request.status = waiting.probed->reader().Decode(request.key, waiting.probe, waiting.bytes,
                                                     options, &result);
    request.state = result.state;
    if (!request.status.ok()) continue;
    if (result.state == LookupState::kFound) {
      request.value->assign(result.value.data(), result.value.size());
    } else if (result.state == LookupState::kAbsent) {
      statistics_->Add(Ticker::kTableProbesUseless);
      waiting.bytes.clear();
      if (waiting.Advance()) unanswered.push_back(std::move(waiting));
    }
  }
  *pending = std::move(unanswered);
}

}  // namespace dlsm
