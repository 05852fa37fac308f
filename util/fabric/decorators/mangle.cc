#include "util/fabric/decorators/mangle.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "util/random.h"

namespace dlsm {
namespace {

void FlipBits(char* data, size_t bytes, Random* random) {
  for (uint64_t i = random->Uniform(8) + 1; i > 0; --i) {
    char& byte = data[random->Uniform(bytes)];
    byte = static_cast<char>(byte ^ (1 << random->Uniform(8)));
  }
}

void FillRandom(char* data, size_t bytes, Random* random) {
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(random->Next());
}

// Counts, lengths and offsets that are as large as can be, negative, nothing, or a little wrong.
void PlantNumber(char* data, size_t bytes, Random* random) {
  constexpr std::array<size_t, 4> kWidths = {1, 2, 4, 8};
  const size_t width = std::min(bytes, kWidths[random->Uniform(kWidths.size())]);
  constexpr std::array<uint64_t, 10> kNumbers = {0,
                                                 1,
                                                 0x7f,
                                                 0xff,
                                                 0xffff,
                                                 0x7fffffff,
                                                 0xfffffff0,
                                                 uint64_t{1} << 40,
                                                 uint64_t{1} << 63,
                                                 ~uint64_t{0}};
  char* const at = data + random->Uniform(bytes - width + 1);
  uint64_t number = 0;
  std::memcpy(&number, at, width);
  if (random->OneIn(3)) {
    number += random->OneIn(2) ? 1 : ~uint64_t{0};
  } else {
    number = kNumbers[random->Uniform(kNumbers.size())];
  }
  std::memcpy(at, &number, width);
}

void MoveAPart(char* data, size_t bytes, Random* random) {
  const size_t length = random->Uniform(bytes) + 1;
  const size_t from = random->Uniform(bytes - length + 1);
  const size_t to = random->Uniform(bytes - length + 1);
  std::memmove(data + to, data + from, length);
}

}  // namespace

void MangleBytes(char* data, size_t bytes, uint64_t draw) {
  if (bytes == 0) return;
  Random random(draw);
  switch (random.Uniform(7)) {
    case 0:
      return FillRandom(data, bytes, &random);
    case 1:
      std::memset(data, random.OneIn(2) ? 0 : 0xff, bytes);
      return;
    case 2:
      return MoveAPart(data, bytes, &random);
    case 3: {
      const size_t start = random.Uniform(bytes);
      return FillRandom(data + start, bytes - start, &random);
    }
    case 4:
      for (uint64_t i = random.Uniform(4) + 1; i > 0; --i) PlantNumber(data, bytes, &random);
      return;
    default:
      return FlipBits(data, bytes, &random);
  }
}

void MangleAnswer(std::string* answer, const std::string& other, uint64_t draw) {
  constexpr size_t kExtensionMax = 4096;
  Random random(draw);
  switch (random.Uniform(6)) {
    case 0:
      answer->resize(random.Uniform(answer->size() + 1));
      return;
    case 1: {
      const size_t before = answer->size();
      answer->resize(before + random.Uniform(kExtensionMax) + 1);
      return FillRandom(answer->data() + before, answer->size() - before, &random);
    }
    case 2:
      *answer = other;
      return;
    case 3:
      answer->clear();
      return;
    default:
      return MangleBytes(answer->data(), answer->size(), random.Next());
  }
}

}  // namespace dlsm
