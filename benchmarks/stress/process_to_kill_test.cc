#include "benchmarks/stress/process_to_kill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "util/status_testing.h"

namespace dlsm::stress {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

ProcessToKill Shell(const std::string& script, milliseconds life) {
  ProcessToKill process;
  process.program = "/bin/sh";
  process.arguments = {"sh", "-c", script};
  process.life = life;
  process.patience = milliseconds(100);
  return process;
}

TEST(ProcessToKillTest, WhoLivesIsKilled) {
  ProcessToKill process = Shell("exec sleep 1000", milliseconds(20));
  EXPECT_OK(StartAndKill(process));
  uint64_t done = 0;
  process.progress = [&] { return ++done; };
  EXPECT_OK(StartAndKill(process));
}

TEST(ProcessToKillTest, WhoEndsByItselfIsNoticed) {
  const Status ended = StartAndKill(Shell("exit 5", milliseconds(60'000)));
  EXPECT_TRUE(ended.IsCorruption());
  EXPECT_THAT(ended.ToString(), HasSubstr("exit code 5"));
  EXPECT_TRUE(StartAndKill(Shell("exit 0", milliseconds(60'000))).IsCorruption());
  const Status crashed = StartAndKill(Shell("kill -TERM $$", milliseconds(60'000)));
  EXPECT_TRUE(crashed.IsCorruption());
  EXPECT_THAT(crashed.ToString(), HasSubstr("signal 15"));
}

// Fails if a process that has crashed in the last moment counts as one that was killed.
TEST(ProcessToKillTest, ACrashBeforeTheKillIsNoticed) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ProcessToKill process = Shell("sleep 0.1; kill -TERM $$", milliseconds(0));
  uint64_t calls = 0;
  process.progress = [&]() -> uint64_t {
    if (++calls == 2) {
      // The other end is the process' until it has died.
      close(ends[1]);
      char byte;
      EXPECT_EQ(read(ends[0], &byte, 1), 0);
    }
    return calls;
  };
  const Status crashed = StartAndKill(process);
  EXPECT_TRUE(crashed.IsCorruption()) << calls;
  EXPECT_THAT(crashed.ToString(), HasSubstr("signal 15"));
  close(ends[0]);
}

// Fails if a process that hangs is killed as if it were at work.
TEST(ProcessToKillTest, WhoHangsIsNoticed) {
  ProcessToKill process = Shell("exec sleep 1000", milliseconds(20));
  process.progress = [] { return uint64_t{7}; };
  const Status hung = StartAndKill(process);
  EXPECT_TRUE(hung.IsCorruption());
  EXPECT_THAT(hung.ToString(), HasSubstr("no progress for 100 ms, after 7 operations"));
}

}  // namespace
}  // namespace dlsm::stress
