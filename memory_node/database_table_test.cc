#include "memory_node/database_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "util/random.h"
#include "util/rpc/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr uint64_t kCapacity = uint64_t{1} << 20;
constexpr uint64_t kUnit = 4096;
constexpr uint64_t kHeader = kDatabaseHeaderBytes;

class DatabaseTableTest : public testing::Test {
 protected:
  DatabaseTableTest() : table_(Options(0)) {}
  ~DatabaseTableTest() override { EXPECT_OK(table_.CheckInvariants()); }

  DatabaseTableOptions Options(uint64_t reserve) {
    DatabaseTableOptions options;
    options.node = NodeId{1};
    options.memory = &memory_;
    options.capacity_bytes = kCapacity;
    options.merge_reserve_bytes = reserve;
    options.clock = [this] { return now_; };
    return options;
  }

  static RpcPeer Peer(uint64_t connection) {
    return RpcPeer{connection, "client " + std::to_string(connection)};
  }

  Status Open(const std::string& name, uint64_t connection, OpenDatabaseReply* reply) {
    OpenDatabaseRequest request;
    request.name = name;
    request.create_if_missing = true;
    return table_.Open(Peer(connection), request, reply);
  }
  SessionId OpenOk(const std::string& name, uint64_t connection = 1) {
    OpenDatabaseReply reply;
    EXPECT_OK(Open(name, connection, &reply));
    return reply.session;
  }
  Status Grant(SessionId session, uint64_t bytes, uint64_t bytes_min, RemoteSpan* span,
               uint64_t connection = 1) {
    GrantRequest request;
    request.session = session;
    request.bytes = bytes;
    request.bytes_min = bytes_min;
    GrantReply reply;
    const Status status = table_.Grant(Peer(connection), request, &reply);
    *span = reply.extent;
    return status;
  }
  RemoteSpan GrantOk(SessionId session, uint64_t bytes) {
    RemoteSpan span;
    EXPECT_OK(Grant(session, bytes, bytes, &span));
    return span;
  }
  Status Free(SessionId session, std::vector<RemoteSpan> spans) {
    FreeRequest request;
    request.session = session;
    request.spans = std::move(spans);
    return table_.Free(Peer(1), request);
  }
  Status Put(SessionId session, uint64_t version, std::vector<RemoteSpan> live) {
    PutManifestRequest request;
    request.session = session;
    request.version = version;
    request.manifest = "manifest " + std::to_string(version);
    request.live = std::move(live);
    return table_.PutManifest(Peer(1), request);
  }
  Status Close(SessionId session) {
    CloseDatabaseRequest request;
    request.session = session;
    return table_.Close(Peer(1), request);
  }
  Status Beat(SessionId session, uint64_t connection = 1) {
    HeartbeatRequest request;
    request.session = session;
    return table_.Heartbeat(Peer(connection), request);
  }
  Status Destroy(const std::string& name) {
    DestroyDatabaseRequest request;
    request.name = name;
    return table_.Destroy(request);
  }
  std::unique_ptr<MergeHold> Merge(SessionId session, std::vector<RemoteSpan> inputs) {
    std::unique_ptr<MergeHold> hold;
    EXPECT_OK(table_.BeginMerge(Peer(1), session, inputs, &hold));
    return hold;
  }
  // Besides the headers of databases.
  uint64_t used() {
    NodeStatisticsReply reply;
    table_.Describe(&reply);
    return reply.used_bytes - reply.databases * kHeader;
  }

  DatabaseTableOptions::Clock::time_point now_{};
  const std::unique_ptr<char[]> bytes_ = std::make_unique<char[]>(kCapacity);
  OwnMemory memory_{NodeId{1}, RegionId{}, bytes_.get(), kCapacity};
  DatabaseTable table_;
};

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

// Fails if a request makes the table keep, or do under its lock, what its sender chooses.
TEST_F(DatabaseTableTest, WhatOneRequestMayAskForIsBounded) {
  const SessionId session = OpenOk("a");
  RemoteSpan span;
  EXPECT_TRUE(Grant(session, UINT64_MAX, uint64_t{1} << 40, &span).IsInvalidArgument());
  const RemoteSpan table = GrantOk(session, kUnit);
  std::unique_ptr<MergeHold> hold;
  EXPECT_TRUE(table_.BeginMerge(Peer(1), session, {table, table}, &hold).IsInvalidArgument());
  OpenReaderRequest request;
  OpenReaderReply reply;
  request.databases = {"a", "a"};
  EXPECT_TRUE(table_.OpenReader(Peer(2), request, &reply).IsInvalidArgument());
  request.databases.assign(OpenReaderRequest::kDatabasesMax + 1, "");
  EXPECT_TRUE(OpenReaderRequest().Decode(request.Encode()).IsCorruption());
  request.databases.pop_back();
  EXPECT_OK(OpenReaderRequest().Decode(request.Encode()));
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

// Fails if memory of a handle that dies is lost, or its manifest's is not kept.
TEST_F(DatabaseTableTest, SessionEndFreesWhatIsNotLive) {
  SessionId session = OpenOk("a");
  const RemoteSpan first = GrantOk(session, 10 * kUnit);
  const RemoteSpan live = first.Sub(2 * kUnit, kUnit + 1);  // Its end is rounded up.
  ASSERT_OK(Put(session, 1, {live}));
  GrantOk(session, 20 * kUnit);
  EXPECT_EQ(used(), 30 * kUnit);
  now_ += seconds(10);
  table_.EndExpiredSessions();
  EXPECT_EQ(used(), kUnit + 64);
  EXPECT_TRUE(Free(session, {live}).IsIOError());
  session = OpenOk("a");
  ASSERT_OK(Free(session, {live}));  // Held again, by the new session...
  EXPECT_EQ(used(), kUnit + 64);     // ... but the manifest still needs it.
  ASSERT_OK(Put(session, 2, {}));
  EXPECT_EQ(used(), 0u);
}

// Fails if a handle that dies takes with it what its last manifest refers to.
TEST_F(DatabaseTableTest, FreedButLiveStaysUntilTheNextManifest) {
  SessionId session = OpenOk("a");
  const RemoteSpan a = GrantOk(session, kUnit);
  const RemoteSpan b = GrantOk(session, kUnit);
  ASSERT_OK(Put(session, 1, {a, b}));
  ASSERT_OK(Free(session, {a}));
  EXPECT_TRUE(Free(session, {a}).IsInvalidArgument());  // Twice.
  EXPECT_TRUE(Put(session, 2, {a, b}).IsInvalidArgument());
  EXPECT_EQ(used(), 2 * kUnit);
  ASSERT_OK(Put(session, 2, {b}));
  EXPECT_EQ(used(), kUnit);
  ASSERT_OK(Close(session));
  EXPECT_EQ(used(), kUnit);
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

// Fails if a request that comes twice is carried out twice: the second one may free what was
// granted in between, or take more for good.
TEST_F(DatabaseTableTest, RequestsThatComeTwiceAreCarriedOutOnce) {
  const SessionId session = OpenOk("db");
  GrantRequest grant;
  grant.session = session;
  grant.number = 1;
  grant.bytes = kUnit;
  GrantReply first;
  GrantReply again;
  ASSERT_OK(table_.Grant(Peer(1), grant, &first));
  ASSERT_OK(table_.Grant(Peer(1), grant, &again));
  EXPECT_EQ(first.extent, again.extent);
  EXPECT_EQ(used(), kUnit);
  FreeRequest free;
  free.session = session;
  free.number = 1;
  free.spans = {first.extent};
  ASSERT_OK(table_.Free(Peer(1), free));
  grant.number = 2;
  ASSERT_OK(table_.Grant(Peer(1), grant, &again));
  ASSERT_EQ(again.extent, first.extent) << "it is in use again";
  ASSERT_OK(table_.Free(Peer(1), free));
  EXPECT_EQ(used(), kUnit);
  free.number = 2;
  ASSERT_OK(table_.Free(Peer(1), free));
  EXPECT_EQ(used(), 0u);
}

// Fails if a session that asks for grants without end makes the memory node remember without end.
TEST_F(DatabaseTableTest, OnlyTheLastGrantsAreRemembered) {
  const SessionId session = OpenOk("db");
  GrantRequest grant;
  grant.session = session;
  grant.bytes = 64;
  GrantReply reply;
  for (grant.number = 1; grant.number <= GrantRequest::kGrantsRemembered + 1; ++grant.number) {
    ASSERT_OK(table_.Grant(Peer(1), grant, &reply));
  }
  const uint64_t before = used();
  grant.number = 1;
  ASSERT_OK(table_.Grant(Peer(1), grant, &reply));
  EXPECT_EQ(used(), before + 64) << "the first one is forgotten";
  grant.number = GrantRequest::kGrantsRemembered + 1;
  ASSERT_OK(table_.Grant(Peer(1), grant, &reply));
  EXPECT_EQ(used(), before + 64);
}

// Fails if a wrong free frees anything, or another database's memory can be touched.
TEST_F(DatabaseTableTest, WrongFreesFreeNothing) {
  const SessionId a = OpenOk("a");
  const SessionId b = OpenOk("b");
  const RemoteSpan of_a = GrantOk(a, 2 * kUnit);
  const RemoteSpan of_b = GrantOk(b, 2 * kUnit);
  RemoteSpan other_node = of_a;
  other_node.node = NodeId{2};
  RemoteSpan other_region = of_a;
  other_region.region = RegionId{9};
  const RemoteSpan outside{NodeId{1}, RegionId{0}, kCapacity, 64};
  const RemoteSpan overflowing{NodeId{1}, RegionId{0}, 64, ~uint64_t{0} - 10};
  for (const RemoteSpan& wrong :
       {of_b, other_node, other_region, outside, overflowing, of_a.Sub(1, 64), of_a.Sub(0, 64)}) {
    // With a good one before it, which must not be freed either; the last overlaps with it.
    const Status status = Free(a, {of_a.Sub(0, kUnit), wrong});
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_TRUE(Put(a, 1, {of_b}).IsInvalidArgument());
  }
  EXPECT_TRUE(Free(SessionId{12345}, {of_a}).IsIOError());
  EXPECT_EQ(used(), 4 * kUnit);
  EXPECT_OK(Free(a, {}));
  EXPECT_OK(Free(a, {of_a.Sub(0, 0)}));
  EXPECT_OK(Free(a, {of_a.Sub(0, kUnit), of_a.Sub(kUnit, kUnit)}));
  EXPECT_EQ(used(), 2 * kUnit);
}

// Fails if a full node does not say so, with the remedy, or does not recover.
TEST_F(DatabaseTableTest, FullIsSaid) {
  const SessionId session = OpenOk("a");
  RemoteSpan span;
  ASSERT_OK(Grant(session, 2 * kCapacity, kUnit, &span));  // What there is.
  EXPECT_EQ(span.bytes, kCapacity - kHeader);
  RemoteSpan more;
  Status full = Grant(session, kUnit, kUnit, &more);
  EXPECT_TRUE(full.IsBusy());
  EXPECT_THAT(full.ToString(), HasSubstr("memory node 1 is full: 1.0 MB of 1.0 MB used; delete "
                                         "data, or start Server with more memory"));
  ASSERT_OK(Free(session, {span.Sub(0, kUnit), span.Sub(2 * kUnit, kUnit)}));
  full = Grant(session, 2 * kUnit, 2 * kUnit, &more);
  EXPECT_TRUE(full.IsBusy());
  EXPECT_THAT(full.ToString(), HasSubstr("in one piece"));
  ASSERT_OK(Grant(session, 2 * kUnit, kUnit, &more));
  EXPECT_EQ(more.bytes, kUnit);
  EXPECT_TRUE(Grant(session, 0, 0, &more).IsInvalidArgument());
  EXPECT_TRUE(Grant(session, kUnit, kUnit + 1, &more).IsInvalidArgument());
  EXPECT_TRUE(Grant(session, ~uint64_t{0}, ~uint64_t{0}, &more).IsInvalidArgument());
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

// Fails if a database is made without a header, or remains half made, where there is no room.
TEST_F(DatabaseTableTest, AFullNodeTakesNoFurtherDatabase) {
  const SessionId session = OpenOk("a");
  const RemoteSpan all = GrantOk(session, kCapacity - kHeader);
  OpenDatabaseReply reply;
  const Status full = Open("b", 1, &reply);
  EXPECT_TRUE(full.IsBusy());
  EXPECT_THAT(full.ToString(), HasSubstr("no room for another database: memory node 1 is full"));
  EXPECT_EQ(table_.List().databases.size(), 1u);
  ASSERT_OK(Free(session, {all.Sub(0, kHeader)}));
  EXPECT_OK(Open("b", 1, &reply));
}

// Who opens a database waits where waiting helps. Fails if it is refused because of what a reader
// that may be dead keeps for no longer than its lease, or if that reader is not hurried.
TEST_F(DatabaseTableTest, RoomForADatabaseIsWaitedForWhereItIsComing) {
  const SessionId session = OpenOk("a");
  const RemoteSpan all = GrantOk(session, kCapacity - kHeader);
  HeartbeatRequest published;
  published.session = session;
  published.publications_from = 2;
  ASSERT_OK(table_.Heartbeat(Peer(1), published));
  OpenReaderReply reader;
  ASSERT_OK(table_.OpenReader(Peer(2), OpenReaderRequest{{"a"}}, &reader));
  ASSERT_OK(Free(session, {all.Sub(0, kHeader)}));
  OpenDatabaseReply reply;
  const Status full = Open("b", 1, &reply);
  EXPECT_TRUE(full.IsTimedOut()) << full.ToString();
  EXPECT_THAT(full.ToString(), HasSubstr("kept for readers"));
  ReaderHeartbeatReply heartbeat;
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, 0}, &heartbeat));
  EXPECT_TRUE(heartbeat.must_move);
  now_ += std::chrono::milliseconds(reader.lease_ms) + std::chrono::seconds(1);
  EXPECT_OK(Open("b", 1, &reply));
}

// An owner that has published closes, and leaves memory behind that it has not given back: of a
// merge whose answer was lost, say. Fails if nobody can follow any more, for that memory goes once
// no reader is left from before; or if it goes while one is left that may read there.
TEST_F(DatabaseTableTest, WhatAClosedSessionLeavesBehindNamesItsPublication) {
  const SessionId session = OpenOk("a");
  const RemoteSpan live = GrantOk(session, kUnit);
  GrantOk(session, kUnit);
  ASSERT_OK(Put(session, 1, {live}));
  OpenReaderReply early;
  ASSERT_OK(table_.OpenReader(Peer(2), OpenReaderRequest{{"a"}}, &early));
  ReaderHeartbeatReply renewed;
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{early.reader, 4}, &renewed));
  CloseDatabaseRequest close;
  close.session = session;
  close.unnamed_from = 5;
  ASSERT_OK(table_.Close(Peer(1), close));
  const auto used = [this] {
    NodeStatisticsReply statistics;
    table_.Describe(&statistics);
    return statistics.used_bytes;
  };
  EXPECT_EQ(used(), kHeader + 2 * kUnit);
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{early.reader, 5}, &renewed));
  EXPECT_EQ(used(), kHeader + kUnit);
  OpenReaderReply late;
  ASSERT_OK(table_.OpenReader(Peer(2), OpenReaderRequest{{"a"}}, &late));
  EXPECT_LE(late.whole_from, 5u);
}

// An owner that has published dies, and nobody knows how far it had got. Fails if what it leaves
// behind goes by the number that it told last, under readers of later publications; or if it stays
// when the next owner has told from where on it publishes.
TEST_F(DatabaseTableTest, WhatADeadSessionLeavesBehindWaitsForTheNextOwner) {
  const SessionId session = OpenOk("a");
  const RemoteSpan live = GrantOk(session, kUnit);
  GrantOk(session, kUnit);
  ASSERT_OK(Put(session, 1, {live}));
  HeartbeatRequest told;
  told.session = session;
  told.publications_from = 5;
  ASSERT_OK(table_.Heartbeat(Peer(1), told));
  OpenReaderReply reader;
  ASSERT_OK(table_.OpenReader(Peer(2), OpenReaderRequest{{"a"}}, &reader));
  ReaderHeartbeatReply renewed;
  now_ += seconds(9);
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, 7}, &renewed));
  now_ += seconds(1);
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, 7}, &renewed));
  EXPECT_TRUE(Beat(session).IsAborted());
  EXPECT_EQ(used(), 2 * kUnit);
  told.session = OpenOk("a", 3);
  EXPECT_EQ(used(), 2 * kUnit);
  told.publications_from = 9;
  ASSERT_OK(table_.Heartbeat(Peer(3), told));
  EXPECT_EQ(used(), 2 * kUnit);
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, 9}, &renewed));
  EXPECT_EQ(used(), kUnit);
}

// A merge is about to end when its owner, which has given the input back, has closed already. Fails
// if nobody can follow any more from then on, for the input counts as named by every publication.
TEST_F(DatabaseTableTest, WhatAMergeReadsPastTheCloseNamesItsPublication) {
  const SessionId session = OpenOk("a");
  const RemoteSpan input = GrantOk(session, kUnit);
  auto merge = Merge(session, {input});
  FreeRequest free;
  free.session = session;
  free.unnamed_from = 4;
  free.spans = {input};
  ASSERT_OK(table_.Free(Peer(1), free));
  ASSERT_OK(Put(session, 1, {}));
  ASSERT_OK(table_.Close(Peer(1), CloseDatabaseRequest{session, /*unnamed_from=*/5}));
  EXPECT_EQ(used(), kUnit);
  merge.reset();
  EXPECT_EQ(used(), 0u);
  OpenReaderReply reader;
  ASSERT_OK(table_.OpenReader(Peer(2), OpenReaderRequest{{"a"}}, &reader));
  EXPECT_LE(reader.whole_from, 5u);
}

// Fails if grants take what merges need to make room, or merges cannot have it.
TEST_F(DatabaseTableTest, MergesHaveAReserve) {
  EXPECT_EQ(DefaultMergeReserve(uint64_t{80} << 30), uint64_t{10} << 30);
  EXPECT_EQ(DefaultMergeReserve(uint64_t{640} << 20), uint64_t{130} << 20);
  EXPECT_EQ(DefaultMergeReserve(uint64_t{64} << 20), uint64_t{16} << 20);
  DatabaseTable table(Options(kCapacity / 4));
  OpenDatabaseRequest open;
  open.name = "a";
  open.create_if_missing = true;
  OpenDatabaseReply opened;
  ASSERT_OK(table.Open(Peer(1), open, &opened));
  GrantRequest grant;
  grant.session = opened.session;
  grant.bytes = kCapacity;
  grant.bytes_min = kUnit;
  GrantReply granted;
  ASSERT_OK(table.Grant(Peer(1), grant, &granted));
  EXPECT_EQ(granted.extent.bytes, kCapacity / 4 * 3 - kHeader);
  const Status full = table.Grant(Peer(1), grant, &granted);
  EXPECT_TRUE(full.IsBusy());
  EXPECT_THAT(full.ToString(), HasSubstr("kept for merges"));
  std::unique_ptr<MergeHold> hold;
  ASSERT_OK(table.BeginMerge(Peer(1), opened.session, {}, &hold));
  RemoteSpan output;
  ASSERT_OK(hold->AllocateOutput(kCapacity / 4, &output));
  EXPECT_TRUE(hold->AllocateOutput(1, &output).IsBusy());
  hold.reset();
}

// Fails if a span is reused while a merge reads it.
TEST_F(DatabaseTableTest, FreesUnderAMergeWait) {
  const SessionId session = OpenOk("a");
  const RemoteSpan span = GrantOk(session, 4 * kUnit);
  const RemoteSpan input = span.Sub(kUnit, 2 * kUnit);
  auto first = Merge(session, {input});
  auto second = Merge(session, {input.Sub(0, kUnit)});
  ASSERT_OK(Free(session, {span}));
  EXPECT_EQ(used(), 2 * kUnit);
  first.reset();
  EXPECT_EQ(used(), kUnit);
  ASSERT_OK(table_.CheckInvariants());
  second.reset();
  EXPECT_EQ(used(), 0u);
  std::unique_ptr<MergeHold> hold;
  EXPECT_TRUE(table_.BeginMerge(Peer(1), session, {input}, &hold).IsInvalidArgument());
}

// Fails if outputs leak, whether they are kept or not.
TEST_F(DatabaseTableTest, OutputsBelongToTheSessionOrNobody) {
  const SessionId session = OpenOk("a");
  RemoteSpan output;
  auto merge = Merge(session, {});
  ASSERT_OK(merge->AllocateOutput(3 * kUnit, &output));
  merge->ShrinkOutput(output, kUnit + 1);
  EXPECT_EQ(used(), kUnit + 64);
  ASSERT_OK(merge->KeepOutputs());
  merge.reset();
  EXPECT_OK(Free(session, {output.Sub(0, kUnit + 1)}));
  EXPECT_EQ(used(), 0u);

  merge = Merge(session, {});
  ASSERT_OK(merge->AllocateOutput(3 * kUnit, &output));
  merge.reset();  // Failed.
  EXPECT_EQ(used(), 0u);
}

// Fails if a merge runs on for nobody, or its outputs stay.
TEST_F(DatabaseTableTest, MergesEndWithTheirClients) {
  for (const bool by_connection : {true, false}) {
    const SessionId session = OpenOk("a");
    const RemoteSpan input = GrantOk(session, kUnit);
    auto merge = Merge(session, {input});
    RemoteSpan output;
    ASSERT_OK(merge->AllocateOutput(kUnit, &output));
    EXPECT_FALSE(merge->cancelled().load());
    if (by_connection) {
      table_.Disconnected(Peer(1));
    } else {
      ASSERT_OK(Close(session));
    }
    EXPECT_TRUE(merge->cancelled().load());
    EXPECT_TRUE(merge->KeepOutputs().IsAborted());
    now_ += seconds(3);
    table_.EndExpiredSessions();
    EXPECT_EQ(used(), 2 * kUnit);
    ASSERT_OK(table_.CheckInvariants());
    merge.reset();
    EXPECT_EQ(used(), 0u);
  }
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

// Whatever happens in whatever order, every byte has one owner, and nothing is left when all
// databases are gone.
TEST_F(DatabaseTableTest, NothingLeaks) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    struct Handle {
      SessionId session{};
      uint64_t version = 0;
      std::vector<RemoteSpan> spans;
      std::vector<std::pair<std::unique_ptr<MergeHold>, std::vector<RemoteSpan>>> merges;
    };
    std::map<std::string, Handle> handles;
    std::vector<std::unique_ptr<MergeHold>> orphans;
    const auto drop = [&](Handle& handle) {
      for (auto& [hold, outputs] : handle.merges) orphans.push_back(std::move(hold));
      handle = Handle();
    };
    for (int step = 0; step < 600; ++step) {
      const std::string name(1, static_cast<char>('a' + random.Uniform(3)));
      Handle& handle = handles[name];
      if (handle.session == SessionId{}) {
        OpenDatabaseReply reply;
        const Status status = Open(name, 1, &reply);
        if (!status.ok()) continue;
        handle.session = reply.session;
        handle.version = reply.manifest_version;
        continue;
      }
      switch (random.Uniform(9)) {
        case 0:
        case 1:
        case 2: {
          RemoteSpan span;
          if (Grant(handle.session, kUnit * (1 + random.Uniform(20)), kUnit, &span).ok()) {
            const uint64_t cut = span.bytes / 2 / 64 * 64;
            handle.spans.push_back(span.Sub(0, cut));
            handle.spans.push_back(span.Sub(cut, span.bytes - cut));
          }
          break;
        }
        case 3:
          if (!handle.spans.empty()) {
            ASSERT_OK(Free(handle.session, {handle.spans.back()}));
            handle.spans.pop_back();
          }
          break;
        case 4: {
          std::vector<RemoteSpan> live;
          for (const RemoteSpan& span : handle.spans) {
            if (random.OneIn(2)) live.push_back(span);
          }
          ASSERT_OK(Put(handle.session, ++handle.version, live));
          break;
        }
        case 5: {
          std::vector<RemoteSpan> inputs;
          for (const RemoteSpan& span : handle.spans) {
            if (random.OneIn(3)) inputs.push_back(span);
          }
          auto hold = Merge(handle.session, inputs);
          std::vector<RemoteSpan> outputs;
          RemoteSpan output;
          if (hold->AllocateOutput(kUnit * (1 + random.Uniform(10)), &output).ok()) {
            hold->ShrinkOutput(output, kUnit / 2);
            outputs.push_back(output.Sub(0, kUnit / 2));
          }
          handle.merges.emplace_back(std::move(hold), outputs);
          break;
        }
        case 6:
          if (!handle.merges.empty()) {
            auto [hold, outputs] = std::move(handle.merges.back());
            handle.merges.pop_back();
            if (random.OneIn(2)) {
              ASSERT_OK(hold->KeepOutputs());
              handle.spans.insert(handle.spans.end(), outputs.begin(), outputs.end());
            }
          }
          break;
        case 7:
          if (random.OneIn(4)) {
            ASSERT_OK(Close(handle.session));
            drop(handle);
            if (random.OneIn(3)) {
              const Status status = Destroy(name);
              ASSERT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
            }
          }
          break;
        default:
          if (random.OneIn(20)) {
            now_ += seconds(11);
            for (auto& [key, each] : handles) drop(each);
          }
          if (!orphans.empty() && random.OneIn(3)) orphans.pop_back();
      }
      ASSERT_OK(table_.CheckInvariants());
    }
    now_ += seconds(11);
    for (auto& [key, each] : handles) drop(each);
    orphans.clear();
    for (const auto& [key, each] : handles) Destroy(key).PermitUncheckedError();
    ASSERT_EQ(used(), 0u);
    ASSERT_OK(table_.CheckInvariants());
  }
}

}  // namespace
}  // namespace dlsm
