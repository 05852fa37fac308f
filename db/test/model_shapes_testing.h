// The configurations in which a database is compared with a map.
#pragma once

#include <functional>
#include <ostream>
#include <vector>

#include "dLSM/options.h"

namespace dlsm {

struct ModelShape {
  const char* name;
  const char* fabric = "";  // "": embedded.
  std::function<void(Options*)> change = [](Options*) {};
  int memory_nodes = 1;    // Not embedded: that many.
  bool long_keys = false;  // Longer than the bounds of tables.
};
inline void PrintTo(const ModelShape& shape, std::ostream* out) { *out << shape.name; }

std::vector<ModelShape> AllModelShapes();

}  // namespace dlsm
