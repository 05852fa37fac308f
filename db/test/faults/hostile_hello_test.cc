// A memory node that knows the secret, and tells in its hello of regions that are not as it says,
// or of another boot each time, with other contents or the same. Clients may be refused or fail;
// nothing crashes, hangs, or is read or written out of bounds.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/iterator.h"
#include "db/test/test_database_testing.h"
#include "port/thread_sanitizer.h"
#include "util/fabric/tcp/tcp_server.h"
#include "util/message_order.h"
#include "util/rpc/auth/token_table.h"
#include "util/rpc/rpc_server.h"
#include "util/secret_proof.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

struct Lie {
  const char* name;
  std::function<void(RpcServerOptions*)> tell;
};

RegionInfo& First(RpcServerOptions* options) { return options->regions.front(); }

const std::vector<Lie>& Lies() {
  static const std::vector<Lie> lies = {
      {"NoRegions", [](RpcServerOptions* options) { options->regions.clear(); }},
      {"ManyRegions",
       [](RpcServerOptions* options) { options->regions.resize(256, First(options)); }},
      {"TooManyRegions",
       [](RpcServerOptions* options) { options->regions.resize(300, RegionInfo{}); }},
      {"OtherRegion", [](RpcServerOptions* options) { First(options).id = RegionId{4711}; }},
      {"EmptyRegion", [](RpcServerOptions* options) { First(options).bytes = 0; }},
      {"TinyRegion", [](RpcServerOptions* options) { First(options).bytes = 5000; }},
      {"LargestRegion", [](RpcServerOptions* options) { First(options).bytes = UINT64_MAX; }},
      {"NegativeRegion",
       [](RpcServerOptions* options) { First(options).bytes = uint64_t{1} << 63; }},
      {"LargerThanItsFile", [](RpcServerOptions* options) { First(options).bytes += 4096; }},
      {"WrapsAround", [](RpcServerOptions* options) { First(options).bytes = ~uint64_t{4095}; }},
      {"ForeignFile", [](RpcServerOptions* options) { First(options).shm_path = "/etc/passwd"; }},
      {"NoFile",
       [](RpcServerOptions* options) { First(options).shm_path = "/dev/shm/dlsm-nothing"; }},
      {"PathOfNothing",
       [](RpcServerOptions* options) { First(options).shm_path = std::string("\0/..", 4); }},
      {"OtherNode", [](RpcServerOptions* options) { options->node = NodeId{99}; }},
      {"ServesVerbs", [](RpcServerOptions* options) { options->fabric = FabricKind::kVerbs; }},
      {"ServesLocal", [](RpcServerOptions* options) { options->fabric = FabricKind::kLocal; }},
  };
  return lies;
}

class HostileHelloTest : public testing::TestWithParam<const char*> {
 protected:
  static TestNode::Config NodeConfig() {
    TestNode::Config config;
    config.bytes = uint64_t{16} << 20;
    config.lease = std::chrono::milliseconds(300);
    config.grace = std::chrono::milliseconds(50);
    return config;
  }

  void SetUp() override {
    ASSERT_OK(TcpFabricServer::Start({&node_.server().node().region()}, 1,
                                     std::chrono::microseconds(0), &order_, &fabric_));
  }

  // Clients that come this way are lied to; behind it is a memory node all the same.
  void Serve(const std::function<void(RpcServerOptions*)>& lie) {
    RpcServerOptions options;
    options.port = liar_ != nullptr ? liar_->port() : 0;
    liar_.reset();
    options.node = node_.server().node().id();
    options.contents = node_.server().node().contents();
    options.boot = node_.server().node().boot();
    options.persistence = node_.server().node().persistence();
    options.fabric = FabricKind::kShm;
    options.regions = {node_.server().node().region().info()};
    options.tokens = &tokens_;
    options.greet_data_connection = [this](TcpStream& stream, Deadline deadline,
                                           std::string* token) {
      return fabric_->Greet(stream, deadline, token);
    };
    options.on_data_connection = [this](TcpStream stream, const std::string& token) {
      fabric_->Adopt(std::move(stream), token);
    };
    lie(&options);
    ASSERT_OK(RpcServer::Start(options, &node_.server().node(), &liar_));
  }

  Options OptionsHere() const {
    Options options = TinyOptions();
    options.memory_nodes = "127.0.0.1:" + std::to_string(liar_->port());
    options.fabric = GetParam();
    options.operation_timeout_ms = 200;
    options.open_timeout_ms = 100;
    options.write_stall_timeout_ms = 100;
    return options;
  }

  // Any status will do, as long as there is one.
  static void Use(DB* db) {
    for (int i = 0; i < 300; ++i) {
      if (!db->Put(WriteOptions(), NumberedKey(i), std::string(500, 'v')).ok()) break;
    }
    db->Flush(FlushOptions()).PermitUncheckedError();
    std::string value;
    for (int i = 0; i < 300; i += 50) {
      db->Get(ReadOptions(), NumberedKey(i), &value).PermitUncheckedError();
    }
    const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
    for (iterator->SeekToFirst(); iterator->Valid();) iterator->Next();
    iterator->status().PermitUncheckedError();
  }

  static void ExpectSoon(Clock::time_point start) {
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(60));
  }

  TestNode node_{NodeConfig()};
  MessageOrder order_;
  std::unique_ptr<TcpFabricServer> fabric_;
  TokenTable tokens_{std::chrono::seconds(1),
                     [this](const std::string& token, const ClientRights&) {
                       fabric_->AllowToken(token, DataKey("", token));
                     },
                     [](const std::string&) {}};
  std::unique_ptr<RpcServer> liar_;
};

TEST_P(HostileHelloTest, RegionsThatAreNotThere) {
#ifdef DLSM_THREAD_SANITIZER
  GTEST_SKIP()
      << "the liar's transfers are in no order with the calls of the memory node behind it";
#endif
  for (const Lie& lie : Lies()) {
    SCOPED_TRACE(lie.name);
    Serve(lie.tell);
    const auto start = Clock::now();
    std::unique_ptr<DB> db;
    const Status opened = DB::Open(OptionsHere(), lie.name, &db);
    if (opened.ok()) {
      Use(db.get());
      db->Close().PermitUncheckedError();
    } else {
      EXPECT_FALSE(opened.message().empty());
    }
    db.reset();
    ExpectSoon(start);
  }
}

// Each connection, and with it each call after a loss, finds a memory node that has restarted.
TEST_P(HostileHelloTest, BootsThatChange) {
#ifdef DLSM_THREAD_SANITIZER
  GTEST_SKIP()
      << "the liar's transfers are in no order with the calls of the memory node behind it";
#endif
  uint64_t boot = 1;
  const auto other_boot = [&boot](RpcServerOptions* options) {
    options->boot = BootId{++boot};
    options->contents = ContentsId{boot / 2};
  };
  Serve(other_boot);
  const auto start = Clock::now();
  for (int round = 0; round < 3; ++round) {
    std::unique_ptr<DB> db;
    if (!DB::Open(OptionsHere(), "boots", &db).ok()) continue;
    Use(db.get());
    Serve(other_boot);
    Use(db.get());
    Serve([&](RpcServerOptions* options) {
      other_boot(options);
      options->regions.clear();
    });
    Use(db.get());
    db->Close().PermitUncheckedError();
    db.reset();
    Serve(other_boot);
  }
  ExpectSoon(start);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, HostileHelloTest, testing::Values("shm", "tcp"),
                         [](const auto& fabric) { return std::string(fabric.param); });

}  // namespace
}  // namespace dlsm
