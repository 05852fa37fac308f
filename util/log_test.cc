#include "util/log.h"

#include <gtest/gtest.h>

#include <string>

namespace dlsm {
namespace {

// Fails if the library logs under another name than the one that applications configure, or makes a
// second logger.
TEST(LogTest, IsOneLoggerNamedDlsm) {
  EXPECT_EQ(Log().name(), "dlsm");
  EXPECT_EQ(&Log(), &Log());
  EXPECT_TRUE(Log().should_log(spdlog::level::err));
}

// Fails if a name that a peer has chosen can forge a line, or command a terminal.
TEST(LogTest, ControlCharactersDoNotPass) {
  testing::internal::CaptureStderr();
  Log().error("database '{}'", "a\n[critical] forged\x1b[2J");
  Log().flush();
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("a?[critical] forged?[2J'"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
}

}  // namespace
}  // namespace dlsm
