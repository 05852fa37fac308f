#include "memory_node/accounts/quotas.h"

#include <gtest/gtest.h>

#include <string>

namespace dlsm {
namespace {

constexpr uint64_t kQuotaMegabyte = uint64_t{1} << 20;

// Fails if a quota can no longer be changed or taken back where there are as many as there may be,
// or if one that was taken back counts.
TEST(QuotasTest, TheLimitIsOnHowManyThereAre) {
  for (const uint64_t usual : {uint64_t{0}, 5 * kQuotaMegabyte}) {
    Quotas quotas(usual);
    for (size_t i = 0; i < Quotas::kOwnMax; ++i) {
      ASSERT_TRUE(quotas.Set("db" + std::to_string(i), kQuotaMegabyte));
    }
    EXPECT_FALSE(quotas.Set("another", kQuotaMegabyte));
    EXPECT_EQ(quotas.Of("another"), usual);
    EXPECT_TRUE(quotas.Set("db7", 2 * kQuotaMegabyte));
    EXPECT_EQ(quotas.Of("db7"), 2 * kQuotaMegabyte);
    EXPECT_TRUE(quotas.Set("db8", usual));
    EXPECT_EQ(quotas.Of("db8"), usual);
    EXPECT_TRUE(quotas.Set("another", usual == 0 ? kQuotaMegabyte : 0));
    EXPECT_EQ(quotas.Of("another"), usual == 0 ? kQuotaMegabyte : 0);
    EXPECT_FALSE(quotas.Set("db8", kQuotaMegabyte));
  }
}

// Fails if a client that has set too many is told to take one back by what the tool does not take:
// it has no quota of 0 bytes.
TEST(QuotasTest, TheDefaultIsToldAsTheToolTakesIt) {
  EXPECT_EQ(Quotas(0).DefaultForTool(), "none");
  EXPECT_EQ(Quotas(5 * kQuotaMegabyte).DefaultForTool(), "5242880");
}

}  // namespace
}  // namespace dlsm
