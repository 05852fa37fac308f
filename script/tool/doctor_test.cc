#include "script/tool/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "memory_node/node_server.h"
#include "script/tool/host_checks.h"
#include "script/tool/rdma_checks.h"
#include "util/fabric/verbs/verbs_cm_library.h"
#include "util/log.h"
#include "util/rpc/auth/access_list.h"

namespace dlsm::tool {
namespace {

using testing::HasSubstr;

// A host as proc and sys show it.
class FakeHost {
 public:
  FakeHost() {
    std::string folder = testing::TempDir() + "doctor_testXXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    root_ = folder + "/";
  }
  ~FakeHost() { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& line) {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << line << "\n";
  }
  // A RoCE card's port as mlx5 shows it.
  void AddPort(const std::string& device, const std::string& state, bool with_address) {
    const std::string port = "sys/class/infiniband/" + device + "/ports/1/";
    Write("sys/class/infiniband/" + device + "/device/numa_node", "1");
    Write(port + "link_layer", "Ethernet");
    Write(port + "state", state);
    Write(port + "phys_state", "5: LinkUp");
    Write(port + "rate", "100 Gb/sec (4X EDR)");
    Write(port + "gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
    Write(port + "gid_attrs/types/0", "IB/RoCE v1");
    Write(port + "gid_attrs/ndevs/0", "eth7");
    Write(port + "gids/1", "0000:0000:0000:0000:0000:0000:0000:0000");
    if (with_address) {
      Write(port + "gids/1", "0000:0000:0000:0000:0000:ffff:0a4d:0001");
      Write(port + "gid_attrs/types/1", "RoCE v2");
      Write(port + "gid_attrs/ndevs/1", "eth7");
    }
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

std::string Printed(const Findings& findings) {
  std::ostringstream out;
  PrintFindings(findings, &out);
  return out.str();
}

TEST(DoctorTest, LockedMemoryIsJudgedByItsLimit) {
  EXPECT_EQ(CheckLockedMemory({RLIM_INFINITY, RLIM_INFINITY}).verdict, Verdict::kGood);
  const Finding limited = CheckLockedMemory({65536, 65536});
  EXPECT_EQ(limited.verdict, Verdict::kNote);
  EXPECT_THAT(limited.detail, HasSubstr("64.0 KB"));
  EXPECT_THAT(limited.remedy, HasSubstr("limits.conf"));
}

TEST(DoctorTest, HugePagesAreJudgedByTheChosenWord) {
  FakeHost host;
  EXPECT_EQ(CheckHugePages(host.root()).verdict, Verdict::kNote);
  host.Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  EXPECT_EQ(CheckHugePages(host.root()).verdict, Verdict::kGood);
  host.Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  EXPECT_EQ(CheckHugePages(host.root()).verdict, Verdict::kNote);
  host.Write("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never]");
  EXPECT_EQ(CheckSharedMemoryHugePages(host.root()).verdict, Verdict::kNote);
  host.Write("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,huge=advise 0 0");
  EXPECT_EQ(CheckSharedMemoryHugePages(host.root()).verdict, Verdict::kGood);
}

// Fails if RDMA that is asked for, and cannot be had, is not said to be bad.
TEST(DoctorTest, RdmaIsBadOnlyIfItIsNeeded) {
  EXPECT_EQ(CheckRdmaDevice("no_such_device", false).verdict, Verdict::kNote);
  EXPECT_EQ(CheckRdmaDevice("no_such_device", true).verdict, Verdict::kBad);
  const Finding malformed = CheckRdmaDevice("rxe0,mtu=many", true);
  EXPECT_EQ(malformed.verdict, Verdict::kBad);
  EXPECT_THAT(malformed.detail, HasSubstr("mtu"));
}

// Fails if any of what makes a port useless is not noticed or has no remedy.
TEST(DoctorTest, PortsAreJudgedByStateAddressAndMtu) {
  const FakeHost none;
  EXPECT_THAT(Printed(CheckRdmaPorts(none.root())), HasSubstr("rdma link add"));

  FakeHost host;
  host.AddPort("mlx5_0", "4: ACTIVE", /*with_address=*/true);
  host.Write("sys/class/net/eth7/mtu", "9000");
  const std::string good = Printed(CheckRdmaPorts(host.root()));
  EXPECT_THAT(good, testing::Not(HasSubstr("note")));
  EXPECT_THAT(good, HasSubstr("--numa_node=1"));
  EXPECT_THAT(good, HasSubstr("2 GIDs, 1 of RoCE v2"));

  host.Write("sys/class/net/eth7/mtu", "1500");
  EXPECT_THAT(Printed(CheckRdmaPorts(host.root())), HasSubstr("mtu 9000"));

  FakeHost without_address;
  without_address.AddPort("mlx5_0", "4: ACTIVE", /*with_address=*/false);
  EXPECT_THAT(Printed(CheckRdmaPorts(without_address.root())), HasSubstr("IP address"));

  FakeHost down;
  down.AddPort("mlx5_0", "1: DOWN", /*with_address=*/true);
  EXPECT_THAT(Printed(CheckRdmaPorts(down.root())), HasSubstr("ip link set"));
}

// Fails if an iWARP port is taken for a RoCE one: then it is told to get what it cannot have.
TEST(DoctorTest, IwarpPortsNeedNoGid) {
  FakeHost host;
  host.AddPort("cxgb4_0", "4: ACTIVE", /*with_address=*/false);
  EXPECT_THAT(Printed(CheckRdmaPorts(host.root())), HasSubstr("RoCE over Ethernet, ACTIVE"));
  host.Write("sys/class/infiniband/cxgb4_0/node_type", "4: RNIC");
  const std::string printed = Printed(CheckRdmaPorts(host.root()));
  EXPECT_THAT(printed, HasSubstr("iWARP over Ethernet, ACTIVE"));
  EXPECT_THAT(printed, testing::Not(HasSubstr("RoCE")));
  EXPECT_THAT(printed, testing::Not(HasSubstr("note")));
}

// Fails if nobody is told what the connection manager lacks, or that is said to be bad where
// nothing needs it.
TEST(DoctorTest, TheConnectionManagerIsLookedFor) {
  FakeHost host;
  host.AddPort("mlx5_0", "4: ACTIVE", /*with_address=*/true);
  const Finding without = CheckConnectionManager(host.root(), "no_such_device", true);
  EXPECT_EQ(without.verdict, Verdict::kNote);
  EXPECT_THAT(Printed({without}), HasSubstr("connection=cm"));
  host.Write("dev/infiniband/rdma_cm", "");
  const Finding with = CheckConnectionManager(host.root(), "no_such_device", true);
  const VerbsCmLibrary* library = nullptr;
  const bool installed = VerbsCmLibrary::Get(&library).ok();
  EXPECT_EQ(with.verdict, installed ? Verdict::kGood : Verdict::kNote);
  EXPECT_THAT(with.detail, HasSubstr("librdmacm"));
}

class DoctorNodeTest : public testing::Test {
 protected:
  explicit DoctorNodeTest(std::shared_ptr<AccessList> access = nullptr) {
    NodeServerOptions options;
    options.bytes = uint64_t{32} << 20;
    options.secret = "a secret that both sides know";
    options.fabric = FabricKind::kTcp;
    options.access = std::move(access);
    const Status status = NodeServer::Start(options, &server_);
    EXPECT_TRUE(status.ok()) << status.ToString();
    options_.memory_nodes = {{"127.0.0.1", server_->port()}};
    options_.credentials = options.secret;
  }
  Findings OfTheNode() {
    const Findings all = RunDoctor(options_);
    // What is found of this host depends on it.
    Findings of_node;
    bool begun = false;
    for (const Finding& finding : all) {
      begun = begun || finding.subject.find("127.0.0.1") == 0;
      if (begun) of_node.push_back(finding);
    }
    return of_node;
  }

  std::unique_ptr<NodeServer> server_;
  DoctorOptions options_;
};

TEST_F(DoctorNodeTest, MeasuresTheFabricsThatAreServed) {
  const Findings findings = OfTheNode();
  EXPECT_FALSE(AnyBad(findings)) << Printed(findings);
  EXPECT_THAT(Printed(findings), HasSubstr("secret agreed"));
  EXPECT_THAT(Printed(findings), HasSubstr("of 32.0 MB used"));
  EXPECT_THAT(Printed(findings), HasSubstr("fabric tcp"));
  EXPECT_THAT(Printed(findings), HasSubstr("512 bytes in"));
  EXPECT_THAT(Printed(findings), HasSubstr("does not serve the shm fabric"));
}

TEST_F(DoctorNodeTest, AFabricThatWasAskedForMustWork) {
  options_.fabric = "shm";
  EXPECT_TRUE(AnyBad(OfTheNode()));
  options_.fabric = "tcp";
  EXPECT_FALSE(AnyBad(OfTheNode()));
}

// What is logged, the memory node's warnings among it, goes here as well.
class LogCopy {
 public:
  LogCopy() { Log().sink().sinks().push_back(sink_); }
  ~LogCopy() { std::erase(Log().sink().sinks(), sink_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  const spdlog::sink_ptr sink_ = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
};

class DoctorOfAClientTest : public DoctorNodeTest {
 protected:
  DoctorOfAClientTest() : DoctorNodeTest(List()) {
    options_.fabric = "tcp";
    options_.credentials = "the-secret-of-alice";
    options_.credentials.access_name = "alice";
  }
  ~DoctorOfAClientTest() override { server_.reset(); }  // It logs to the copy.

  static std::shared_ptr<AccessList> List() {
    auto list = std::make_shared<AccessList>();
    EXPECT_TRUE(AccessList::Parse("alice the-secret-of-alice own=a\n", "list", list.get()).ok());
    return list;
  }
  LogCopy log_;
};

// Fails if the doctor reads what a client of the access list may not: that is bad to it, and looks
// like an attack to the memory node.
TEST_F(DoctorOfAClientTest, WhatItMayNotReadIsNotRead) {
  const Findings findings = OfTheNode();
  EXPECT_FALSE(AnyBad(findings)) << Printed(findings);
  EXPECT_THAT(Printed(findings), HasSubstr("not measured"));
  server_.reset();
  EXPECT_THAT(log_.text(), testing::Not(HasSubstr("data connection")));
}

TEST_F(DoctorNodeTest, WrongSecretsAndAbsentNodesAreNamed) {
  options_.credentials = "another";
  EXPECT_THAT(Printed(OfTheNode()), HasSubstr("secret"));
  EXPECT_TRUE(AnyBad(OfTheNode()));
  server_.reset();
  const Findings absent = OfTheNode();
  EXPECT_TRUE(AnyBad(absent));
  EXPECT_THAT(Printed(absent), HasSubstr("-> start it there"));
}

}  // namespace
}  // namespace dlsm::tool
