#include "util/bloom_filter.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "port/cpu.h"
#include "util/coding.h"
#include "util/hash.h"

namespace dlsm {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kLineBits = kLineBytes * 8;
constexpr int kBitsPerKeyMin = 1;
constexpr int kBitsPerKeyMax = 40;
constexpr int kProbesMax = 16;

// The number of probes that gives the fewest false positives, where the keys of a line are Poisson
// distributed: probes = 1 + how many of these bounds the bits for each key reach. 10 bits make it 6
// although 7 are better by a 2000th, as a probe costs time.
int BestProbes(int bits_per_key) {
  constexpr std::array kBounds = {3, 4, 6, 7, 9, 12, 13, 14, 16, 19, 21, 24, 27, 31, 35};
  const auto reached =
      std::count_if(kBounds.begin(), kBounds.end(), [&](int b) { return bits_per_key >= b; });
  return 1 + static_cast<int>(reached);
}

__extension__ using Wide = unsigned __int128;

size_t LineOf(uint64_t hash, size_t lines) {
  return static_cast<size_t>((static_cast<Wide>(hash) * lines) >> 64);
}

// Independent of the upper bits that LineOf uses: keys of one line differ in all of these.
uint64_t Remix(uint64_t hash) {
  hash *= 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

// Calls visit(position) for the positions of a hash within its line, 9 bits each, seven from one
// remix.
template <typename Visit>
void ForEachPosition(uint64_t hash, int probes, Visit visit) {
  constexpr int kFromOneRemix = 7;
  uint64_t bits = hash;
  for (; probes > 0; probes -= kFromOneRemix) {
    bits = Remix(bits);
    uint64_t next = bits;
    for (int left = std::min(probes, kFromOneRemix); left > 0; --left) {
      visit(static_cast<size_t>(next % kLineBits));
      next /= kLineBits;
    }
  }
}

// Eight bytes at a time: the same bits as byte by byte, little-endian, in fewer instructions.
char* WordOf(size_t position, char* line) { return line + position / 64 * sizeof(uint64_t); }
const char* WordOf(size_t position, const char* line) {
  return line + position / 64 * sizeof(uint64_t);
}

void SetBits(uint64_t hash, int probes, char* line) {
  ForEachPosition(hash, probes, [line](size_t position) {
    char* const word = WordOf(position, line);
    EncodeFixed64(word, DecodeFixed64(word) | uint64_t{1} << position % 64);
  });
}

// Looks at all of them: no processor can guess which one is the first that is missing.
bool AllBitsSet(uint64_t hash, int probes, const char* line) {
  uint64_t all = 1;
  ForEachPosition(hash, probes, [line, &all](size_t position) {
    all &= DecodeFixed64(WordOf(position, line)) >> position % 64;
  });
  return (all & 1) != 0;
}

}  // namespace

void BuildBloomFilter(const uint64_t* hashes, size_t n, int bits_per_key, std::string* filter) {
  bits_per_key = std::clamp(bits_per_key, kBitsPerKeyMin, kBitsPerKeyMax);
  const int probes = BestProbes(bits_per_key);
  const size_t lines = (n * static_cast<size_t>(bits_per_key) + kLineBits - 1) / kLineBits;
  const size_t start = filter->size();
  filter->resize(start + lines * kLineBytes + 1);
  char* const first = filter->data() + start;
  constexpr size_t kAhead = 8;  // Large filters do not fit the nearest caches.
  for (size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      port::PrefetchRead(first + LineOf(hashes[i + kAhead], lines) * kLineBytes);
    }
    SetBits(hashes[i], probes, first + LineOf(hashes[i], lines) * kLineBytes);
  }
  filter->back() = static_cast<char>(probes);
}

bool BloomMayMatch(uint64_t hash, const Slice& filter) {
  if (filter.size() % kLineBytes != 1) return true;
  const size_t lines = filter.size() / kLineBytes;
  const int probes = static_cast<unsigned char>(filter[filter.size() - 1]);
  if (probes < 1 || probes > kProbesMax) return true;
  if (lines == 0) return false;  // Built from no keys.
  return AllBitsSet(hash, probes, filter.data() + LineOf(hash, lines) * kLineBytes);
}

BloomLines::BloomLines(const Slice& filter) {
  if (filter.size() % kLineBytes != 1) return;
  const int stored = static_cast<unsigned char>(filter[filter.size() - 1]);
  const size_t stored_lines = filter.size() / kLineBytes;
  if (stored < 1 || stored > kProbesMax || stored_lines > UINT32_MAX) return;
  lines = filter.data();
  count = static_cast<uint32_t>(stored_lines);
  probes = static_cast<uint32_t>(stored);
}

bool BloomBits::MayMatchBitByBit(const char* line, uint32_t probes) const {
  return AllBitsSet(hash_, static_cast<int>(probes), line);
}

void BloomBits::Compute(uint32_t probes) {
  std::fill(std::begin(bits_), std::end(bits_), 0);
  SetBits(hash_, static_cast<int>(probes), reinterpret_cast<char*>(bits_));
  probes_ = probes;
}

BloomFilterPolicy::BloomFilterPolicy(int bits_per_key)
    : bits_per_key_(std::clamp(bits_per_key, kBitsPerKeyMin, kBitsPerKeyMax)) {}

void BloomFilterPolicy::CreateFilter(const Slice* keys, int n, std::string* filter) const {
  std::vector<uint64_t> hashes(static_cast<size_t>(n));
  std::transform(keys, keys + n, hashes.begin(), Hash64);
  BuildBloomFilter(hashes.data(), hashes.size(), bits_per_key_, filter);
}

bool BloomFilterPolicy::KeyMayMatch(const Slice& key, const Slice& filter) const {
  return BloomMayMatch(Hash64(key), filter);
}

const BloomFilterPolicy* AsBuiltIn(const FilterPolicy* policy) {
  return policy == nullptr ? nullptr : policy->AsBloomFilterPolicy();
}

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) {
  return std::make_unique<BloomFilterPolicy>(bits_per_key).release();
}

}  // namespace dlsm
