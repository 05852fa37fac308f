#include "util/fabric/shm_fabric.h"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "util/fabric/mapped_fabric.h"
#include "util/fabric/memory_mapping.h"
#include "util/fabric/shm_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status MapRegion(NodeId node, const RegionInfo& info, MemoryMapping* mapping) {
  if (info.shm_path.empty() || info.bytes == 0) {
    return Status::NotSupported(
        fmt::format("memory node {} does not share its memory with this machine's processes; "
                    "start its Server with the shm fabric, or use the tcp fabric",
                    static_cast<uint32_t>(node)));
  }
  FileDescriptor file;
  DLSM_RETURN_IF_ERROR(OpenShmFile(info.shm_path, info.bytes, &file));
  DLSM_RETURN_IF_ERROR(MemoryMapping::File(file.get(), info.bytes, mapping));
  // Its owner has said what there is to say about huge pages; here they need asking for as well.
  (void)AdviseHugePages(*mapping, /*shared=*/true);
  return Status::OK();
}

}  // namespace

Status ConnectShm(const FabricPeer& peer, std::unique_ptr<FabricConnection>* connection) {
  auto mappings = std::make_shared<std::vector<MemoryMapping>>();
  RegionTable table;
  for (const RegionInfo& info : peer.regions) {
    MemoryMapping mapping;
    DLSM_RETURN_IF_ERROR(MapRegion(peer.node, info, &mapping));
    table.Add(MappedRegion{info.id, mapping.data(), info.bytes});
    mappings->push_back(std::move(mapping));
  }
  *connection = std::make_unique<MappedConnection>(FabricKind::kShm, peer.node, std::move(table),
                                                   std::move(mappings));
  return Status::OK();
}

}  // namespace dlsm
