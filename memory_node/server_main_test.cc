// The Server program, as its users start it.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "memory_node/memory_node_testing.h"
#include "memory_node/server_process_testing.h"
#include "util/numa.h"
#include "util/rpc/auth/socket.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

class ServerMainTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access(ServerPath().c_str(), X_OK) != 0) GTEST_SKIP() << ServerPath() << " is not built";
  }

  static void ExpectFailure(const std::vector<std::string>& arguments, int code,
                            const std::string& message) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    ServerProcess server(arguments);
    const std::string output = server.Rest();
    EXPECT_THAT(output, HasSubstr(message));
    EXPECT_EQ(server.ExitCode(), code) << output;
  }
};

// Fails if a server does not say that it is ready, does not serve, or does not end cleanly.
TEST_F(ServerMainTest, ServesUntilItIsToldToStop) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServerProcess process({"0", "0.0625", "3", "--merge_threads=1"});
    const std::string ready = process.LineWith("ready");
    EXPECT_THAT(ready,
                testing::MatchesRegex("dLSM memory node 3 ready on 127.0.0.1:[0-9]+: 64.0 MB "
                                      "shm \\(.*\\), 1 merge threads"));
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kShm;
    std::unique_ptr<NodeConnection> connection;
    ASSERT_OK(ConnectNode({"127.0.0.1", PortOf(ready)}, options, TestDeadline(), &connection));
    const std::string shm_path = connection->peer().regions[0].shm_path;
    EXPECT_EQ(access(shm_path.c_str(), F_OK), 0);
    TestClient client(&connection->rpc());
    ASSERT_OK(client.Open("a"));
    EXPECT_EQ(client.Grant(4096).node, NodeId{3});
    process.Signal(signal);
    EXPECT_THAT(process.Rest(), HasSubstr("memory node 3 stopped"));
    EXPECT_EQ(process.ExitCode(), 0);
    EXPECT_NE(access(shm_path.c_str(), F_OK), 0) << "its memory file is left behind";
  }
}

// Fails if the memory is not there when the Server is ready, or is though nobody wants that.
TEST_F(ServerMainTest, TakesItsMemoryAtTheStart) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  for (const bool all : {true, false}) {
    ServerProcess process({"0", "0.0625", "3", all ? "--take_all_memory" : "--notake_all_memory"});
    const std::string ready = process.LineWith("ready");
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kShm;
    std::unique_ptr<NodeConnection> connection;
    ASSERT_OK(ConnectNode({"127.0.0.1", PortOf(ready)}, options, TestDeadline(), &connection));
    struct stat attributes {};
    ASSERT_EQ(stat(connection->peer().regions[0].shm_path.c_str(), &attributes), 0);
    const int64_t taken = int64_t{attributes.st_blocks} * 512;  // Its unit, see stat(2).
    if (all) {
      EXPECT_TRUE(taken >= kBytes || ready.find("the rest when it is written") != std::string::npos)
          << taken << " bytes; " << ready;
    } else {
      EXPECT_LT(taken, kBytes / 2);
    }
  }
}

// Fails if the arguments cannot be given as flags, in a file of flags too, as a service gives them.
TEST_F(ServerMainTest, TakesItsArgumentsFromAFileOfFlags) {
  const std::string path = testing::TempDir() + fmt::format("/server-{}.flags", getpid());
  std::ofstream(path) << "# As installed.\n--port=0\n--memory_gb=0.0625\n--node_id=7\n";
  ServerProcess process({"--flagfile=" + path});
  EXPECT_THAT(process.LineWith("ready"), HasSubstr("dLSM memory node 7 ready on 127.0.0.1:"));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.ExitCode(), 0);
  std::remove(path.c_str());
  ExpectFailure({"--memory_gb=1", "0", "1", "1"}, 2, "arguments besides --memory_gb");
  ExpectFailure({"--memory_gb=1", "--port=-1"}, 2, "'-1' is no port");
  ExpectFailure({"--memory_gb=none"}, 2, "MEMORYSIZE 'none'");
}

TEST_F(ServerMainTest, PortInUse) {
  ServerProcess first({"0", "0.01", "1"});
  const std::string port = std::to_string(PortOf(first.LineWith("ready")));
  ExpectFailure({port, "0.01", "2"}, 1, "port " + port + " of 127.0.0.1 is in use");
  ExpectFailure({"0", "0.01", "2", "--metrics_port=" + port}, 1, "cannot serve metrics");
}

// Fails if an IPv6 address runs into the port behind it, or if whose metrics cannot be served there
// is to look at the port alone.
TEST_F(ServerMainTest, Ipv6AddressesStandInBrackets) {
  Socket taken;
  uint16_t port = 0;
  if (!ListenSocket("::1", 0, &taken, &port).ok()) GTEST_SKIP() << "there is no IPv6 here";
  ServerProcess serving({"0", "0.01", "1", "--bind=::1", "--fabric=tcp"});
  EXPECT_THAT(serving.LineWith("ready"), HasSubstr(" ready on [::1]:"));
  ServerProcess refused(
      {"0", "0.01", "2", "--bind=::1", "--fabric=tcp", fmt::format("--metrics_port={}", port)});
  EXPECT_THAT(refused.Rest(),
              testing::AllOf(HasSubstr(fmt::format("cannot serve metrics on [::1]:{}:", port)),
                             HasSubstr("without IPv6")));
  EXPECT_EQ(refused.ExitCode(), 1);
}

TEST_F(ServerMainTest, WrongArguments) {
  ExpectFailure({}, 2, "three arguments are needed");
  ExpectFailure({"1", "1"}, 2, "usage: Server TCPIPPORT MEMORYSIZE NODEID");
  ExpectFailure({"70000", "1", "1"}, 2, "'70000' is no port");
  ExpectFailure({"12x", "1", "1"}, 2, "'12x' is no port");
  ExpectFailure({"0", "zero", "1"}, 2, "MEMORYSIZE 'zero'");
  ExpectFailure({"0", "0", "1"}, 2, "MEMORYSIZE '0'");
  ExpectFailure({"0", "nan", "1"}, 2, "MEMORYSIZE 'nan'");
  // Who gives bytes, or too many digits, is told that it is too much.
  ExpectFailure({"0", "8589934592", "1"}, 2, "GB: at least a page, at most 1048576");
  ExpectFailure({"0", "1", "one"}, 2, "NODEID 'one'");
  ExpectFailure({"0", "1", "1", "--fabric=pigeon"}, 2, "--fabric=pigeon is not known");
  ExpectFailure({"0", "1", "1", "--merge_threads=-2"}, 2, "--merge_threads=-2");
  ExpectFailure({"0", "1", "1", "--merge_scheduler=lazy"}, 2, "spring_and_gear");
  ExpectFailure({"0", "1", "1", "--merge_bandwidth_mb=-1"}, 2, "--merge_bandwidth_mb=-1");
  ExpectFailure({"0", "1", "1", "--fabric_threads=-1"}, 2, "--fabric_threads=-1");
  ExpectFailure({"0", "1", "1", "--tcp_poll_us=-1"}, 2, "--tcp_poll_us=-1");
  ExpectFailure({"0", "1", "1", "--merge_threads=many"}, 1, "merge_threads");
}

// Fails if a mistyped flag is passed over, taken for the value of another one, or leaves its user
// without a hint; or if what is no mistake is refused.
TEST_F(ServerMainTest, UnknownFlags) {
  const std::string remedy = "see Server --help";
  for (const char* const flag : {"--nope", "-nope", "--nope=1", "--no-pe", "--nofabric"}) {
    ExpectFailure({"0", "1", "1", flag}, 2, remedy);
  }
  ExpectFailure({"--nope", "--help"}, 2, "there is no flag --nope");
  ExpectFailure({"--fabric", "--nope", "0", "1", "1"}, 2, "--fabric=--nope is not known");
  ExpectFailure({"--nohuge_pages", "--merge_threads", "-2", "0", "1", "1"}, 2,
                "--merge_threads=-2");
  ExpectFailure({"--undefok=nope", "--nope=1", "0", "1"}, 2, "three arguments are needed");
  ExpectFailure({"0", "1", "--", "--nope"}, 2, "TCPIPPORT '--nope'");
}

TEST_F(ServerMainTest, TooMuchMemory) {
  ExpectFailure({"0", "1000000", "1"}, 1, "not enough memory: 976.6 TB asked for");
}

TEST_F(ServerMainTest, SecretFileProblems) {
  ExpectFailure({"0", "0.01", "1", "--secret_file=/no/such/file"}, 1, "/no/such/file");
  ExpectFailure({"0", "0.01", "1", "--bind=0.0.0.0"}, 1, "--secret_file");
  const std::string path = testing::TempDir() + fmt::format("/dlsm-secret-{}", getpid());
  std::ofstream(path) << "short\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ExpectFailure({"0", "0.01", "1", "--secret_file=" + path}, 1, "5 characters");
  std::ofstream(path) << "a secret for all of us\n";
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  ExpectFailure({"0", "0.01", "1", "--secret_file=" + path}, 1, path);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ServerProcess process({"0", "0.01", "1", "--secret_file=" + path});
  const NodeAddress address{"127.0.0.1", PortOf(process.LineWith("ready"))};
  NodeConnectionOptions options;
  options.fabric.kind = FabricKind::kTcp;
  std::unique_ptr<NodeConnection> connection;
  EXPECT_TRUE(ConnectNode(address, options, TestDeadline(), &connection).IsInvalidArgument());
  options.credentials.secret = "a secret for all of us";
  EXPECT_OK(ConnectNode(address, options, TestDeadline(), &connection));
  unlink(path.c_str());
}

// Fails if a flag of the security of connections is not obeyed, or lets a mistake pass.
TEST_F(ServerMainTest, TlsAndAccessFiles) {
  ExpectFailure({"0", "0.01", "1", "--tls"}, 1, "--secret_file");
  ExpectFailure({"0", "0.01", "1", "--tls_certificate_file=/no/such", "--tls_key_file=/no/such"}, 1,
                "/no/such");
  const std::string path = testing::TempDir() + fmt::format("/dlsm-access-{}", getpid());
  std::ofstream(path) << "alice short own=*\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ExpectFailure({"0", "0.01", "1", "--access_file=" + path}, 1, "5 characters");
  std::ofstream(path) << "alice the-secret-of-alice own=*\n";
  ExpectFailure({"0", "0.01", "1", "--access_file=" + path}, 1, "--secret_file");
  const std::string secret = path + "-secret";
  std::ofstream(secret) << "a secret for all of us\n";
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  ServerProcess process(
      {"0", "0.01", "1", "--tls", "--access_file=" + path, "--secret_file=" + secret});
  const NodeAddress address{"127.0.0.1", PortOf(process.LineWith("ready"))};
  NodeConnectionOptions options;
  options.fabric.kind = FabricKind::kTcp;
  options.credentials = Credentials("the-secret-of-alice");
  options.credentials.access_name = "alice";
  std::unique_ptr<NodeConnection> connection;
  EXPECT_TRUE(ConnectNode(address, options, TestDeadline(), &connection).IsInvalidArgument());
  TlsConfig tls;
  tls.enabled = true;
  ASSERT_OK(UseTls(tls, &options.credentials));
  EXPECT_OK(ConnectNode(address, options, TestDeadline(), &connection));
  unlink(path.c_str());
  unlink(secret.c_str());
}

// Fails if a list that is wrong takes the place of the one that counts, if nobody is told where it
// is wrong, or if a right one is not obeyed.
TEST_F(ServerMainTest, ReadsTheAccessFileAgain) {
  const std::string path = testing::TempDir() + fmt::format("/dlsm-access-again-{}", getpid());
  const std::string secret = path + "-secret";
  for (const std::string& file : {path, secret}) {
    std::ofstream(file) << "alice the-secret-of-alice own=*\n";
    ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  }
  ServerProcess process({"0", "0.01", "1", "--access_file=" + path, "--secret_file=" + secret});
  const NodeAddress address{"127.0.0.1", PortOf(process.LineWith("ready"))};
  const auto connect = [&](const std::string& name) {
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kTcp;
    options.credentials = Credentials("the-secret-of-" + name);
    options.credentials.access_name = name;
    std::unique_ptr<NodeConnection> connection;
    return ConnectNode(address, options, TestDeadline(), &connection);
  };
  EXPECT_OK(connect("alice"));
  EXPECT_TRUE(connect("robert").IsInvalidArgument());

  std::ofstream(path) << "# our clients\nrobert the-secret-of-robert own=*\nalice short\n";
  process.Signal(SIGHUP);
  const std::string wrong = process.LineWith("access file");
  EXPECT_THAT(wrong, HasSubstr(path + ":3: "));
  EXPECT_THAT(wrong, HasSubstr("[error]"));
  EXPECT_THAT(wrong, testing::Not(HasSubstr("the-secret")));
  EXPECT_OK(connect("alice"));
  EXPECT_TRUE(connect("robert").IsInvalidArgument());

  std::ofstream(path) << "robert the-secret-of-robert own=*\n";
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  process.Signal(SIGHUP);
  EXPECT_THAT(process.LineWith("access file"), HasSubstr("chmod 600"));
  EXPECT_OK(connect("alice"));

  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  process.Signal(SIGHUP);
  EXPECT_THAT(process.LineWith("access file"), HasSubstr("read again: 1 clients"));
  EXPECT_OK(connect("robert"));
  EXPECT_TRUE(connect("alice").IsInvalidArgument());
  process.Signal(SIGTERM);
  EXPECT_THAT(process.Rest(), HasSubstr("memory node 1 stopped"));
  EXPECT_EQ(process.ExitCode(), 0);
  unlink(path.c_str());
  unlink(secret.c_str());
}

// Fails if the metrics are not there, or do not move.
TEST_F(ServerMainTest, TellsMetricsAndStatus) {
  // A port that was free a moment ago.
  Socket probe;
  uint16_t port = 0;
  ASSERT_OK(ListenSocket("127.0.0.1", 0, &probe, &port));
  probe.Close();
  ServerProcess process({"0", "0.01", "1", fmt::format("--metrics_port={}", port),
                         "--status_seconds=1", "--fabric=tcp"});
  const std::string ready = process.LineWith("ready");
  EXPECT_THAT(ready, HasSubstr("tcp"));
  ConnectFailure failure{};
  {
    // Somebody who does not speak dLSM.
    Socket stranger;
    ASSERT_OK(ConnectSocket("127.0.0.1", static_cast<uint16_t>(PortOf(ready)), TestDeadline(),
                            &stranger, &failure));
    ASSERT_OK(SendAll(stranger.get(), "GET / HTTP/1.0\r\n\r\n", TestDeadline()));
    char byte;
    EXPECT_FALSE(ReceiveAll(stranger.get(), &byte, 1, TestDeadline()).ok());
  }
  Socket socket;
  ASSERT_OK(ConnectSocket("127.0.0.1", port, TestDeadline(), &socket, &failure));
  ASSERT_OK(SendAll(socket.get(), "GET /metrics HTTP/1.0\r\n\r\n", TestDeadline()));
  std::string page;
  char byte;
  while (ReceiveAll(socket.get(), &byte, 1, TestDeadline()).ok()) page.push_back(byte);
  EXPECT_THAT(page, HasSubstr("dlsm_used_bytes 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_quarantined_bytes 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_rdma_port_downs_total 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_connections_refused_total 1"));
  EXPECT_THAT(page, HasSubstr("dlsm_connections_evicted_total 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_quota_refusals_total 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_full_refusals_total 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_tcp_waits_polled_total 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_tcp_connections_handed_over_total 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_rpc_calls_total{method=\"merge\"} 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_rpc_request_bytes_total{method=\"merge\"} 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_connections{kind=\"control\"} 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_connections{kind=\"data\"} 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_free_extents 1"));
  EXPECT_THAT(page, HasSubstr("dlsm_tcp_sent_bytes_total 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_merge_seconds_total 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_merge_waiting_bytes 0"));
  EXPECT_THAT(page, HasSubstr("dlsm_merge_bytes_per_second 0"));
  EXPECT_THAT(process.LineWith(" used, "), HasSubstr("0 databases, 0 open, 0 merges done"));
}

// Fails if the flag is not obeyed, or a wrong one is.
TEST_F(ServerMainTest, NumaNodes) {
  ExpectFailure({"0", "0.01", "1", "--numa_node=1023"}, 1, "1023");
  ExpectFailure({"0", "0.01", "1", "--numa_node=1024"}, 2, "--numa_node=1024 is not in -1 to 1023");
  ExpectFailure({"0", "0.01", "1", "--numa_node=-2"}, 2, "--numa_node=-2 is not in -1 to 1023");
  if (!NumaSystem::Current().Available()) GTEST_SKIP() << "this kernel has no NUMA";
  const int node = NumaSystem::Current().AllowedNodes().front();
  ServerProcess process({"0", "0.01", "1", fmt::format("--numa_node={}", node)});
  EXPECT_THAT(process.LineWith("ready"), HasSubstr(fmt::format("on NUMA node {}", node)));
}

}  // namespace
}  // namespace dlsm
