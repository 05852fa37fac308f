// The filter of a table: what is around what its policy makes.
#include "table/table_filter.h"

#include <gtest/gtest.h>

#include <string>

#include "util/bloom_filter.h"
#include "util/hash.h"
#include "util/hex_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// The bytes were computed from the layouts in table_filter.h and bloom_filter.h by another program.
// Fails if they change, or the policy's name does: the filters of tables that were written before
// would be damaged, or not be consulted.
TEST(TableFilterTest, BytesArePartOfTheFormats) {
  const BloomFilterPolicy policy(10);
  TableFilterBuilder builder(&policy);
  for (const char* const key : {"one", "two", "three"}) builder.AddKey(key, Hash64(key));
  std::string bytes;
  builder.Finish(&bytes);
  EXPECT_EQ(Hex(bytes),
            "90000000020000020000000000000100004000200000001000040000000004000000000000004000"
            "000200000000000000008010000000000000000010000041066b96c45bd3a6a8f6");
  TableFilter filter;
  ASSERT_OK(filter.Open(&policy, bytes));
  EXPECT_TRUE(filter.MayMatch("two", Hash64("two")));
  EXPECT_FALSE(filter.MayMatch("four", Hash64("four")));
}

}  // namespace
}  // namespace dlsm
