#include "db/read/table_lookup.h"

#include <cassert>
#include <new>
#include <type_traits>
#include <utility>

#include "db/tree/candidate_list.h"
#include "db/tree/version.h"
#include "port/allocation_point.h"
#include "util/out_of_memory.h"

namespace dlsm {
namespace {

// Of each key so many filters are under way at a time.
constexpr size_t kTablesAtOnce = 8;

// Where something is made later, or not at all. To clear an array of std::optional takes longer
// than to fill it.
template <typename T>
class Place {
 public:
  static_assert(std::is_trivially_destructible_v<T>);

  Place() {}  // NOLINT: the bytes are nothing yet.

  template <typename... Args>
  T* Make(Args&&... args) {
    return std::construct_at(reinterpret_cast<T*>(bytes_), std::forward<Args>(args)...);
  }
  T* get() { return std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) std::byte bytes_[sizeof(T)];
};

}  // namespace

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
  const bool ended =
      request_->reader->AskMemtables(*request_->view, request_->key, counts(), &result);
  request_->hidden_below = result.hidden_below;
  return ended && Take(&result, request_->holder);
}

void TableLookup::CountExcluded(uint64_t tables) const {
  if (tables > 0) counts().Add(Ticker::kFilterUseful, tables);
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
    if (options.limited) [[unlikely]] {
      request_->status = candidate.table->reader().MakeReady(options);
      request_->status.PermitUncheckedError();  // A pipeline may go away with answers in it.
      if (!request_->status.ok()) return false;
    }
    LookupResult result;
    result.hidden_below = request_->hidden_below;
    const PointReader::TableAnswer answer = request_->reader->AskTable(
        *candidate.table, candidate.filtered, request_->key, options, counts(), &probe_, &result);
    if (answer == PointReader::TableAnswer::kAbsent) continue;
    table_ = candidate.table;
    if (answer == PointReader::TableAnswer::kFetch) return true;
    Take(&result, /*holder=*/nullptr);
    return false;
  }
  return false;
}

// A block that is unpacked may be large.
bool TableLookup::Decode(const Slice& bytes, const std::shared_ptr<const void>* holder,
                         const TableReadOptions& options) {
  LookupResult result;
  result.hidden_below = request_->hidden_below;
  request_->status = WithinMemory(
      [&] {
        return request_->reader->AskRecord(*table_, request_->key, probe_, bytes, options, counts(),
                                           &result);
      },
      &OutOfTransferMemory);
  if (!request_->status.ok()) return true;
  if (Take(&result, holder)) {
    probe_.cached.reset();  // Lookups of many keys keep no more blocks than the cache does.
    return true;
  }
  probe_ = TableProbe();
  return false;
}

// `holder`: of the value, if it has none of its own; see Decode(). A value for whose copy there is
// no memory is the request's error.
bool TableLookup::Take(LookupResult* result, const std::shared_ptr<const void>* holder) try {
  request_->state = result->state;
  if (result->state == LookupState::kFound) {
    port::AllocationPoint("value");
    if (request_->pinned == nullptr) {
      request_->value->assign(result->value.data(), result->value.size());
    } else {
      Pin(result, holder != nullptr ? *holder : nullptr, request_->pinned);
    }
  }
  return result->state != LookupState::kAbsent;
} catch (const std::bad_alloc&) {
  request_->status = OutOfTransferMemory();
  request_->status.PermitUncheckedError();  // A pipeline may go away with answers in it.
  return true;
}

void FindCandidatesTogether(std::span<TableLookup* const> lookups) {
  assert(lookups.size() <= kLookupsTogetherMax);
  using Collector = decltype(lookups.front()->Collector());
  using Candidates = CandidateList<Collector, kTablesAtOnce>;
  std::array<Place<Collector>, kLookupsTogetherMax> collectors;
  std::array<Place<Candidates>, kLookupsTogetherMax> lists;
  for (size_t i = 0; i < lookups.size(); ++i) {
    const LookupRequest& request = lookups[i]->request();
    const Version& version = *request.view->version;
    Collector* const collector = collectors[i].Make(lookups[i]->Collector());
    Candidates* const list = lists[i].Make(version.comparator(), request.key, *collector);
    version.AddCandidates(request.key, list);
  }
  for (size_t i = 0; i < lookups.size(); ++i) {
    const LookupRequest& request = lookups[i]->request();
    Candidates* const list = lists[i].get();
    request.view->version->AskCandidates(request.key, list);
    lookups[i]->CountExcluded(list->excluded());
  }
}

void ApproachTogether(std::span<TableLookup* const> lookups, const TableReadOptions& options) {
  for (TableLookup* const lookup : lookups) lookup->Approach();
  bool in_place = true;  // As far as the last one tells: mostly all go to one memory node.
  for (TableLookup* const lookup : lookups) {
    lookup->ApproachFurther();
    in_place = in_place && lookup->PrefetchPage(options);
  }
}

}  // namespace dlsm
