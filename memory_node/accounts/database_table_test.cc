// Databases and their sessions. What is granted to them, merged and followed has files of its own.
#include "memory_node/accounts/database_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "memory_node/accounts/database_table_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// Fails if options of opening are ignored, or a manifest is lost.
TEST_F(DatabaseTableTest, OpensAsAsked) {
  OpenDatabaseRequest request;
  request.name = "a";
  OpenDatabaseReply reply;
  const Status missing = table_.Open(Peer(1), request, &reply);
  EXPECT_TRUE(missing.IsInvalidArgument());
  EXPECT_THAT(missing.ToString(), HasSubstr("'a' does not exist"));
  request.create_if_missing = true;
  ASSERT_OK(table_.Open(Peer(1), request, &reply));
  EXPECT_FALSE(reply.existed);
  EXPECT_EQ(reply.manifest_version, 0u);
  EXPECT_EQ(reply.lease_ms, 10000u);
  ASSERT_OK(Put(reply.session, 3, {}));
  ASSERT_OK(Close(reply.session));
  ASSERT_OK(table_.Open(Peer(1), request, &reply));
  EXPECT_TRUE(reply.existed);
  EXPECT_EQ(reply.manifest_version, 3u);
  EXPECT_EQ(reply.manifest, "manifest 3");
  ASSERT_OK(Close(reply.session));
  request.error_if_exists = true;
  EXPECT_TRUE(table_.Open(Peer(1), request, &reply).IsInvalidArgument());
  request.name = "";
  EXPECT_TRUE(table_.Open(Peer(1), request, &reply).IsInvalidArgument());
  request.name = std::string(2000, 'n');
  EXPECT_TRUE(table_.Open(Peer(1), request, &reply).IsInvalidArgument());
}

// What nobody has put a manifest of goes with its owner. Fails if whoever finds that the owner has
// lost it uses what is gone, or is told that it is there.
TEST_F(DatabaseTableTest, ADatabaseMayGoWhileItIsOpened) {
  for (const bool destroys : {false, true}) {
    OpenDatabaseReply reply;
    ASSERT_OK(Open("a", 1, &reply));
    const uint64_t nobodys = ~uint64_t{0};
    std::memcpy(memory_.At(OwnershipWordIn(reply.header)), &nobodys, sizeof(nobodys));
    if (destroys) {
      EXPECT_TRUE(Destroy("a").IsNotFound());
    } else {
      OpenDatabaseRequest request;
      request.name = "a";
      EXPECT_THAT(table_.Open(Peer(2), request, &reply).ToString(), HasSubstr("does not exist"));
    }
    EXPECT_EQ(used(), 0u);
  }
}

// Fails if two handles share a database, or the second is not told who has it.
TEST_F(DatabaseTableTest, SecondHandleIsRefused) {
  const SessionId first = OpenOk("a", 1);
  OpenDatabaseReply reply;
  const Status busy = Open("a", 2, &reply);
  EXPECT_TRUE(busy.IsBusy());
  EXPECT_THAT(busy.ToString(), HasSubstr("database 'a' is open by client 1; close it there"));
  OpenOk("b", 2);
  ASSERT_OK(Close(first));
  EXPECT_OK(Open("a", 2, &reply));
}

// Fails if a silent handle blocks others for longer than its lease, or a live one loses it.
TEST_F(DatabaseTableTest, LeasesRunOut) {
  const SessionId session = OpenOk("a");
  GrantOk(session, kUnit);
  for (int i = 0; i < 5; ++i) {
    now_ += seconds(9);
    ASSERT_OK(Beat(session));
  }
  now_ += seconds(10);
  EXPECT_TRUE(Beat(session).IsAborted());
  EXPECT_THAT(Beat(session).ToString(), HasSubstr("open the database again"));
  EXPECT_EQ(used(), 0u);
  OpenOk("a", 2);
}

// Fails if a lost connection ends a session at once, or leaves it the full lease, or a client that
// comes back in time finds it gone.
TEST_F(DatabaseTableTest, LostConnectionsGetAGracePeriod) {
  const SessionId session = OpenOk("a", 1);
  OpenOk("b", 2);
  table_.Disconnected(Peer(1));
  OpenDatabaseReply reply;
  const Status wait = Open("a", 3, &reply);
  EXPECT_TRUE(wait.IsTimedOut()) << wait.ToString();
  now_ += seconds(1);
  ASSERT_OK(Beat(session, 4));   // Back, by another connection.
  table_.Disconnected(Peer(1));  // Of the past: no longer its own.
  now_ += seconds(5);
  EXPECT_TRUE(Open("a", 3, &reply).IsBusy());
  table_.Disconnected(Peer(4));
  now_ += seconds(2);
  EXPECT_OK(Open("a", 3, &reply));
  EXPECT_TRUE(Open("b", 3, &reply).IsBusy());
}

// Fails if a memory node that has stood still ends sessions and readers of which it could not hear
// meanwhile; or if it ends none after that.
TEST_F(DatabaseTableTest, LeasesDoNotRunWhileTheMemoryNodeStandsStill) {
  DatabaseTableOptions options = Options(0);
  options.clock = [] { return port::Clock::now(); };
  options.lease = std::chrono::milliseconds(400);
  DatabaseTable table(options);
  OpenDatabaseRequest open;
  open.name = "a";
  open.create_if_missing = true;
  OpenDatabaseReply opened;
  ASSERT_OK(table.Open(Peer(1), open, &opened));
  OpenReaderRequest follow;
  follow.databases = {"a"};
  OpenReaderReply follows;
  ASSERT_OK(table.OpenReader(Peer(2), follow, &follows));
  HeartbeatRequest beat;
  beat.session = opened.session;
  ReaderHeartbeatRequest renewal;
  renewal.reader = follows.reader;
  ReaderHeartbeatReply renewed;
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  table.EndExpiredSessions();  // The house may be kept before what has come is read.
  EXPECT_OK(table.Heartbeat(Peer(1), beat));
  EXPECT_OK(table.RenewReader(renewal, &renewed));
  for (int look = 0; look < 10; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    table.EndExpiredSessions();
  }
  EXPECT_TRUE(table.Heartbeat(Peer(1), beat).IsAborted());
  EXPECT_TRUE(table.RenewReader(renewal, &renewed).IsAborted());
}

// A client has gone while the memory node stood still, which is the first thing that is noticed
// after that. Fails if others wait for it for longer than the grace period: a session that ends
// later than its token is of no use to who comes back.
TEST_F(DatabaseTableTest, TheGracePeriodBeginsAfterAStandstill) {
  OpenOk("a", 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  table_.Disconnected(Peer(1));
  now_ += seconds(2);
  OpenDatabaseReply reply;
  EXPECT_OK(Open("a", 2, &reply));
}

// Fails if a session remembers as many data tokens as its client cares to come with: each call
// looks through all of them, and others wait for that.
TEST_F(DatabaseTableTest, ASessionHasOnlySoManyDataTokens) {
  HeartbeatRequest beat;
  beat.session = OpenOk("db");
  const auto beat_over = [&](uint64_t connection) {
    RpcPeer peer = Peer(connection);
    peer.data_token = "token " + std::to_string(connection);
    return table_.Heartbeat(peer, beat);
  };
  uint64_t connection = 1;
  while (connection < 1000 && beat_over(connection).ok()) ++connection;
  EXPECT_EQ(connection, 65u);
  EXPECT_TRUE(beat_over(connection).IsIOError());
  EXPECT_OK(beat_over(connection - 1)) << "the session goes on with those that it knows";
}

// Fails if versions can go back: a late message of a former writer would undo a newer manifest.
TEST_F(DatabaseTableTest, ManifestVersionsGrow) {
  const SessionId session = OpenOk("a");
  ASSERT_OK(Put(session, 5, {}));
  EXPECT_TRUE(Put(session, 5, {}).IsAborted());
  EXPECT_TRUE(Put(session, 4, {}).IsAborted());
  EXPECT_OK(Put(session, 6, {}));
}

// Fails if a database that never had a manifest outlives its session.
TEST_F(DatabaseTableTest, DatabasesWithoutManifestVanish) {
  ASSERT_OK(Close(OpenOk("a")));
  EXPECT_TRUE(table_.List().databases.empty());
}

// Fails if two databases share a header, one is moved or not made zero, or outlives its database.
TEST_F(DatabaseTableTest, EachDatabaseHasAHeader) {
  OpenDatabaseReply a;
  OpenDatabaseReply b;
  std::memset(bytes_.get(), 'x', kCapacity);
  ASSERT_OK(Open("a", 1, &a));
  ASSERT_OK(Open("b", 1, &b));
  EXPECT_EQ(a.header.bytes, kDatabaseHeaderBytes);
  EXPECT_EQ(a.header.offset % kExtentAlignment, 0u);
  EXPECT_NE(a.header.offset, b.header.offset);
  char* const header = memory_.At(a.header);
  EXPECT_EQ(std::count(header, header + kHeader, '\0'), static_cast<ptrdiff_t>(kHeader));
  std::memset(header + kPublicationsOffset, 'a', kPublicationsBytes);
  EXPECT_TRUE(Free(a.session, {a.header}).IsInvalidArgument()) << "it is not the session's to give";
  EXPECT_TRUE(Put(a.session, 1, {a.header}).IsInvalidArgument());
  ASSERT_OK(Put(a.session, 1, {}));
  ASSERT_OK(Close(a.session));
  const RemoteSpan before = a.header;
  ASSERT_OK(Open("a", 1, &a));
  EXPECT_EQ(a.header, before);
  EXPECT_EQ(header[kPublicationsOffset], 'a')
      << "whoever has it open next sees what the last one left";
  ASSERT_OK(Close(a.session));
  ASSERT_OK(Close(b.session));  // It was never made.
  ASSERT_OK(Destroy("a"));
  NodeStatisticsReply statistics;
  table_.Describe(&statistics);
  EXPECT_EQ(statistics.used_bytes, 0u);
}

// Fails if destroying leaves anything behind, or takes an open database from its handle.
TEST_F(DatabaseTableTest, DestroysWhatIsClosed) {
  EXPECT_TRUE(Destroy("a").IsNotFound());
  const SessionId session = OpenOk("a");
  const RemoteSpan span = GrantOk(session, kUnit);
  ASSERT_OK(Put(session, 1, {span}));
  EXPECT_TRUE(Destroy("a").IsBusy());
  auto merge = Merge(session, {span});
  ASSERT_OK(Close(session));
  ASSERT_EQ(table_.List().databases.size(), 1u);
  EXPECT_EQ(table_.List().databases[0].name, "a");
  EXPECT_EQ(table_.List().databases[0].bytes, kHeader + kUnit);
  EXPECT_FALSE(table_.List().databases[0].open);
  ASSERT_OK(Destroy("a"));
  EXPECT_EQ(used(), kUnit);  // Until its cancelled merge has let go.
  const SessionId again = OpenOk("a");
  merge.reset();
  EXPECT_EQ(used(), 0u);
  EXPECT_OK(Beat(again));
}

// Fails if who has seen a database destroys another one that was made under its name since, or
// cannot destroy the one that it has seen.
TEST_F(DatabaseTableTest, DestroysNoOtherOfTheSameName) {
  uint64_t version = 0;
  const auto use = [this, &version] {
    const SessionId session = OpenOk("a");
    EXPECT_OK(Put(session, ++version, {}));
    EXPECT_OK(Close(session));
  };
  const auto seen = [this] {
    const ListDatabasesReply list = table_.List();
    EXPECT_EQ(list.databases.size(), 1u);
    return list.databases.empty() ? DatabaseIncarnation{} : list.databases[0].incarnation;
  };
  const auto destroy = [this](DatabaseIncarnation incarnation) {
    DestroyDatabaseRequest request;
    request.name = "a";
    request.incarnation = incarnation;
    return table_.Destroy(request);
  };
  use();
  const DatabaseIncarnation first = seen();
  EXPECT_NE(first, DatabaseIncarnation{});
  use();
  EXPECT_EQ(seen(), first) << "it was only opened again";
  ASSERT_OK(destroy(first));
  EXPECT_TRUE(destroy(first).IsNotFound());
  use();
  const DatabaseIncarnation second = seen();
  EXPECT_NE(second, first);
  const Status refused = destroy(first);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("is not the one that was to be destroyed"));
  EXPECT_EQ(seen(), second);
  EXPECT_OK(destroy(second));
}

// Fails if an open that there is no memory for leaves a session, which ends the process when it
// ends, or keeps the database from others.
TEST_F(DatabaseTableTest, AnOpenWithoutMemoryLeavesNoSession) {
  for (const char* place : {"ownership: claim", "accounts: change", "byte ranges"}) {
    for (int64_t made = 0; made < 4; ++made) {
      SCOPED_TRACE(testing::Message() << place << " " << made);
      OpenDatabaseReply reply;
      bool opened = true;
      {
        const port::FailingAllocationsAt failing(place, made);
        try {
          EXPECT_OK(Open("a", 1, &reply));
        } catch (const std::bad_alloc&) {
          opened = false;
        }
      }
      NodeStatisticsReply statistics;
      table_.Describe(&statistics);
      EXPECT_EQ(statistics.sessions, opened ? 1u : 0u);
      if (!opened) {
        now_ += seconds(30);
        table_.EndExpiredSessions();
        ASSERT_OK(Open("a", 2, &reply)) << "nobody has it open";
        ASSERT_OK(Open("a#1", 1, &reply)) << "the connection is good for others";
        now_ += seconds(30);
      } else {
        ASSERT_OK(Close(reply.session));
      }
      table_.EndExpiredSessions();
      EXPECT_TRUE(table_.List().databases.empty());
      EXPECT_EQ(used(), 0u);
    }
  }
}

// Memory ends at each place of the end of a session, and comes back. Fails if anything that it had
// stays fenced for good, or is lost.
TEST_F(DatabaseTableTest, ASessionThatEndsWithoutMemoryKeepsNothing) {
  uint64_t version = 0;
  uint64_t failures = 0;
  for (const char* place : {"memory node: session ends", "accounts: change", "byte ranges",
                            "reader leases: retired", "accounts: free"}) {
    for (int64_t made = 0; made < 8; ++made) {
      SCOPED_TRACE(testing::Message() << place << " " << made);
      const SessionId session = OpenOk("a");
      std::vector<RemoteSpan> spans;
      for (int i = 0; i < 5; ++i) spans.push_back(GrantOk(session, kUnit));
      ASSERT_OK(Put(session, ++version, {spans[1], spans[3]}));
      {
        const port::FailingAllocationsAt failing(place, made);
        try {
          EXPECT_OK(Close(session));
        } catch (const std::bad_alloc&) {
          // Its lease ends then.
        }
        failures += failing.failed();
      }
      ASSERT_OK(table_.CheckInvariants());
      now_ += seconds(30);
      table_.EndExpiredSessions();
      EXPECT_EQ(used(), 2 * kUnit);
      const SessionId next = OpenOk("a");
      ASSERT_OK(Put(next, ++version, {}));
      ASSERT_OK(Free(next, {spans[1], spans[3]}));
      ASSERT_OK(Close(next));
      EXPECT_EQ(used(), 0u);
    }
  }
  EXPECT_GT(failures, 10u);
}

}  // namespace
}  // namespace dlsm
