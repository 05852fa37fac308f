#include "db/tree/components.h"

#include <algorithm>

namespace dlsm {

size_t CountComponents(const Version& version) {
  size_t components = 0;
  for (const Level& level : version.levels()) {
    size_t most = 0;
    for (const Guard* guard : level.AllGuards()) {
      most = std::max(most, CountRuns(*guard));
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
