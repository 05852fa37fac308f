// Decodes arbitrary bytes as every message of the hello. What is accepted survives
// another round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "util/rpc/auth/hello_messages.h"

namespace {

template <typename Message>
void Check(const dlsm::Slice& bytes) {
  Message message;
  if (!message.Decode(bytes).ok()) return;
  const std::string encoded = message.Encode();
  Message again;
  if (!again.Decode(encoded).ok() || again.Encode() != encoded) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  uint32_t value = 0;
  uint32_t checksum = 0;
  switch (data[0] % 7) {
    case 0:
      Check<dlsm::ClientOpening>(bytes);
      break;
    case 1:
      Check<dlsm::NodeChallenge>(bytes);
      break;
    case 2:
      Check<dlsm::ClientProof>(bytes);
      break;
    case 3:
      Check<dlsm::NodeInfo>(bytes);
      break;
    case 4:
      Check<dlsm::NodeWelcome>(bytes);
      break;
    case 5:
      dlsm::DecodeGreeting(bytes, &value).PermitUncheckedError();
      break;
    default:
      dlsm::DecodeHelloHeader(bytes, &value, &checksum).PermitUncheckedError();
  }
  return 0;
}
