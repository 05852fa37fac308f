// Elements chosen at random, of collections whose places are what is chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/serve/collection.h"

namespace dlsm::serve {

// So many different ones, or all if there are not more, in any order. Each is as likely as any
// other; this goes through all elements.
std::vector<std::string> ChooseDistinct(const Collection& collection, int64_t count);
// So many, of which some may be the same; none if there is none to choose from.
std::vector<std::string> ChooseAny(const Collection& collection, int64_t count);

}  // namespace dlsm::serve
