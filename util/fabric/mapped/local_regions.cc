#include "util/fabric/mapped/local_regions.h"

#include <map>
#include <utility>

#include "port/mutex.h"
#include "port/per_process.h"

namespace dlsm {

struct LocalRegions::State {
  struct Memory {
    char* data = nullptr;
    uint64_t bytes = 0;
  };
  using Key = std::pair<NodeId, BootId>;

  mutable port::Mutex mutex;
  std::map<Key, std::map<RegionId, Memory>> nodes GUARDED_BY(mutex);
};

LocalRegions::LocalRegions() : state_(std::make_unique<State>()) {}

LocalRegions& LocalRegions::Instance() {
  // An embedded memory node may end after static destruction began.
  static constinit port::PerProcess<LocalRegions> regions;
  return regions.Here();
}

void LocalRegions::Add(NodeId node, BootId boot, RegionId region, char* data, uint64_t bytes) {
  port::MutexLock lock(state_->mutex);
  state_->nodes[{node, boot}][region] = State::Memory{data, bytes};
}

void LocalRegions::Remove(NodeId node, BootId boot) {
  port::MutexLock lock(state_->mutex);
  state_->nodes.erase({node, boot});
}

char* LocalRegions::Find(NodeId node, BootId boot, RegionId region, uint64_t* bytes) const {
  port::MutexLock lock(state_->mutex);
  const auto regions = state_->nodes.find({node, boot});
  if (regions == state_->nodes.end()) return nullptr;
  const auto memory = regions->second.find(region);
  if (memory == regions->second.end()) return nullptr;
  *bytes = memory->second.bytes;
  return memory->second.data;
}

}  // namespace dlsm
