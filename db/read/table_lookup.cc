#include "db/read/table_lookup.h"

#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "util/out_of_memory.h"

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
         Take(&result, request_->holder);
}

void TableLookup::CountExcluded(uint64_t tables) const {
  if (tables > 0) request_->reader->statistics()->Add(Ticker::kFilterUseful, tables);
}

void TableLookup::Approach() {
  if (next_ < candidates_) {
    CandidateAt(next_).table->reader().Approach(request_->key, &probe_);
  }
}

void TableLookup::ApproachFurther() {
  if (next_ == candidates_) return;
  CandidateAt(next_).table->reader().ApproachFurther(request_->key, &probe_);
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
    if (Take(&result, /*holder=*/nullptr)) return false;
    statistics->Add(Ticker::kTableProbesUseless);
  }
  return false;
}

// A block that is unpacked may be large.
bool TableLookup::Decode(const Slice& bytes, const std::shared_ptr<const void>* holder,
                         const TableReadOptions& options) {
  Statistics* const statistics = request_->reader->statistics();
  statistics->Add(Ticker::kTableProbes);
  LookupResult result;
  request_->status = WithinMemory(
      [&] { return table_->reader().Decode(request_->key, probe_, bytes, options, &result); },
      &OutOfTransferMemory);
  if (!request_->status.ok()) return true;
  request_->reader->KeepInCache(*table_, probe_, bytes, options);
  if (Take(&result, holder)) {
    probe_.cached.reset();  // Who looks up many keys keeps no more blocks than the cache does.
    return true;
  }
  statistics->Add(Ticker::kTableProbesUseless);
  probe_ = TableProbe();
  return false;
}

// `holder`: of the value, if it has none of its own; see Decode(). A value for whose copy there is
// no memory is the request's error.
bool TableLookup::Take(LookupResult* result, const std::shared_ptr<const void>* holder) try {
  request_->state = result->state;
  if (result->state == LookupState::kFound) {
    port::AllocationPoint("value");
    PinnableSlice* const pinned = request_->pinned;
    if (pinned == nullptr) {
      request_->value->assign(result->value.data(), result->value.size());
    } else if (result->holder != nullptr) {
      pinned->PinSlice(result->value, std::move(result->holder));
    } else if (holder != nullptr && *holder != nullptr) {
      pinned->PinSlice(result->value, *holder);
    } else {
      pinned->PinSelf(result->value);
    }
  }
  return result->state != LookupState::kAbsent;
} catch (const std::bad_alloc&) {
  request_->status = OutOfTransferMemory();
  request_->status.PermitUncheckedError();  // A pipeline may go away with answers in it.
  return true;
}

}  // namespace dlsm
