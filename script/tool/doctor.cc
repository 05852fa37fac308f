#include "script/tool/doctor.h"

#include <sys/resource.h>

#include "script/tool/host_checks.h"
#include "script/tool/node_checks.h"
#include "script/tool/rdma_checks.h"

namespace dlsm::tool {
namespace {

void Append(Findings* to, Findings from) {
  to->insert(to->end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

Findings CheckHost(const DoctorOptions& options) {
  const bool needs_rdma = options.fabric == FabricKindName(FabricKind::kVerbs);
  Findings findings;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  findings.push_back(CheckLockedMemory(limit));
  findings.push_back(CheckHugePages(options.root));
  findings.push_back(CheckSharedMemoryHugePages(options.root));
  findings.push_back(CheckSharedMemorySpace(options.root + "dev/shm"));
  Append(&findings, CheckRdmaPorts(options.root));
  findings.push_back(CheckRdmaDevice(options.rdma_device, needs_rdma));
  findings.push_back(CheckConnectionManager(options.root, options.rdma_device, needs_rdma));
  return findings;
}

Findings CheckMemoryNode(const NodeAddress& address, const DoctorOptions& options) {
  bool reachable = false;
  Findings findings = CheckNode(address, options.credentials, &reachable);
  if (!reachable) return findings;
  for (const FabricKind kind : {FabricKind::kShm, FabricKind::kTcp, FabricKind::kVerbs}) {
    FabricOptions fabric;
    fabric.kind = kind;
    // A malformed device was found on this host already.
    ParseVerbsOptions(options.rdma_device, &fabric.verbs).PermitUncheckedError();
    const bool required = options.fabric == FabricKindName(kind);
    findings.push_back(CheckFabric(address, options.credentials, fabric, required));
  }
  return findings;
}

}  // namespace

Findings RunDoctor(const DoctorOptions& options) {
  Findings findings = CheckHost(options);
  for (const HostPort& node : options.memory_nodes) {
    Append(&findings, CheckMemoryNode(NodeAddress{node.host, node.port}, options));
  }
  return findings;
}

}  // namespace dlsm::tool
