#include "util/rpc/verbs/rpc_transport.h"

namespace dlsm {

const char* RpcTransportName(RpcTransport transport) {
  switch (transport) {
    case RpcTransport::kTcp:
      return "tcp";
    case RpcTransport::kVerbs:
      return "verbs";
    case RpcTransport::kRing:
      return "ring";
  }
  return "unknown";
}

std::optional<RpcTransport> RpcTransportFromName(std::string_view name) {
  for (const RpcTransport each : {RpcTransport::kTcp, RpcTransport::kVerbs, RpcTransport::kRing}) {
    if (name == RpcTransportName(each)) return each;
  }
  return std::nullopt;
}

}  // namespace dlsm
