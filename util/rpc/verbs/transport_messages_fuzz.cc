// Feeds arbitrary bytes to the decoders of what arranges calls over RDMA, and of such calls.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/rpc/verbs/transport_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data), size);
  dlsm::TransportOffer offer;
  dlsm::TransportAnswer answer;
  // What is taken can be told on. (Not always in the same bytes: a varint has several forms.)
  dlsm::TransportOffer offer_again;
  dlsm::TransportAnswer answer_again;
  if (offer.Decode(bytes).ok() && !offer_again.Decode(offer.Encode()).ok()) std::abort();
  if (answer.Decode(bytes).ok() && !answer_again.Decode(answer.Encode()).ok()) std::abort();
  dlsm::RequestMessage request;
  request.Decode(bytes).PermitUncheckedError();
  // Behind the checksum of the head.
  if (size < dlsm::kRequestHeadBytes) return 0;
  std::string repaired = bytes.ToString();
  constexpr size_t kCovered = dlsm::kRequestHeadBytes - sizeof(uint32_t);
  dlsm::EncodeFixed32(repaired.data() + kCovered, dlsm::Crc32c(repaired.data(), kCovered));
  request.Decode(repaired).PermitUncheckedError();
  return 0;
}
