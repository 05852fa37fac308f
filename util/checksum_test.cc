#include "util/checksum.h"

#include <gtest/gtest.h>

#include <string>

#include "port/cpu.h"
#include "util/random.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dlsm {
namespace {

// Fails if the polynomial, the bit order or an inversion differs from everyone else's CRC32C
// (RFC 3720, B.4).
TEST(ChecksumTest, StandardVectors) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(Slice()), 0u);
}

TEST(ChecksumTest, ExtendsAtEverySplit) {
  const std::string bytes = Random(7).Bytes(700);
  for (size_t split = 0; split <= bytes.size(); ++split) {
    const uint32_t first = Crc32c(bytes.data(), split);
    EXPECT_EQ(Crc32cExtend(first, bytes.data() + split, bytes.size() - split), Crc32c(bytes));
  }
}

TEST(ChecksumTest, NoticesEveryFlippedBit) {
  std::string bytes = Random(8).Bytes(64);
  const uint32_t checksum = Crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_NE(Crc32c(bytes), checksum);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
}

#if defined(__x86_64__)

// Whether the processor says which parts of the vector registers are in use.
bool CanTellUse() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kXsaveLeaf = 0xd;
  constexpr unsigned kXgetbv1 = 1u << 2;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(kXsaveLeaf, 1, &a, &b, &c, &d) != 0 &&
         (a & kXgetbv1) != 0;
}

// Of registers 0 to 15: the upper half of 256 bits, or of 512.
bool UpperHalvesAreInUse() {
  constexpr uint32_t kUpperOf256 = 1u << 2;
  constexpr uint32_t kUpperOf512 = 1u << 6;
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low & (kUpperOf256 | kUpperOf512)) != 0;
}

// Fails if what runs after a checksum is slow on processors where SSE instructions wait for upper
// halves.
TEST(ChecksumTest, LeavesNothingInUpperVectorHalves) {
  if (!CanTellUse()) GTEST_SKIP() << "the processor does not say";
  const std::string bytes = Random(9).Bytes(4096);
  port::ClearUpperVectorHalves();
  const bool cleared = !UpperHalvesAreInUse();
  asm volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0" : : : "xmm0");
  const bool used = UpperHalvesAreInUse();
  const uint32_t checksum = Crc32c(bytes);
  const bool left = UpperHalvesAreInUse();
  if (!cleared || !used) GTEST_SKIP() << "the processor says it of more than is in use, or less";
  EXPECT_FALSE(left);
  EXPECT_NE(checksum, 0u);
}

#endif

}  // namespace
}  // namespace dlsm
