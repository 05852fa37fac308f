#include "util/fabric/mapped/local_fabric.h"

#include <fmt/core.h>

#include <utility>

#include "util/fabric/mapped/local_regions.h"
#include "util/fabric/mapped/mapped_fabric.h"

namespace dlsm {

Status ConnectLocal(const FabricPeer& peer, int numa_node,
                    std::unique_ptr<FabricConnection>* connection) {
  RegionTable table;
  for (const RegionInfo& info : peer.regions) {
    uint64_t bytes = 0;
    char* data = LocalRegions::Instance().Find(peer.node, peer.boot, info.id, &bytes);
    if (data == nullptr || bytes < info.bytes) {
      return Status::IOError(fmt::format(
          "memory node {} is not in this process (region {}); use the shm or tcp fabric",
          static_cast<uint32_t>(peer.node), static_cast<uint32_t>(info.id)));
    }
    table.Add(MappedRegion{info.id, data, info.bytes});
  }
  *connection = std::make_unique<MappedConnection>(FabricKind::kLocal, peer.node, std::move(table),
                                                   nullptr, numa_node);
  return Status::OK();
}

}  // namespace dlsm
