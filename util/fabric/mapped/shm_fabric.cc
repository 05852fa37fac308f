#include "util/fabric/mapped/shm_fabric.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "port/error_text.h"
#include "util/fabric/mapped/mapped_fabric.h"
#include "util/fabric/mapped/memory_mapping.h"
#include "util/fabric/mapped/shm_file.h"
#include "util/shared_instances.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Which file, and how much of it.
using Mapped = std::tuple<dev_t, ino_t, uint64_t>;

// All connections of this process to the memory node share it.
Status MapRegion(NodeId node, const RegionInfo& info,
                 std::shared_ptr<const MemoryMapping>* mapping) {
  if (info.shm_path.empty() || info.bytes == 0) {
    return Status::NotSupported(
        fmt::format("memory node {} does not share its memory with this machine's processes; "
                    "start its Server with the shm fabric, or use the tcp fabric",
                    static_cast<uint32_t>(node)));
  }
  FileDescriptor file;
  DLSM_RETURN_IF_ERROR(OpenShmFile(info.shm_path, info.bytes, &file));
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return Status::IOError(info.shm_path, port::ErrorText(errno));
  }
  static constinit SharedInstances<Mapped, const MemoryMapping> mappings;
  const auto map = [&](std::shared_ptr<const MemoryMapping>* made) -> Status {
    auto mapped = std::make_shared<MemoryMapping>();
    DLSM_RETURN_IF_ERROR(MemoryMapping::File(file.get(), info.bytes, mapped.get()));
    // Its owner has said what there is to say about huge pages; here they need asking for as well.
    (void)AdviseHugePages(*mapped, /*shared=*/true);
    *made = std::move(mapped);
    return Status::OK();
  };
  return mappings.Get({status.st_dev, status.st_ino, info.bytes}, map, mapping);
}

}  // namespace

Status ConnectShm(const FabricPeer& peer, int numa_node,
                  std::unique_ptr<FabricConnection>* connection) {
  auto mappings = std::make_shared<std::vector<std::shared_ptr<const MemoryMapping>>>();
  RegionTable table;
  for (const RegionInfo& info : peer.regions) {
    std::shared_ptr<const MemoryMapping> mapping;
    DLSM_RETURN_IF_ERROR(MapRegion(peer.node, info, &mapping));
    table.Add(MappedRegion{info.id, mapping->data(), info.bytes});
    mappings->push_back(std::move(mapping));
  }
  *connection = std::make_unique<MappedConnection>(FabricKind::kShm, peer.node, std::move(table),
                                                   std::move(mappings), numa_node);
  return Status::OK();
}

}  // namespace dlsm
