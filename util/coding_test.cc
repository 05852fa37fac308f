#include "util/coding.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace dlsm {
namespace {

// Every power of two and its neighbours: where an encoding changes its length.
std::vector<uint64_t> Edges() {
  std::vector<uint64_t> values = {0, std::numeric_limits<uint64_t>::max()};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    values.insert(values.end(), {power - 1, power, power + 1});
  }
  return values;
}

TEST(CodingTest, FixedIsLittleEndian) {
  std::string bytes;
  PutFixed32(&bytes, 0x04030201);
  PutFixed64(&bytes, 0x0c0b0a0908070605);
  EXPECT_EQ(bytes, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c");
}

TEST(CodingTest, VarintsRoundTrip) {
  for (const uint64_t value : Edges()) {
    std::string bytes;
    PutVarint64(&bytes, value);
    EXPECT_EQ(bytes.size(), VarintBytes(value));
    EXPECT_LE(bytes.size(), kVarint64BytesMax);
    Slice rest(bytes);
    uint64_t decoded = 0;
    ASSERT_TRUE(GetVarint64(&rest, &decoded));
    EXPECT_EQ(decoded, value);
    EXPECT_TRUE(rest.empty());
  }
}

// Fails if a 32-bit decoder cuts a large number instead of refusing it.
TEST(CodingTest, Varint32TakesWhatFitsOnly) {
  for (const uint64_t value : Edges()) {
    std::string bytes;
    PutVarint64(&bytes, value);
    Slice rest(bytes);
    uint32_t decoded = 0;
    const bool fits = value <= std::numeric_limits<uint32_t>::max();
    ASSERT_EQ(GetVarint32(&rest, &decoded), fits) << value;
    if (fits) {
      EXPECT_EQ(decoded, value);
    }
  }
}

// Fails if a decoder reads past the end: the bytes lie in a heap block of exactly their size.
TEST(CodingTest, TruncationIsNoticedAtEveryLength) {
  for (const uint64_t value : Edges()) {
    std::string bytes;
    PutVarint64(&bytes, value);
    for (size_t length = 0; length < bytes.size(); ++length) {
      const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
      Slice rest(cut.data(), cut.size());
      uint64_t decoded;
      EXPECT_FALSE(GetVarint64(&rest, &decoded));
    }
  }
}

TEST(CodingTest, EndlessVarintsAreRefused) {
  const std::string endless(100, '\x80');
  Slice rest(endless);
  uint32_t small;
  EXPECT_FALSE(GetVarint32(&rest, &small));
  rest = Slice(endless);
  uint64_t large;
  EXPECT_FALSE(GetVarint64(&rest, &large));
}

TEST(CodingTest, LengthPrefixedRoundTripsAndRefusesLies) {
  std::string bytes;
  const std::vector<std::string> texts = {"", std::string(1, '\0'), std::string(300, 'x')};
  for (const std::string& text : texts) PutLengthPrefixed(&bytes, text);
  Slice rest(bytes);
  Slice text;
  for (const std::string& expected : texts) {
    ASSERT_TRUE(GetLengthPrefixed(&rest, &text));
    EXPECT_EQ(text, Slice(expected));
  }
  EXPECT_TRUE(rest.empty());

  std::string copy;
  rest = Slice(bytes);
  for (const std::string& expected : texts) {
    ASSERT_TRUE(GetLengthPrefixed(&rest, &copy));
    EXPECT_EQ(copy, expected);
  }
  EXPECT_TRUE(rest.empty());

  std::string lie;
  PutVarint32(&lie, 5);
  lie += "four";
  rest = Slice(lie);
  EXPECT_FALSE(GetLengthPrefixed(&rest, &text));
  EXPECT_FALSE(GetLengthPrefixed(&rest, &copy));
}

TEST(CodingTest, GetFixedNeedsAllBytes) {
  const std::string whole("\xff\x02\0\0\0\x03\0\0\0\0\0\0\0", 13);
  Slice rest(whole);
  uint8_t byte;
  uint32_t word;
  uint64_t wide;
  ASSERT_TRUE(GetFixed8(&rest, &byte) && GetFixed32(&rest, &word) && GetFixed64(&rest, &wide));
  EXPECT_EQ(byte, 0xff);
  EXPECT_EQ(word, 2u);
  EXPECT_EQ(wide, 3u);
  EXPECT_FALSE(GetFixed8(&rest, &byte));
  for (size_t length = 0; length < 8; ++length) {
    rest = Slice(whole.data(), length);
    EXPECT_FALSE(GetFixed64(&rest, &wide));
    rest = Slice(whole.data(), length);
    EXPECT_EQ(GetFixed32(&rest, &word), length >= 4);
  }
}

}  // namespace
}  // namespace dlsm
