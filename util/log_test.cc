#include "util/log.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

// Fails if the library logs under another name than the one that applications configure, or makes a
// second logger.
TEST(LogTest, IsOneLoggerNamedDlsm) {
  EXPECT_EQ(Log().name(), "dlsm");
  EXPECT_EQ(&Log(), &Log());
  EXPECT_TRUE(Log().should_log(spdlog::level::err));
}

}  // namespace
}  // namespace dlsm
