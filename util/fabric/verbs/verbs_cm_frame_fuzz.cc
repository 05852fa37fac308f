// Any bytes either are refused or decode to a message that encodes to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "util/fabric/verbs/verbs_cm_frame.h"

namespace {

template <typename Message>
void Check(const dlsm::Slice& bytes, size_t bytes_max) {
  Message message;
  if (!message.Decode(bytes).ok()) return;
  const dlsm::Slice looked_at(bytes.data(), std::min(bytes.size(), bytes_max));
  if (dlsm::Slice(message.Encode()) != looked_at) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      Check<dlsm::VerbsCmOffer>(bytes, SIZE_MAX);
      break;
    case 1:
      Check<dlsm::VerbsCmAnswer>(bytes, SIZE_MAX);
      break;
    default:
      // Transports add zeros.
      Check<dlsm::VerbsCmGreeting>(bytes, dlsm::VerbsCmGreeting::kBytes);
  }
  return 0;
}
