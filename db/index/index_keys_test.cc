// The order of index entries is that of index keys, then of records' keys, whatever their bytes.
#include "db/index/index_keys.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "util/status_testing.h"

namespace dlsm {
namespace {

TEST(IndexKeys, OrderOfEntriesIsThatOfTheirParts) {
  const std::string bytes(
      "\0\x01\x02"
      "a\xfe\xff",
      6);
  std::vector<std::string> texts = {""};
  for (const char first : bytes) {
    texts.emplace_back(1, first);
    for (const char second : bytes) texts.push_back({first, second});
  }
  const std::string entries = IndexEntriesPrefix("p", "name");
  for (const std::string& a : texts) {
    for (const std::string& b : texts) {
      const std::string entry = IndexEntryKey(entries, a, b);
      std::string index_key;
      Slice key;
      ASSERT_TRUE(DecodeIndexEntry(entries, entry, &index_key, &key));
      EXPECT_EQ(index_key, a);
      EXPECT_EQ(key.ToString(), b);
      const std::string other = IndexEntryKey(entries, b, a);
      EXPECT_EQ(entry < other, a < b) << testing::PrintToString(a) << testing::PrintToString(b);
    }
  }
}

TEST(IndexKeys, NoIndexHasEntriesOfAnother) {
  const std::string one = IndexEntriesPrefix("p", "a");
  const std::string other = IndexEntriesPrefix("p", std::string("a\0", 2));
  EXPECT_NE(one.substr(0, other.size()), other);
  EXPECT_NE(other.substr(0, one.size()), one);
  std::string index_key;
  Slice key;
  EXPECT_FALSE(DecodeIndexEntry(one, IndexEntryKey(other, "k", "r"), &index_key, &key));
  for (const std::string& damaged :
       {one, one + "k", one + std::string("k\0", 2), one + std::string("k\0x", 3)}) {
    EXPECT_FALSE(DecodeIndexEntry(one, damaged, &index_key, &key));
  }
}

TEST(IndexKeys, TheKeyBehindAPrefix) {
  EXPECT_EQ(KeyBehind("a"), "b");
  EXPECT_EQ(KeyBehind("a\xff\xff"), "b");
  EXPECT_EQ(KeyBehind("\xff"), "");
}

TEST(IndexKeys, DamagedStatesAreFound) {
  IndexState state;
  state.upkeep = IndexUpkeep::kLazy;
  state.ready = true;
  const std::string bytes = state.Encode();
  IndexState read;
  ASSERT_OK(read.Decode(bytes));
  EXPECT_EQ(read.upkeep, IndexUpkeep::kLazy);
  EXPECT_TRUE(read.ready);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_TRUE(read.Decode(damaged).IsCorruption());
    EXPECT_TRUE(read.Decode(bytes.substr(0, at)).IsCorruption());
  }
}

}  // namespace
}  // namespace dlsm
