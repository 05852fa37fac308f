// The access list: what a client may ask for, and reach one-sided, and what it may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "memory_node/memory_node_testing.h"
#include "util/eventually_testing.h"
#include "util/rpc/messages/database_header.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr const char* kCluster = "the secret of this cluster";

NodeServerOptions OptionsWithList() {
  NodeServerOptions options = TestServer::SmallOptions();
  options.secret = kCluster;
  auto list = std::make_shared<AccessList>();
  EXPECT_OK(
      AccessList::Parse("alice the-secret-of-alice own=a,shared-*  # our first\n"
                        "bob the-secret-of-bobs own=b read=a\n",
                        "list", list.get()));
  options.access = list;
  return options;
}

class AccessTest : public testing::Test {
 protected:
  AccessTest() : AccessTest(OptionsWithList()) {}
  explicit AccessTest(const NodeServerOptions& options) : list_(options.access), server_(options) {}

  void Replace(const std::string& text) {
    AccessList next;
    ASSERT_OK(AccessList::Parse(text, "next list", &next));
    list_->Replace(next);
  }

  Status TryConnect(const std::string& name, const std::string& secret, FabricKind kind,
                    std::unique_ptr<NodeConnection>* connection) {
    NodeConnectionOptions options;
    options.fabric.kind = kind;
    options.client_name = "tester";
    options.credentials = Credentials(secret);
    options.credentials.access_name = name;
    return ConnectNode(server_.address(), options, TestDeadline(), connection);
  }
  std::unique_ptr<NodeConnection> Connect(const std::string& name, const std::string& secret) {
    std::unique_ptr<NodeConnection> connection;
    EXPECT_OK(TryConnect(name, secret, FabricKind::kTcp, &connection));
    return connection;
  }
  std::unique_ptr<NodeConnection> Alice() { return Connect("alice", "the-secret-of-alice"); }
  std::unique_ptr<NodeConnection> Bob() { return Connect("bob", "the-secret-of-bobs"); }

  static Status Transfer(NodeConnection& node, const RemoteSpan& span, bool write,
                         std::string* bytes) {
    std::unique_ptr<QueuePair> pair;
    RegisteredBuffer buffer;
    Status status = node.fabric().NewQueuePair(TestDeadline(), &pair);
    if (status.ok()) status = node.fabric().NewBuffer(span.bytes, &buffer);
    if (!status.ok()) return status;
    std::memcpy(buffer.data(), bytes->data(), std::min<size_t>(bytes->size(), span.bytes));
    const LocalSpan local = buffer.span().Sub(0, span.bytes);
    Ticket ticket{};
    status = write ? pair->PostWrite(local, span, Purpose::kFlush, &ticket)
                   : pair->PostRead(span, local, Purpose::kRead, &ticket);
    if (status.ok()) status = pair->Wait(ticket, TestDeadline());
    bytes->assign(buffer.data(), span.bytes);
    return status;
  }
  // What makes one of an add, or of a swap, of a word of `span`.
  static Status Atomic(
      NodeConnection& node, const RemoteSpan& span,
      const std::function<Status(QueuePair*, const RemoteSpan&, uint64_t* prior, Ticket*)>& post) {
    std::unique_ptr<QueuePair> pair;
    Status status = node.fabric().NewQueuePair(TestDeadline(), &pair);
    if (!status.ok()) return status;
    uint64_t prior = 0;
    Ticket ticket{};
    status = post(pair.get(), span.Sub(0, 8), &prior, &ticket);
    return status.ok() ? pair->Wait(ticket, TestDeadline()) : status;
  }
  static Status Add(NodeConnection& node, const RemoteSpan& span, uint64_t addend) {
    return Atomic(
        node, span,
        [addend](QueuePair* pair, const RemoteSpan& word, uint64_t* prior, Ticket* ticket) {
          return pair->PostFetchAdd(word, addend, prior, Purpose::kPublication, ticket);
        });
  }
  static Status Swap(NodeConnection& node, const RemoteSpan& span, uint64_t before,
                     uint64_t after) {
    return Atomic(
        node, span,
        [before, after](QueuePair* pair, const RemoteSpan& word, uint64_t* prior, Ticket* ticket) {
          return pair->PostCompareAndSwap(word, before, after, prior, Purpose::kPublication,
                                          ticket);
        });
  }
  static void ExpectForbidden(NodeConnection& node, const RemoteSpan& span, bool write) {
    std::string bytes(span.bytes, 'x');
    const Status status = Transfer(node, span, write, &bytes);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("access list"));
  }

  const std::shared_ptr<AccessList> list_;
  TestServer server_;
};

// Fails if a name opens the door without its secret, or a secret without its name.
TEST_F(AccessTest, NamesAndSecretsBelongTogether) {
  std::unique_ptr<NodeConnection> connection;
  const std::pair<const char*, const char*> wrong[] = {{"alice", kCluster},
                                                       {"alice", "the-secret-of-bobs"},
                                                       {"", "the-secret-of-alice"},
                                                       {"carol", kCluster},
                                                       {"carol", ""},
                                                       {"", ""}};
  for (const auto& [name, secret] : wrong) {
    const Status status = TryConnect(name, secret, FabricKind::kTcp, &connection);
    EXPECT_TRUE(status.IsInvalidArgument()) << name << ": " << status.ToString();
  }
  EXPECT_OK(TryConnect("", kCluster, FabricKind::kTcp, &connection));
  EXPECT_NE(Alice(), nullptr);
}

// Fails if a call reaches, changes or names a database that is not the client's.
TEST_F(AccessTest, CallsAreLimitedToTheClientsDatabases) {
  const auto alice = Alice();
  const auto bob = Bob();
  TestClient hers(&alice->rpc());
  TestClient his(&bob->rpc());
  ASSERT_OK(hers.Open("a"));
  ASSERT_OK(his.Open("b"));
  TestClient shards(&alice->rpc());
  ASSERT_OK(shards.Open("shared-1#shard-3"));
  for (const char* name : {"a", "shared-1", "new"}) {
    const Status status = TestClient(&bob->rpc()).Open(name);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("access file"));
    EXPECT_THAT(TestClient(&bob->rpc()).Destroy(name).ToString(), HasSubstr("access file"));
  }
  EXPECT_OK(his.OpenReader({"a"}));  // He may follow hers; she may not follow his.
  EXPECT_TRUE(hers.OpenReader({"b"}).IsInvalidArgument());
  EXPECT_TRUE(his.OpenReader({"a", "shared-1#shard-3"}).IsInvalidArgument());
  std::string listed;
  for (const auto& each : hers.List().databases) listed += each.name + " ";
  EXPECT_EQ(listed, "a shared-1#shard-3 ");
  EXPECT_EQ(his.List().databases.size(), 2u);
  SetMergeScheduleRequest schedule;
  SetMergeScheduleReply now;
  EXPECT_OK(hers.SetMergeSchedule(schedule, &now));  // Only asks.
  schedule.schedule = "fair";
  EXPECT_TRUE(hers.SetMergeSchedule(schedule, &now).IsInvalidArgument());
  schedule.schedule.clear();
  schedule.sets_budget = true;
  EXPECT_TRUE(hers.SetMergeSchedule(schedule, &now).IsInvalidArgument());
  SetQuotaRequest quota;
  quota.name = "a";
  std::string bytes;
  EXPECT_TRUE(alice->rpc()
                  .Call(Method::kSetQuota, quota.Encode(), &bytes, TestDeadline())
                  .IsInvalidArgument());
}

// Fails if the number of a session is enough to act for its client.
TEST_F(AccessTest, AStolenSessionIsOfNoUse) {
  const auto alice = Alice();
  const auto bob = Bob();
  TestClient hers(&alice->rpc());
  ASSERT_OK(hers.Open("a"));
  GrantRequest request;
  request.session = hers.session();
  request.bytes = request.bytes_min = 4096;
  std::string bytes;
  EXPECT_TRUE(
      bob->rpc().Call(Method::kGrant, request.Encode(), &bytes, TestDeadline()).IsIOError());
  CloseDatabaseRequest close;
  close.session = hers.session();
  EXPECT_FALSE(
      bob->rpc().Call(Method::kCloseDatabase, close.Encode(), &bytes, TestDeadline()).ok());
  EXPECT_OK(hers.Heartbeat());
}

// Fails if who may own one database learns of another, or keeps it from whoever opens it next, by
// confirming a session of that under the name of the first: another client's, or one of its own
// from before its line was changed.
TEST_F(AccessTest, ASessionIsConfirmedUnderTheNameOfItsDatabaseOnly) {
  const auto alice = Alice();
  const auto bob = Bob();
  TestClient hers(&alice->rpc());
  ASSERT_OK(hers.Open("a"));
  const OpenDatabaseReply& opened = hers.opened();
  ASSERT_OK(
      Swap(*alice, OwnershipWordIn(opened.header), opened.ownership_before, opened.ownership_word));
  ASSERT_OK(hers.PutManifest(1, "where all is", {}));
  const auto confirm = [&opened](NodeConnection& by, const std::string& name) {
    OpenDatabaseRequest request;
    request.name = name;
    request.claimed = opened.session;
    std::string bytes;
    return by.rpc().Call(Method::kOpenDatabase, request.Encode(), &bytes, TestDeadline());
  };
  EXPECT_TRUE(confirm(*bob, "b").IsIOError());
  EXPECT_OK(confirm(*alice, "a")) << "nobody has taken it";
  Replace("alice the-secret-of-alice own=c\n");
  EXPECT_TRUE(confirm(*alice, "a").IsInvalidArgument());
  EXPECT_TRUE(confirm(*alice, "c").IsIOError());
}

// To look at them takes time, for which transfers of others may wait. Fails if a name that is
// longer than any database's is compared with what its client may have, whatever asks with it.
TEST_F(AccessTest, NamesThatNoDatabaseHasAreNotComparedWithRights) {
  Replace("alice the-secret-of-alice own=*\n");
  const auto alice = Alice();
  TestClient hers(&alice->rpc());
  const std::string longest(OpenDatabaseRequest::kNameBytesMax, 'a');
  ASSERT_OK(hers.Open(longest));
  EXPECT_OK(hers.OpenReader({longest}));
  const std::string too_long = longest + "a";
  for (const Status& status :
       {hers.Destroy(too_long), hers.OpenReader({longest, too_long}), hers.Open(too_long)}) {
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("1 to 1024 bytes"));
  }
}

// Fails if memory of others can be read or written one-sided over tcp, in whole or at an edge.
TEST_F(AccessTest, TransfersAreLimitedToTheClientsMemory) {
  const auto alice = Alice();
  const auto bob = Bob();
  TestClient hers(&alice->rpc());
  TestClient his(&bob->rpc());
  ASSERT_OK(hers.Open("a"));
  ASSERT_OK(his.Open("b"));
  const RemoteSpan first = hers.Grant(1 << 16);
  const RemoteSpan second = hers.Grant(1 << 16);
  std::string bytes(first.bytes, 'a');
  ASSERT_OK(Transfer(*alice, first, /*write=*/true, &bytes));
  ASSERT_OK(Transfer(*alice, first, /*write=*/false, &bytes));
  if (second.offset == first.offset + first.bytes) {
    // Two of hers side by side are one to her.
    const RemoteSpan both{first.node, first.region, first.offset, 2 * first.bytes};
    ASSERT_OK(Transfer(*alice, both, /*write=*/false, &bytes));
  }
  bytes.assign(first.bytes, ' ');
  ASSERT_OK(Transfer(*bob, first, /*write=*/false, &bytes));  // He may read hers,
  EXPECT_EQ(bytes, std::string(first.bytes, 'a'));
  ExpectForbidden(*bob, first, /*write=*/true);  // but not write there.
  const RemoteSpan mine = his.Grant(1 << 16);
  ExpectForbidden(*alice, mine, /*write=*/false);
  ExpectForbidden(*alice, mine.Sub(100, 8), /*write=*/true);
  RemoteSpan edge = mine;  // Reaches one byte into what is nobody's, or another's.
  edge.bytes += 1;
  ExpectForbidden(*bob, edge, /*write=*/true);
  ExpectForbidden(*bob, {mine.node, mine.region, (uint64_t{64} << 20) - 8, 8}, /*write=*/false);
  // The cluster's own reach everything.
  const auto root = Connect("", kCluster);
  EXPECT_OK(Transfer(*root, mine, /*write=*/false, &bytes));
}

// Followers read words by adding nothing to them. Fails if who may read a database cannot, or can
// change one: by any other atomic, also by one that leaves what there is.
TEST_F(AccessTest, AtomicsOfReadersOnlyRead) {
  const auto alice = Alice();
  const auto bob = Bob();
  TestClient hers(&alice->rpc());
  ASSERT_OK(hers.Open("a"));
  const RemoteSpan span = hers.Grant(4096);
  EXPECT_OK(Add(*bob, span, 0));
  EXPECT_OK(Add(*bob, PublicationsIn(hers.opened().header), 0));
  EXPECT_OK(Add(*alice, span, 1));
  EXPECT_OK(Swap(*alice, span, 1, 2));
  for (const Status& status : {Add(*bob, span, 1), Swap(*bob, span, 2, 2), Swap(*bob, span, 0, 1),
                               Swap(*bob, OwnershipWordIn(hers.opened().header), 0, 0)}) {
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("access list"));
  }
  TestClient his(&bob->rpc());
  ASSERT_OK(his.Open("b"));
  EXPECT_TRUE(Add(*alice, his.Grant(4096), 0).IsInvalidArgument());
  std::string bytes;
  ASSERT_OK(Transfer(*alice, span.Sub(0, 8), /*write=*/false, &bytes));
  EXPECT_EQ(bytes[0], 2);
}

// Fails if what was given back is still within reach, or what it held before is.
TEST_F(AccessTest, MemoryThatChangesHandsIsClean) {
  const auto alice = Alice();
  const auto bob = Bob();
  TestClient hers(&alice->rpc());
  TestClient his(&bob->rpc());
  ASSERT_OK(hers.Open("a"));
  ASSERT_OK(his.Open("b"));
  const RemoteSpan span = hers.Grant(1 << 16);
  std::string bytes(span.bytes, 's');
  ASSERT_OK(Transfer(*alice, span, /*write=*/true, &bytes));
  ASSERT_OK(hers.Free({span}));
  ExpectForbidden(*alice, span, /*write=*/false);
  const RemoteSpan his_now = his.Grant(1 << 16);
  ASSERT_EQ(his_now.offset, span.offset) << "the test has to look elsewhere";
  ASSERT_OK(Transfer(*bob, his_now, /*write=*/false, &bytes));
  EXPECT_EQ(bytes, std::string(span.bytes, '\0'));
  ExpectForbidden(*alice, span, /*write=*/true);
}

// Fails if a client of the list gets at all memory by mapping it, unasked.
TEST_F(AccessTest, MappedMemoryIsNotForThem) {
  std::unique_ptr<NodeConnection> connection;
  const Status status = TryConnect("alice", "the-secret-of-alice", FabricKind::kShm, &connection);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("--access_shares_memory"));
  EXPECT_TRUE(Alice()->peer().regions.front().shm_path.empty());
  EXPECT_OK(TryConnect("", kCluster, FabricKind::kShm, &connection));
}

// Fails if a memory node with a list takes in who shows neither name nor secret.
TEST(AccessListTest, NeedsASecret) {
  NodeServerOptions options = OptionsWithList();
  options.secret.clear();
  std::unique_ptr<NodeServer> server;
  EXPECT_TRUE(NodeServer::Start(options, &server).IsInvalidArgument());
}

// Fails if a client that is connected goes on with what it may no longer do, or ends though its
// line has stayed.
TEST_F(AccessTest, AnotherListCountsAtOnce) {
  const auto alice = Alice();
  const auto bob = Bob();
  TestClient hers(&alice->rpc());
  TestClient shared(&alice->rpc());
  TestClient his(&bob->rpc());
  ASSERT_OK(hers.Open("a"));
  ASSERT_OK(shared.Open("shared-1"));
  ASSERT_OK(his.Open("b"));
  const RemoteSpan in_a = hers.Grant(4096);
  const RemoteSpan in_shared = shared.Grant(4096);
  const RemoteSpan in_b = his.Grant(4096);
  std::string bytes(4096, 'x');
  ASSERT_OK(Transfer(*alice, in_a, /*write=*/true, &bytes));
  Replace(
      "alice the-secret-of-alice own=shared-*,c\n"
      "carol the-secret-of-carol own=b\n");
  ExpectForbidden(*alice, in_a, /*write=*/false);
  ExpectForbidden(*alice, in_a, /*write=*/true);
  EXPECT_FALSE(hers.Heartbeat().ok());
  EXPECT_TRUE(TestClient(&alice->rpc()).Open("a").IsInvalidArgument());
  EXPECT_OK(Transfer(*alice, in_shared, /*write=*/true, &bytes));
  EXPECT_OK(shared.Heartbeat());
  TestClient more(&alice->rpc());
  ASSERT_OK(more.Open("c"));
  EXPECT_OK(Transfer(*alice, more.Grant(4096), /*write=*/true, &bytes));

  EXPECT_FALSE(his.Heartbeat().ok());
  EXPECT_FALSE(Transfer(*bob, in_b, /*write=*/false, &bytes).ok());
  std::unique_ptr<NodeConnection> connection;
  EXPECT_TRUE(
      TryConnect("bob", "the-secret-of-bobs", FabricKind::kTcp, &connection).IsInvalidArgument());
  // What everybody may call, until his connection is closed, and the next one refused.
  EXPECT_TRUE(Eventually([&] {
    return bob->rpc().Call(Method::kNodeStatistics, "", &bytes, TestDeadline()).IsInvalidArgument();
  }));
  const auto carol = Connect("carol", "the-secret-of-carol");
  EXPECT_TRUE(Eventually([&] { return TestClient(&carol->rpc()).Open("b").ok(); }))
      << "once his session has ended";
}

// Fails if a client whose line has gone and come back is not served, or if what it had before comes
// back with it.
TEST_F(AccessTest, AClientThatIsBackInTheListBeginsAnew) {
  const auto before = Alice();
  TestClient old(&before->rpc());
  ASSERT_OK(old.Open("a"));
  std::string bytes(4096, 'x');
  const RemoteSpan span = old.Grant(4096);
  ASSERT_OK(Transfer(*before, span, /*write=*/true, &bytes));
  Replace("");
  Replace("alice the-secret-of-alice own=*\n");
  EXPECT_FALSE(Transfer(*before, span, /*write=*/false, &bytes).ok());
  const auto alice = Alice();
  TestClient hers(&alice->rpc());
  ASSERT_OK(hers.Open("n"));
  EXPECT_OK(Transfer(*alice, hers.Grant(4096), /*write=*/true, &bytes));
}

// Fails if somebody gets in with the secret of before, or not with the new one.
TEST_F(AccessTest, AnotherSecretCountsAtOnce) {
  const auto alice = Alice();
  Replace("alice another-secret-of-alice own=a\n");
  EXPECT_FALSE(TestClient(&alice->rpc()).Open("a").ok());
  std::unique_ptr<NodeConnection> connection;
  EXPECT_TRUE(TryConnect("alice", "the-secret-of-alice", FabricKind::kTcp, &connection)
                  .IsInvalidArgument());
  ASSERT_OK(TryConnect("alice", "another-secret-of-alice", FabricKind::kTcp, &connection));
  EXPECT_OK(TestClient(&connection->rpc()).Open("a"));
}

}  // namespace
}  // namespace dlsm
