#include "util/log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "util/child_testing.h"
#include "util/rounds_testing.h"

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

// Fails if a message to a pipe that nobody reads ends the process, if the signal that the system
// sends for it is kept for later, or if one of the application's is lost.
TEST(LogTest, NobodyNeedReadStandardError) {
  InChild([] {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[0]);
    Log().Critical("that nobody reads");
    sigset_t signals;
    sigpending(&signals);
    EXPECT_EQ(sigismember(&signals, SIGPIPE), 0);
    pthread_sigmask(SIG_BLOCK, nullptr, &signals);
    EXPECT_EQ(sigismember(&signals, SIGPIPE), 0);

    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    raise(SIGPIPE);
    Log().Critical("that nobody reads");
    sigpending(&signals);
    EXPECT_EQ(sigismember(&signals, SIGPIPE), 1);

    close(STDERR_FILENO);
    Log().Critical("that nobody can read");
  });
}

// Fails if a child cannot log because a thread of its parent logged when it was made.
TEST(LogTest, AChildLogsWhateverItsParentDid) {
  if (kUnderSanitizer) GTEST_SKIP() << "the other thread may hold a lock of the sanitizer's";
  testing::internal::CaptureStderr();
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    while (!stop.load()) Log().Error("of the parent");
  });
  for (int i = 0; i < 20; ++i) {
    InChild([] { Log().Error("of the child"); });
  }
  stop.store(true);
  other.join();
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("[error] of the child\n"), std::string::npos);
}

}  // namespace
}  // namespace dlsm
