// What a process leaves open when it ends.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "dLSM/db.h"
#include "memory_node/node_server.h"
#include "util/status_testing.h"
#include "util/temporary_file_testing.h"

namespace dlsm {
namespace {

constexpr const char* kSecret = "the secret of this cluster";
// Of the process that the test starts: where its memory node is.
constexpr const char* kMemoryNodes = "DLSM_PROCESS_END_TEST_MEMORY_NODES";
constexpr const char* kSecretFile = "DLSM_PROCESS_END_TEST_SECRET_FILE";

// Destroyed after everything that came to be later, OpenSSL's own clean-up included.
std::unique_ptr<DB> left_open;

Options OptionsWithTls(const std::string& memory_nodes, const std::string& secret_file) {
  Options options;
  options.memory_nodes = memory_nodes;
  options.fabric = "tcp";
  options.secret_file = secret_file;
  options.tls = true;
  options.create_if_missing = true;
  return options;
}

void LeaveOpen(const char* memory_nodes) {
  ASSERT_OK(DB::Open(OptionsWithTls(memory_nodes, getenv(kSecretFile)), "a", &left_open));
  ASSERT_OK(left_open->Put(WriteOptions(), "key", "value"));
}

// Runs the test of this name in a process of its own; returns how that ended.
int RunAgain(const std::string& test) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string filter = "--gtest_filter=" + test;
  const pid_t process = fork();
  if (process == 0) {
    execl(program.c_str(), program.c_str(), filter.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  return status;
}

// Fails if a handle that is destroyed after main() has returned finds something gone that it needs
// to close, and what was written is lost.
TEST(ProcessEndTest, StaticHandlesCloseOverTls) {
  if (const char* const memory_nodes = getenv(kMemoryNodes)) return LeaveOpen(memory_nodes);
  NodeServerOptions options;
  options.bytes = uint64_t{64} << 20;
  options.huge_pages = false;
  options.fabric = FabricKind::kTcp;
  options.secret = kSecret;
  options.tls.enabled = true;
  options.node.node = NodeId{1};
  std::unique_ptr<NodeServer> server;
  ASSERT_OK(NodeServer::Start(options, &server));
  const TemporaryFile secret(kSecret);
  const std::string address = "127.0.0.1:" + std::to_string(server->port());
  ASSERT_EQ(setenv(kMemoryNodes, address.c_str(), 1), 0);
  ASSERT_EQ(setenv(kSecretFile, secret.path().c_str(), 1), 0);
  const int status = RunAgain("ProcessEndTest.StaticHandlesCloseOverTls");
  unsetenv(kMemoryNodes);
  unsetenv(kSecretFile);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(OptionsWithTls(address, secret.path()), "a", &db));
  std::string value;
  ASSERT_OK(db->Get(ReadOptions(), "key", &value));
  EXPECT_EQ(value, "value");
}

}  // namespace
}  // namespace dlsm
