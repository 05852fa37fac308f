#include "benchmarks/value_generator.h"

#include <algorithm>
#include <cstring>

namespace dlsm::bench {
namespace {

// As in LevelDB's and RocksDB's db_bench: pieces of 100 bytes, the start of each random and then
// repeated.
constexpr size_t kPieceBytes = 100;

void FillPiece(Random& random, size_t random_bytes, char* to, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    to[i] = i < random_bytes ? static_cast<char>(random.Next() >> 56) : to[i - random_bytes];
  }
}

}  // namespace

ValueGenerator::ValueGenerator(uint64_t seed, size_t value_bytes, double compression_ratio)
    : seed_(SplitMix64(seed)), value_bytes_(value_bytes), bytes_(kWindows + value_bytes, '\0') {
  const size_t random_bytes = std::clamp<size_t>(
      static_cast<size_t>(static_cast<double>(kPieceBytes) * compression_ratio), 1, kPieceBytes);
  Random random(seed ^ 0x76616c7565);
  for (size_t at = 0; at < bytes_.size(); at += kPieceBytes) {
    FillPiece(random, random_bytes, bytes_.data() + at, std::min(kPieceBytes, bytes_.size() - at));
  }
}

}  // namespace dlsm::bench
