// Asks arbitrary bytes, taken for a filter, for keys; and filters of arbitrary keys for these keys.
#include <cstdlib>
#include <string>

#include "util/bloom_filter.h"
#include "util/hash.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const dlsm::Slice bytes(reinterpret_cast<const char*>(data), size);
  const uint64_t hash = dlsm::Hash64(bytes);
  const bool may_match = dlsm::BloomMayMatch(hash, bytes);
  const dlsm::BloomLines lines(bytes);
  dlsm::BloomBits bits(hash);
  for (int times = 0; times < 2 && !lines.empty(); ++times) {  // The first bit by bit.
    if (bits.MayMatch(lines.LineOf(hash), lines.probes) != may_match) std::abort();
  }
  const int bits_per_key = size == 0 ? 0 : data[0];
  std::string filter;
  dlsm::BuildBloomFilter(&hash, 1, bits_per_key, &filter);
  if (!dlsm::BloomMayMatch(hash, filter)) std::abort();
  return 0;
}
