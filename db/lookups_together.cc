#include "db/lookups_together.h"

#include <array>
#include <cassert>
#include <optional>

#include "db/candidate_list.h"
#include "db/version.h"

namespace dlsm {
namespace {

// Of each key so many filters are under way at a time.
constexpr size_t kTablesAtOnce = 8;

void FindCandidates(std::span<TableLookup* const> lookups) {
  using Collector = decltype(lookups.front()->Collector());
  std::array<std::optional<Collector>, kLookupsTogetherMax> collectors;
  std::array<std::optional<CandidateList<Collector, kTablesAtOnce>>, kLookupsTogetherMax> lists;
  for (size_t i = 0; i < lookups.size(); ++i) {
    const LookupRequest& request = lookups[i]->request();
    const Version& version = *request.view->version;
    collectors[i].emplace(lookups[i]->Collector());
    lists[i].emplace(version.comparator(), request.key, *collectors[i]);
    version.AddCandidates(request.key, &*lists[i]);
  }
  for (size_t i = 0; i < lookups.size(); ++i) {
    const LookupRequest& request = lookups[i]->request();
    request.view->version->AskCandidates(request.key, &*lists[i]);
    lookups[i]->CountExcluded(lists[i]->excluded());
  }
}

}  // namespace

void ApproachTogether(std::span<TableLookup* const> lookups, const TableReadOptions& options) {
  assert(lookups.size() <= kLookupsTogetherMax);
  FindCandidates(lookups);
  for (TableLookup* const lookup : lookups) lookup->Approach();
  for (TableLookup* const lookup : lookups) lookup->ApproachFurther(options);
}

}  // namespace dlsm
