// Any bytes as the messages of a merge: refused, or decoded to something that encodes again.
#include <cstdint>
#include <cstdlib>

#include "table/merge_messages.h"

namespace {

template <typename Message>
void DecodeTwice(const dlsm::Slice& bytes) {
  Message message;
  if (!message.Decode(bytes).ok()) return;
  Message again;
  if (!again.Decode(message.Encode()).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data), size);
  DecodeTwice<dlsm::MergeRequest>(bytes);
  DecodeTwice<dlsm::MergeReply>(bytes);
  return 0;
}
