// Any bytes as the key of an index entry, and as the state of an index. Whatever is accepted is the
// same after another round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "db/index/index_keys.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace {

void DecodeState(std::string bytes, bool seal) {
  if (seal) dlsm::PutFixed32(&bytes, dlsm::Crc32c(bytes));
  dlsm::IndexState state;
  if (state.Decode(bytes).ok() && state.Encode() != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string entries = dlsm::IndexEntriesPrefix("p", "name");
  std::string index_key;
  dlsm::Slice key;
  for (const std::string& entry : {bytes, entries + bytes}) {
    if (!dlsm::DecodeIndexEntry(entries, entry, &index_key, &key)) continue;
    if (dlsm::IndexEntryKey(entries, index_key, key) != entry) std::abort();
  }
  DecodeState(bytes, /*seal=*/false);
  DecodeState(bytes, /*seal=*/true);
  return 0;
}
