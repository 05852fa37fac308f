#include "util/checksum.h"

#include <gtest/gtest.h>

#include <string>

#include "util/random.h"

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

}  // namespace
}  // namespace dlsm
