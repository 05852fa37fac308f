// Where the local fabric finds the regions of memory nodes in this process.
#pragma once

#include <cstdint>
#include <memory>

#include "util/fabric/fabric.h"

namespace dlsm {

// Regions of memory nodes that live in this process, for the local fabric. Keyed by (node, boot):
// what is registered ends with the boot. Thread-safe.
class LocalRegions {
 public:
  // Those of this process: a child of it has its own. Never destroyed.
  static LocalRegions& Instance();
  LocalRegions();
  void Add(NodeId node, BootId boot, RegionId region, char* data, uint64_t bytes);
  void Remove(NodeId node, BootId boot);
  // nullptr when there is no such region.
  char* Find(NodeId node, BootId boot, RegionId region, uint64_t* bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlsm
