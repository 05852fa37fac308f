// Any bytes either are refused or decode to a message that encodes to the same bytes. (A length
// prefix can be written in more than one way: a refusal need only survive another round.)
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "util/fabric/verbs/verbs_frame.h"

namespace {

template <typename Message>
void Check(const dlsm::Slice& body, bool unique) {
  Message message;
  if (!message.Decode(body).ok()) return;
  const std::string encoded = message.Encode();
  if (unique && dlsm::Slice(encoded) != body) std::abort();
  Message again;
  if (!again.Decode(encoded).ok() || again.Encode() != encoded) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      Check<dlsm::VerbsOffer>(bytes, true);
      break;
    case 1:
      Check<dlsm::VerbsAnswer>(bytes, true);
      break;
    case 2:
      Check<dlsm::VerbsRefusal>(bytes, false);
      break;
    default: {
      constexpr size_t kHeader = dlsm::VerbsFrameHeader::kBytes;
      if (bytes.size() < kHeader) return 0;
      dlsm::VerbsFrameHeader header;
      const bool ok = header.Decode(dlsm::Slice(bytes.data(), kHeader)).ok();
      const dlsm::Slice body(bytes.data() + kHeader, bytes.size() - kHeader);
      if (!ok || header.version != dlsm::kVerbsVersion || !header.CheckBody(body).ok()) return 0;
      if (dlsm::Slice(dlsm::EncodeVerbsFrame(header.kind, body)) != bytes) std::abort();
    }
  }
  return 0;
}
