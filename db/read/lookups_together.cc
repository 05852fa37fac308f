#include "db/read/lookups_together.h"

#include <array>
#include <cassert>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "db/tree/candidate_list.h"
#include "db/tree/version.h"

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
