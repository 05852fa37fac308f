// Where the manifest is kept.
#pragma once

#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

class ManifestStore {
 public:
  virtual ~ManifestStore() = default;
  // Replaces the manifest atomically. One call at a time. `live`: what it refers to.
  virtual Status Put(const std::string& manifest, std::vector<RemoteSpan> live) = 0;
};

}  // namespace dlsm
