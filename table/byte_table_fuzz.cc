#include "table/table_fuzz_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlsm::FuzzTable(dlsm::TableFormat::kByteAddressable, data, size);
  return 0;
}
