// Feeds arbitrary bytes, as pieces of arbitrary sizes, to the assembler of frames.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "util/rpc/auth/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dlsm::FrameAssembler;
  dlsm::FrameHeader header;
  header.Decode(dlsm::Slice(reinterpret_cast<const char*>(data), size)).PermitUncheckedError();
  if (size == 0) return 0;
  const size_t piece = 1 + data[0];
  FrameAssembler assembler;
  size_t fed = 1;
  while (fed < size) {
    size_t space = 0;
    char* to = assembler.Space(&space);
    const size_t count = std::min({space, piece, size - fed});
    std::memcpy(to, data + fed, count);
    fed += count;
    if (!assembler.Filled(count).ok()) return 0;
    if (assembler.complete()) static_cast<void>(assembler.TakePayload());
  }
  return 0;
}
