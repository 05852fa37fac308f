#include "db/tree/key_directory.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "util/random.h"

namespace dlsm {
namespace {

// Fails if a search by digests says other than one by the keys themselves; keys share prefixes, are
// prefixes of each other, and have equal digests.
TEST(KeyDirectoryTest, AgreesWithTheKeys) {
  Random random(5);
  const auto some_key = [&random] {
    std::string key = random.OneIn(4) ? "" : "prefix";
    if (random.OneIn(2)) key += "12345678";
    for (uint64_t i = random.Uniform(5); i > 0; --i) {
      key.push_back(static_cast<char>(random.OneIn(3) ? random.Uniform(256) : random.Uniform(2)));
    }
    return key;
  };
  for (const Comparator* order : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    const InternalKeyComparator comparator(order);
    for (int round = 0; round < 300; ++round) {
      std::set<std::string> distinct;
      const std::string common = random.OneIn(2) ? "common" : "";
      for (uint64_t i = random.Uniform(30); i > 0; --i) distinct.insert(common + some_key());
      std::vector<std::string> keys(distinct.begin(), distinct.end());
      if (order != BytewiseComparator()) std::reverse(keys.begin(), keys.end());
      const auto key_at = [&keys](size_t i) { return Slice(keys[i]); };
      KeyDirectory directory;
      directory.Build(comparator, keys.size(), key_at);
      for (int lookup = 0; lookup < 50; ++lookup) {
        const std::string key = (random.OneIn(3) ? "" : common) + some_key();
        size_t expected = 0;
        for (const std::string& each : keys) expected += order->Compare(each, key) <= 0 ? 1 : 0;
        ASSERT_EQ(directory.CountUpTo(comparator, key, keys.size(), key_at), expected);
      }
    }
  }
}

}  // namespace
}  // namespace dlsm
