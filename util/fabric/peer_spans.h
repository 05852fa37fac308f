// Whether an address that a memory node has told is one of its own.
#pragma once

#include "dLSM/status.h"
#include "util/fabric/fabric.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// Corruption unless all of `span` lies in one region of `peer`.
inline Status CheckSpanOf(const FabricPeer& peer, const RemoteSpan& span) {
  if (span.node != peer.node) {
    return Status::Corruption("a memory node has told an address of another one",
                              "do not use it any more");
  }
  for (const RegionInfo& region : peer.regions) {
    if (region.id != span.region) continue;
    if (span.offset <= region.bytes && span.bytes <= region.bytes - span.offset) {
      return Status::OK();
    }
  }
  return Status::Corruption("a memory node has told an address outside its regions",
                            "do not use it any more");
}

}  // namespace dlsm
