// Sessions with a memory node that is another process, and stands still for a while.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "db/test/test_database_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// What the process is told by.
constexpr char kFolderVariable[] = "DLSM_SESSION_END_TEST_FOLDER";
constexpr auto kShortLease = std::chrono::milliseconds(1500);

// Not a test: the memory node that is stopped. It ends when its folder has gone, or nobody wants
// it.
TEST(SessionEndNodeProcess, DISABLED_ServesUntilItsFolderIsGone) {
  const char* const folder = std::getenv(kFolderVariable);
  if (folder == nullptr) GTEST_SKIP() << "only for the test below";
  const std::filesystem::path path(folder);
  TestNode::Config config;
  config.bytes = uint64_t{64} << 20;
  config.fabric = FabricKind::kTcp;
  config.lease = kShortLease;
  const TestNode node(config);
  std::ofstream(path / "new") << node.address();
  std::filesystem::rename(path / "new", path / "address");
  const auto until = Clock::now() + std::chrono::minutes(2);
  while (std::filesystem::exists(path) && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A memory node that stands still for longer than the lease (it is stopped, or paged out) finds the
// heartbeats of that time unread. Fails if it ends the sessions all the same.
TEST(SessionEndNodeProcess, SessionsOutliveAStandstillOfTheMemoryNode) {
  const std::filesystem::path folder =
      testing::TempDir() + "dlsm_session_end_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  setenv(kFolderVariable, folder.c_str(), /*overwrite=*/1);
  char program[] = "/proc/self/exe";
  char filter[] = "--gtest_filter=SessionEndNodeProcess.DISABLED_*";
  char disabled[] = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program, filter, disabled, nullptr};
  pid_t node = 0;
  ASSERT_EQ(posix_spawn(&node, program, nullptr, nullptr, arguments, environ), 0);
  const auto until = Clock::now() + seconds(30);
  while (!std::filesystem::exists(folder / "address") && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Options options = TinyOptions();
  options.fabric = "tcp";
  std::getline(std::ifstream(folder / "address"), options.memory_nodes);
  std::unique_ptr<DB> db = OpenOrDie(options, "db");
  EXPECT_OK(db->Put(WriteOptions(), "before", "v"));
  EXPECT_EQ(kill(node, SIGSTOP), 0);
  std::this_thread::sleep_for(2 * kShortLease);
  EXPECT_EQ(kill(node, SIGCONT), 0);
  std::this_thread::sleep_for(kShortLease);  // Until the heartbeats have been read.
  EXPECT_OK(db->Put(WriteOptions(), "after", "v"));
  EXPECT_OK(db->Flush(FlushOptions()));
  EXPECT_EQ(GetOr(db.get(), "before"), "v");
  EXPECT_OK(db->Close());
  std::filesystem::remove_all(folder);
  EXPECT_EQ(waitpid(node, nullptr, 0), node);
}

}  // namespace
}  // namespace dlsm
