// Decodes arbitrary bytes as the list of a shard's tables that a memory node keeps. What is
// accepted comes back as it was.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "db/nodes/placed_manifest_store.h"
#include "util/checksum.h"
#include "util/coding.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice body(reinterpret_cast<const char*>(data), size);
  std::string bytes;
  dlsm::PutFixed32(&bytes, dlsm::Crc32c(body.data(), body.size()));
  bytes.append(body.data(), body.size());
  dlsm::LiveList list;
  if (!list.Decode(bytes).ok()) return 0;
  dlsm::LiveList again;
  if (!again.Decode(list.Encode()).ok() || again.spans != list.spans) std::abort();
  return 0;
}
