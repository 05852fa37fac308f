// Decodes arbitrary bytes as a shard map, and as the header of a manifest. What is accepted
// survives another round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "db/nodes/shard_map.h"
#include "db/tree/manifest.h"
#include "util/checksum.h"
#include "util/coding.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data), size);
  dlsm::ShardMap map;
  dlsm::Slice from = bytes;
  if (map.DecodeFrom(&from).ok()) {
    std::string encoded;
    map.EncodeTo(&encoded);
    dlsm::ShardMap again;
    from = encoded;
    if (!again.DecodeFrom(&from).ok() || again != map) std::abort();
    // Whatever the order of boundaries, every key has a shard.
    if (map.ShardOf(*dlsm::BytewiseComparator(), bytes) >= map.count()) std::abort();
  }
  std::string manifest;
  dlsm::PutFixed32(&manifest, dlsm::Crc32c(bytes.data(), bytes.size()));
  manifest.append(bytes.data(), bytes.size());
  dlsm::Manifest header;
  if (dlsm::ManifestCodec::DecodeHeader(manifest, &header).ok() &&
      header.shard >= dlsm::ShardMap::kShardsMax) {
    std::abort();
  }
  return 0;
}
