#include "util/format_bytes.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

// Fails if a size is shown in a unit in which it looks like nothing, or like 1024 of the one below.
TEST(FormatBytesTest, TakesTheUnitThatFits) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(1023), "1023 bytes");
  EXPECT_EQ(FormatBytes(1024), "1.0 KB");
  EXPECT_EQ(FormatBytes((uint64_t{1} << 20) - 1), "1.0 MB");
  EXPECT_EQ(FormatBytes(uint64_t{16} << 20), "16.0 MB");
  EXPECT_EQ(FormatBytes(uint64_t{5} << 29), "2.5 GB");
  EXPECT_EQ(FormatBytes(~uint64_t{0}), "16777216.0 TB");
}

}  // namespace
}  // namespace dlsm
