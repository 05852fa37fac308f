#include "util/log.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <string>

namespace dlsm {
namespace {

// Fails if the library logs under another name than the one that applications configure, or makes a
// second logger.
TEST(LogTest, IsOneLoggerNamedDlsm) {
  EXPECT_EQ(Log().sink().name(), "dlsm");
  EXPECT_EQ(&Log(), &Log());
  EXPECT_TRUE(Log().sink().should_log(spdlog::level::err));
}

// Fails if a name that a peer has chosen can forge a line, or command a terminal.
TEST(LogTest, ControlCharactersDoNotPass) {
  testing::internal::CaptureStderr();
  Log().Error("database '{}'", "a\n[critical] forged\x1b[2J");
  Log().sink().flush();
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("a?[critical] forged?[2J'"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
}

// Fails if a message gets another severity than its call has, or one below the level that is set is
// written, or an argument is left out.
TEST(LogTest, MessagesHaveTheSeverityOfTheirCall) {
  const spdlog::level::level_enum level = Log().sink().level();  // DLSM_LOG may have set it.
  Log().sink().set_level(spdlog::level::warn);
  testing::internal::CaptureStderr();
  Log().Debug("a{}", 1);
  Log().Info("b{}", 2);
  Log().Warn("c{}", 3);
  Log().Error("d{}", 4);
  Log().Critical("e{}", 5);
  Log().sink().flush();
  Log().sink().set_level(level);
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines.find("a1"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("b2"), std::string::npos) << lines;
  EXPECT_NE(lines.find("[warning] c3\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find("[error] d4\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find("[critical] e5\n"), std::string::npos) << lines;
}

}  // namespace
}  // namespace dlsm
