// Decodes arbitrary bytes as the image of a publication, and as a slot of a database's header. What
// is accepted survives another round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "db/follow/publication.h"
#include "util/checksum.h"
#include "util/coding.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data), size);
  std::string image;
  dlsm::PutFixed32(&image, dlsm::Crc32c(bytes.data(), bytes.size()));
  image.append(bytes.data(), bytes.size());
  dlsm::Publication publication;
  if (publication.Decode(image).ok()) {
    const std::string encoded = publication.Encode();
    dlsm::Publication again;
    if (!again.Decode(encoded).ok() || again.Encode() != encoded) std::abort();
  }
  dlsm::PublicationSlot::Words words{};
  if (size < sizeof(words)) return 0;
  std::memcpy(words.data(), data, sizeof(words));
  dlsm::PublicationSlot slot;
  if (slot.Decode(words).ok() && slot.Encode() != words) std::abort();
  return 0;
}
