// Any bytes as a record: parsing stays within them, and what it accepts is consistent.
#include <cstdint>
#include <cstdlib>

#include "table/record.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* const bytes = reinterpret_cast<const char*>(data);
  dlsm::Record record;
  const bool parsed = dlsm::ParseRecord(bytes, bytes + size, &record);
  dlsm::Record slowly;
  Require(dlsm::ParseRecordSlow(bytes, bytes + size, &slowly) == parsed);
  if (!parsed) return 0;
  Require(slowly.encoded == record.encoded &&
          slowly.internal_key.data() == record.internal_key.data() &&
          slowly.value.data() == record.value.data());
  Require(record.encoded.data() == bytes && record.encoded.size() <= size);
  Require(record.internal_key.data() > bytes);
  Require(record.value.end() + dlsm::kChecksumBytes == record.encoded.end());
  (void)dlsm::VerifyRecord(record);
  (void)dlsm::ExtractTrailer(record.internal_key);
  return 0;
}
