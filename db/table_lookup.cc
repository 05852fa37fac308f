#include "db/table_lookup.h"

#include "port/allocation_point.h"

namespace dlsm {

void TableLookup::Start(LookupRequest* request) {
  request_ = request;
  candidates_ = 0;
  further_.clear();
  next_ = 0;
  table_ = nullptr;
  probe_ = TableProbe();
}

bool TableLookup::AskMemtables() {
  LookupResult result;
  const PointReader& reader = *request_->reader;
  return reader.GetFromMemtables(*request_->view, request_->key,
                                 reader.statistics()->OfThisThread(), &result) &&
         Take(result);
}

void TableLookup::CountExcluded(uint64_t tables) const {
  if (tables > 0) request_->reader->statistics()->Add(Ticker::kFilterUseful, tables);
}

void TableLookup::Approach() {
  if (next_ < candidates_) {
    CandidateAt(next_).table->reader().Approach(request_->key, &probe_);
  }
}

void TableLookup::ApproachFurther(const TableReadOptions& options) {
  if (next_ == candidates_) return;
  CandidateAt(next_).table->reader().ApproachFurther(request_->key, &probe_);
  request_->reader->PrefetchPage(probe_.span, options);
}

bool TableLookup::Advance(const TableReadOptions& options) {
  for (; next_ < candidates_; probe_ = TableProbe()) {
    const Candidate& candidate = CandidateAt(next_++);
    if (!candidate.table->reader().Find(request_->key, candidate.filtered, &probe_)) {
      CountExcluded(1);
      continue;
    }
    table_ = candidate.table;
    LookupResult result;
    if (!request_->reader->AnswerFromCache(*table_, request_->key, probe_, options, &result)) {
      return true;
    }
    Statistics* const statistics = request_->reader->statistics();
    statistics->Add(Ticker::kTableProbes);
    if (Take(result)) return false;
    statistics->Add(Ticker::kTableProbesUseless);
  }
  return false;
}

bool TableLookup::Decode(const Slice& fetched, const TableReadOptions& options) {
  Statistics* const statistics = request_->reader->statistics();
  statistics->Add(Ticker::kTableProbes);
  LookupResult result;
  request_->status = table_->reader().Decode(request_->key, probe_, fetched, options, &result);
  if (!request_->status.ok()) return true;
  request_->reader->KeepInCache(*table_, probe_, fetched, options);
  if (Take(result)) return true;
  statistics->Add(Ticker::kTableProbesUseless);
  probe_ = TableProbe();
  return false;
}

bool TableLookup::Take(const LookupResult& result) {
  request_->state = result.state;
  if (result.state == LookupState::kFound) {
    port::AllocationPoint();
    request_->value->assign(result.value.data(), result.value.size());
  }
  return result.state != LookupState::kAbsent;
}

}  // namespace dlsm
