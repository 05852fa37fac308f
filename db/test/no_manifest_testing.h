// Takes every manifest, and keeps none: for tests of trees that are not opened again.
#pragma once

#include <string>
#include <vector>

#include "db/nodes/manifest_store.h"

namespace dlsm {

class NoManifest final : public ManifestStore {
 public:
  Status Put(const std::string& /*manifest*/, std::vector<RemoteSpan> /*live*/) override {
    return Status::OK();
  }
};

}  // namespace dlsm
