// Where the manifest of a shard is kept: at its home, a memory node, by its session there; where
// its tables may be on others too, each of these knows its own (placed_manifest_store.h).
#pragma once

#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

class ManifestStore {
 public:
  virtual ~ManifestStore() = default;
  // Replaces the manifest atomically. One call at a time. `live`: what it refers to. After an error
  // the manifest may be this one or the one before.
  virtual Status Put(const std::string& manifest, std::vector<RemoteSpan> live) = 0;
};

}  // namespace dlsm
