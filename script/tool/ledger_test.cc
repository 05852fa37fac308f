#include "script/tool/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlsm::tool {

namespace {

// Fails if `verify` would call a good database bad.
TEST(Ledger, LastWriteCounts) {
  Ledger ledger;
  ledger.Put("a", "1");
  ledger.Put("b", "1");
  ledger.Put("a", "2");
  ledger.Delete("b");
  ledger.Put("c", "");
  EXPECT_EQ(ledger.keys(), 2u);
  for (int round = 0; round < 2; ++round) {
    ledger.Begin();
    EXPECT_TRUE(ledger.See("a", "2").ok());
    EXPECT_TRUE(ledger.See("c", "").ok());
    EXPECT_TRUE(ledger.See("there before", "x").ok());
    EXPECT_TRUE(ledger.Finish().ok());
  }
}

// Fails if `verify` would call a bad database good.
TEST(Ledger, DifferencesAreFound) {
  Ledger ledger;
  ledger.Put("a\n", "1");
  ledger.Put("b", "1");
  ledger.Delete("c");
  ledger.Begin();
  const Status status = ledger.See("a\n", "2");
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_THAT(status.ToString(), testing::HasSubstr("key 'a\\n'"));
  EXPECT_TRUE(ledger.See("c", "").IsCorruption());
  EXPECT_TRUE(ledger.See("b", "1").ok());
  EXPECT_THAT(ledger.Finish().ToString(), testing::HasSubstr("1 of the 2 keys"));
}

}  // namespace

}  // namespace dlsm::tool
