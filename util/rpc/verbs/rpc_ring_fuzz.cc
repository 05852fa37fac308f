// Lets a hostile client write anything into its request ring, in pieces, between the reads of the
// memory node: nothing outside of the ring may be touched, and every read must end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "util/rpc/verbs/rpc_ring.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kSegments = 8;
  constexpr size_t kBytes = kSegments * dlsm::kSegmentBytes;
  constexpr uint64_t kSalt = 0;
  // Of its own, so that a step beside it is found.
  const auto ring = std::make_unique<uint64_t[]>(kBytes / sizeof(uint64_t));
  char* const bytes = reinterpret_cast<char*>(ring.get());
  dlsm::RingReader reader(bytes, kSegments, kSalt);
  // Each step: where, how much, then the bytes themselves; or a message that is nearly right.
  while (size >= 4) {
    const size_t at = (data[0] | data[1] << 8) % kBytes;
    const size_t count = std::min({static_cast<size_t>(data[2]), size - 4, kBytes - at});
    const bool framed = (data[3] & 1) != 0;
    std::memcpy(bytes + at, data + 4, count);
    if (framed) {
      const size_t segment = at / dlsm::kSegmentBytes;
      const size_t body =
          std::min(static_cast<size_t>(data[2]) * 4, dlsm::BodyBytesMax(kSegments - segment));
      const auto kind = static_cast<dlsm::RingKind>(1 + (data[3] >> 1) % 4);
      dlsm::FrameRingMessage(kind, body, dlsm::RendezvousWord(kSalt, reader.read() + 1),
                             bytes + segment * dlsm::kSegmentBytes);
    }
    data += 4 + count;
    size -= 4 + count;
    std::string body;
    for (bool found = true; found;) {
      if (!reader.Next(&found, &body).ok()) return 0;
    }
  }
  return 0;
}
