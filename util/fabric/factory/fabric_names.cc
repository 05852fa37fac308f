#include "util/fabric/fabric.h"

namespace dlsm {

const char* FabricKindName(FabricKind kind) {
  switch (kind) {
    case FabricKind::kLocal:
      return "local";
    case FabricKind::kShm:
      return "shm";
    case FabricKind::kTcp:
      return "tcp";
    case FabricKind::kVerbs:
      return "verbs";
  }
  return "unknown";
}

std::optional<FabricKind> FabricKindFromName(const std::string& name) {
  for (const FabricKind kind :
       {FabricKind::kLocal, FabricKind::kShm, FabricKind::kTcp, FabricKind::kVerbs}) {
    if (name == FabricKindName(kind)) return kind;
  }
  return std::nullopt;
}

}  // namespace dlsm
