#include "table/key_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "util/coding.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr uint64_t kAny = uint64_t{1} << 30;

std::string Written(const std::vector<std::string>& keys, bool sharing) {
  std::string bytes;
  KeyWriter writer(sharing);
  uint64_t key_bytes = 0;
  for (const std::string& key : keys) {
    writer.Put(key, &bytes);
    key_bytes += key.size();
  }
  EXPECT_EQ(writer.key_bytes(), key_bytes);
  return bytes;
}

// False if the bytes are not `count` keys and nothing else.
bool Read(const Slice& bytes, size_t count, bool sharing, uint64_t key_bytes_max,
          std::vector<std::string>* keys) {
  Slice from = bytes;
  KeyReader reader(sharing, key_bytes_max);
  keys->clear();
  for (size_t i = 0; i < count; ++i) {
    if (!reader.Get(&from, &keys->emplace_back())) return false;
  }
  return from.empty();
}

// Fails if a key does not come back as it was, from all of the bytes and from nothing less.
TEST(KeyListTest, KeysComeBackAsTheyWere) {
  Random random(5);
  std::vector<std::string> keys = {"", "", std::string(3, '\0')};
  for (int i = 0; i < 40; ++i) {
    keys.push_back(std::string(random.Uniform(300), 'x') + random.Bytes(random.Uniform(4)));
  }
  for (const bool sharing : {false, true}) {
    const std::string bytes = Written(keys, sharing);
    std::vector<std::string> read;
    ASSERT_TRUE(Read(bytes, keys.size(), sharing, kAny, &read));
    EXPECT_EQ(read, keys);
    for (size_t part = 0; part < bytes.size(); ++part) {
      EXPECT_FALSE(Read(Slice(bytes.data(), part), keys.size(), sharing, kAny, &read)) << part;
    }
  }
}

// Fails if what keys have in common is written more than once.
TEST(KeyListTest, WhatKeysHaveInCommonIsWrittenOnce) {
  const std::string common(100'000, 'x');
  std::vector<std::string> keys;
  for (int i = 0; i < 50; ++i) {
    keys.push_back(common + std::to_string(i));
    if (i % 10 == 0) keys.push_back(std::string(150, 's'));
  }
  EXPECT_LT(Written(keys, /*sharing=*/true).size(), common.size() + 50 * 10 + 5 * 160);
  EXPECT_GT(Written(keys, /*sharing=*/false).size(), common.size() * 50);
}

// Fails if a few bytes can make their reader take any amount of memory, or read what is not there.
TEST(KeyListTest, ReadersTakeNoMoreThanTheyAllow) {
  const std::vector<std::string> keys(20, std::string(1000, 'k'));
  const std::string bytes = Written(keys, /*sharing=*/true);
  std::vector<std::string> read;
  EXPECT_TRUE(Read(bytes, keys.size(), /*sharing=*/true, 20'000, &read));
  EXPECT_FALSE(Read(bytes, keys.size(), /*sharing=*/true, 19'999, &read));
  std::string beyond = Written({std::string(400, 'a')}, /*sharing=*/true);
  PutVarint32(&beyond, 401);  // So many bytes of a key of 400.
  PutLengthPrefixed(&beyond, Slice());
  EXPECT_FALSE(Read(beyond, 2, /*sharing=*/true, kAny, &read));
}

}  // namespace
}  // namespace dlsm
