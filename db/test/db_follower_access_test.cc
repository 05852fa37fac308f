// Followers that may read a database and nothing else, by the memory node's access list.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "db/test/test_database_testing.h"
#include "memory_node/node_server.h"
#include "util/rpc/auth/access_list.h"
#include "util/temporary_file_testing.h"

namespace dlsm {
namespace {

// Fails if a client whose line says `read=` alone cannot follow over tcp, or can do more.
TEST(FollowerAccessTest, WhoMayOnlyReadFollows) {
  NodeServerOptions node_options;
  node_options.bytes = uint64_t{64} << 20;
  node_options.huge_pages = false;
  node_options.secret = "the secret of this cluster";
  auto list = std::make_shared<AccessList>();
  ASSERT_OK(
      AccessList::Parse("alice the-secret-of-alice own=catalog\n"
                        "report the-secret-of-reports read=catalog\n",
                        "list", list.get()));
  node_options.access = list;
  std::unique_ptr<NodeServer> node;
  ASSERT_OK(NodeServer::Start(node_options, &node));
  const TemporaryFile hers("the-secret-of-alice\n");
  const TemporaryFile theirs("the-secret-of-reports\n");
  Options owning = TinyOptions();
  owning.memory_nodes = "127.0.0.1:" + std::to_string(node->port());
  owning.fabric = "tcp";
  owning.publish_interval_ms = 5;
  owning.access_name = "alice";
  owning.secret_file = hers.path();
  std::unique_ptr<DB> owner = OpenOrDie(owning, "catalog");
  ASSERT_OK(owner->Put(WriteOptions(), "key", "value"));
  ASSERT_OK(owner->Flush(FlushOptions()));

  Options reading = owning;
  reading.access_name = "report";
  reading.secret_file = theirs.path();
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(reading, "catalog", &follower));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (GetOr(follower.get(), "key") != "value" && std::chrono::steady_clock::now() < until) {
    ASSERT_OK(follower->TryCatchUp());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(GetOr(follower.get(), "key"), "value");
  std::unique_ptr<DB> second_owner;
  const Status refused = DB::Open(reading, "catalog", &second_owner);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), testing::HasSubstr("may not own"));
  EXPECT_OK(follower->Close());
  CloseAndDestroy(&owner, owning, "catalog");
}

}  // namespace
}  // namespace dlsm
