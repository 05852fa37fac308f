#include "util/cluster_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "util/random.h"
#include "util/status_testing.h"
#include "util/temporary_file_testing.h"

namespace dlsm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  ClusterConfig config;
  const Status status = ParseClusterConfig("a.conf", text, &config);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_TRUE(config.compute_nodes.empty());
  return status.ToString();
}

TEST(ClusterConfigTest, FirstLineComputeSecondLineMemory) {
  ClusterConfig config;
  ASSERT_OK(ParseClusterConfig("a.conf",
                               "# A cluster.\n"
                               "\n"
                               "compute1 compute-2:5000\t# two of them\r\n"
                               "  \n"
                               "10.0.0.7 memory_1:1 [fe80::1%eth0]:65535 [::1]",
                               &config));
  EXPECT_THAT(config.compute_nodes,
              ElementsAre(HostPort{"compute1", kDefaultPort}, HostPort{"compute-2", 5000}));
  EXPECT_THAT(config.memory_nodes,
              ElementsAre(HostPort{"10.0.0.7", 19843}, HostPort{"memory_1", 1},
                          HostPort{"fe80::1%eth0", 65535}, HostPort{"::1", 19843}));
}

// Fails if what ToString writes is not what the parser reads.
TEST(ClusterConfigTest, ToStringReadsBack) {
  for (const HostPort& node : {HostPort{"host", 1}, HostPort{"::1", 19843}}) {
    HostPort parsed;
    ASSERT_OK(ParseHostPort(node.ToString(), &parsed));
    EXPECT_EQ(parsed, node);
  }
}

// Each error names file, line and cause, and says what to write instead.
TEST(ClusterConfigTest, ErrorsNameLineCauseAndRemedy) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("a.conf names no compute and memory nodes"));
  EXPECT_THAT(ErrorOf("# nothing\n\n"), HasSubstr("second one the memory nodes"));
  EXPECT_THAT(ErrorOf("compute1\n"), HasSubstr("names no memory nodes"));
  EXPECT_THAT(ErrorOf("c\nm\nx\n"), HasSubstr("a.conf:3: this line is one too many"));
  EXPECT_THAT(ErrorOf("c\n# m\nm:0\n"), HasSubstr("a.conf:3: \"m:0\" is not a node: the port"));
  EXPECT_THAT(ErrorOf("c\nm:65536\n"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(ErrorOf("c\nm:\n"), HasSubstr("the port"));
  EXPECT_THAT(ErrorOf("c\nm:12x\n"), HasSubstr("the port"));
  EXPECT_THAT(ErrorOf("c\nm:-1\n"), HasSubstr("the port"));
  EXPECT_THAT(ErrorOf("c\n:77\n"), HasSubstr("the host is missing"));
  EXPECT_THAT(ErrorOf("c\n::1\n"), HasSubstr("IPv6 as [address]:port"));
  EXPECT_THAT(ErrorOf("c\n[::1\n"), HasSubstr("the bracket is not closed"));
  EXPECT_THAT(ErrorOf("c\n[::1]x\n"), HasSubstr("the port"));
  EXPECT_THAT(ErrorOf("c\nm,n\n"), HasSubstr("a character that no host has"));
  EXPECT_THAT(ErrorOf("c\nm m:19843\n"), HasSubstr("a.conf:2: m:19843 is there twice"));
  EXPECT_THAT(ErrorOf("c\n\x01\xff\n"), HasSubstr("\"??\" is not a node"));
}

TEST(ClusterConfigTest, ListsOfMemoryNodes) {
  std::vector<HostPort> nodes;
  ASSERT_OK(ParseHostPorts(" a:1, b ,[::1]:2", &nodes));
  EXPECT_THAT(nodes,
              ElementsAre(HostPort{"a", 1}, HostPort{"b", kDefaultPort}, HostPort{"::1", 2}));
  EXPECT_TRUE(ParseHostPorts(" ,", &nodes).IsInvalidArgument());
  EXPECT_TRUE(ParseHostPorts("a,b:x", &nodes).IsInvalidArgument());
  EXPECT_EQ(nodes.size(), 3u) << "an error must leave the output alone";
}

TEST(ClusterConfigTest, ReadsFiles) {
  const TemporaryFile file("c\nm:7\n", 0644);
  ClusterConfig config;
  ASSERT_OK(ReadClusterConfig(file.path(), &config));
  EXPECT_THAT(config.memory_nodes, ElementsAre(HostPort{"m", 7}));
}

TEST(ClusterConfigTest, FilesThatCannotBeReadAreErrors) {
  ClusterConfig config;
  const Status missing = ReadClusterConfig("/nowhere/connection.conf", &config);
  EXPECT_TRUE(missing.IsInvalidArgument());
  EXPECT_THAT(missing.ToString(), HasSubstr("/nowhere/connection.conf"));
  EXPECT_THAT(missing.ToString(), HasSubstr("No such file"));
  EXPECT_THAT(ReadClusterConfig("/dev/null", &config).ToString(), HasSubstr("not a regular file"));
  const TemporaryFile large(std::string((size_t{1} << 20) + 1, '\n'));
  EXPECT_THAT(ReadClusterConfig(large.path(), &config).ToString(), HasSubstr("has more than"));
  const TemporaryFile malformed("c\nm:x\n");
  EXPECT_THAT(ReadClusterConfig(malformed.path(), &config).ToString(),
              HasSubstr(malformed.path() + ":2:"));
}

// Fails if any text makes the parser read out of bounds or not end.
TEST(ClusterConfigTest, AnyTextIsSafe) {
  static constexpr char kBytes[] = "ab:[]19#\n \t,%\xff";
  Random random(21);
  for (int i = 0; i < 50000; ++i) {
    std::string text(random.Uniform(30), '\0');
    for (char& byte : text) byte = kBytes[random.Uniform(sizeof(kBytes))];
    ClusterConfig config;
    const Status status = ParseClusterConfig("a.conf", text, &config);
    EXPECT_EQ(status.ok(), !config.memory_nodes.empty() && !config.compute_nodes.empty());
  }
}

}  // namespace
}  // namespace dlsm
