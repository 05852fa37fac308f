// Decodes arbitrary bytes as a manifest. What is accepted comes back as it was.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "db/test/fake_table_testing.h"
#include "db/tree/manifest.h"
#include "db/tree/version.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace {

dlsm::Status OpenMeta(const dlsm::TableMeta& meta, dlsm::TableRef* table) {
  *table =
      std::make_shared<const dlsm::Table>(std::make_unique<dlsm::FakeTableReader>(meta), nullptr);
  return dlsm::Status::OK();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice body(reinterpret_cast<const char*>(data), size);
  std::string bytes;
  dlsm::PutFixed32(&bytes, dlsm::Crc32c(body.data(), body.size()));
  bytes.append(body.data(), body.size());
  dlsm::Manifest manifest;
  std::vector<dlsm::Level> levels;
  if (!dlsm::ManifestCodec::Decode(bytes, OpenMeta, &manifest, &levels).ok()) return 0;
  const std::string encoded = dlsm::ManifestCodec::Encode(manifest, levels);
  dlsm::Manifest again;
  std::vector<dlsm::Level> levels_again;
  if (!dlsm::ManifestCodec::Decode(encoded, OpenMeta, &again, &levels_again).ok() ||
      dlsm::ManifestCodec::Encode(again, levels_again) != encoded) {
    std::abort();
  }
  // Whatever lies in them, to look whether they make sense does no harm.
  const dlsm::InternalKeyComparator comparator(dlsm::BytewiseComparator());
  for (const dlsm::Level& level : levels) {
    level.CheckInvariants(comparator).PermitUncheckedError();
  }
  return 0;
}
