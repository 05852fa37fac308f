#include "db/components.h"

#include <algorithm>

#include "db/table_runs.h"

namespace dlsm {
namespace {

size_t RunsIn(const InternalKeyComparator& comparator, const Guard& guard) {
  return guard.order == Guard::Order::kByKey ? std::min<size_t>(guard.tables.size(), 1)
                                             : CountRuns(comparator, guard.tables);
}

}  // namespace

size_t CountComponents(const Version& version) {
  size_t components = 0;
  for (const Level& level : version.levels()) {
    size_t most = 0;
    for (const Guard* guard : level.AllGuards()) {
      most = std::max(most, RunsIn(version.comparator(), *guard));
    }
    components += most;
  }
  return components;
}

size_t LevelsInUse(const Version& version) {
  size_t deepest = version.levels().size() - 1;
  while (deepest > 0 && version.levels()[deepest].table_count() == 0) --deepest;
  return deepest;
}

}  // namespace dlsm
