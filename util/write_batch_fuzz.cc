// Reads arbitrary bytes as a batch. What is read without an error must come back the same from a
// batch that is built of it.
#include <cstdlib>
#include <string>

#include "util/write_batch_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dlsm::Slice;
  dlsm::WriteBatchReader reader(Slice(reinterpret_cast<const char*>(data), size));
  dlsm::WriteBatch batch;
  dlsm::UpdateType type;
  Slice key;
  Slice value;
  while (reader.Next(&type, &key, &value)) {
    if (type == dlsm::UpdateType::kPut) {
      batch.Put(key, value);
    } else {
      batch.Delete(key);
    }
  }
  if (!reader.status().ok()) return 0;
  if (batch.Count() != reader.count()) std::abort();
  // Lengths may have been encoded longer than they need.
  if (batch.ApproximateSize() > size) std::abort();
  return 0;
}
