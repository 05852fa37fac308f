// What is kept for readers, by the publications that owners tell. The rules themselves are
// reader_leases_test.cc's subject.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "memory_node/accounts/access_revoker.h"
#include "memory_node/accounts/database_table_testing.h"
#include "util/eventually_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// Who opens a database waits where waiting helps. Fails if it is refused because of what a reader
// that may be dead keeps for no longer than its lease, or if that reader is not hurried.
TEST_F(DatabaseTableTest, RoomForADatabaseIsWaitedForWhereItIsComing) {
  const SessionId session = OpenOk("a");
  const RemoteSpan all = GrantOk(session, kCapacity - kHeader);
  ASSERT_OK(Beat(session, 1, {}, /*publications_from=*/2));
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

// A merge asks for its outputs' memory in one large piece first. Fails if a reader is pressed to
// let go of what it keeps, and is renewed no more, though a smaller piece will do; or if it is not
// where there is none.
TEST_F(DatabaseTableTest, OnlyAMergeThatGetsNoMemoryPressesReaders) {
  const SessionId session = OpenOk("a");
  const RemoteSpan all = GrantOk(session, kCapacity - kHeader);
  ASSERT_OK(Beat(session, 1, {}, /*publications_from=*/2));
  ASSERT_OK(Free(session, {all.Sub(0, 2 * kUnit)}));
  OpenReaderReply reader;
  ASSERT_OK(table_.OpenReader(Peer(2), OpenReaderRequest{{"a"}}, &reader));
  ASSERT_OK(Free(session, {all.Sub(4 * kUnit, 4 * kUnit)}));

  RemoteSpan output;
  auto merge = Merge(session, {});
  EXPECT_TRUE(merge->AllocateOutput(3 * kUnit, &output).IsBusy());
  EXPECT_OK(merge->AllocateOutput(2 * kUnit, &output));
  merge.reset();
  ReaderHeartbeatReply heartbeat;
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, 0}, &heartbeat));
  EXPECT_FALSE(heartbeat.must_move);

  merge = Merge(session, {});
  EXPECT_OK(merge->AllocateOutput(2 * kUnit, &output));
  const Status full = merge->AllocateOutput(kUnit, &output);
  EXPECT_TRUE(full.IsBusy());
  EXPECT_THAT(full.ToString(), HasSubstr("kept for readers"));
  merge.reset();
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, 0}, &heartbeat));
  EXPECT_TRUE(heartbeat.must_move);
}

// A revocation frees what a session has left behind while a reader is taken up. Fails if the reader
// is told that older publications are whole, which may name these bytes.
TEST_F(DatabaseTableTest, AReaderIsToldOfWhatIsFreedWhileItIsTakenUp) {
  AccessRevoker revoker;
  std::atomic<bool> may_confirm{false};
  revoker.SetCutOff(
      [&](const std::string&) { return may_confirm ? Status::OK() : Status::TimedOut("not yet"); });
  int looks_at_the_clock = -1;  // Those of OpenReader().
  DatabaseTableOptions options = Options(0);
  options.revoker = &revoker;
  options.clock = [&] {
    // The last one is between what is found out of the database and the reader's beginning.
    if (looks_at_the_clock >= 0 && ++looks_at_the_clock == 2) {
      may_confirm = true;
      EXPECT_TRUE(Eventually([&] { return revoker.statistics().pending == 0; }));
    }
    return now_;
  };
  DatabaseTable table(options);
  RpcPeer owner = Peer(1);
  owner.data_token = "token";
  OpenDatabaseRequest open;
  open.name = "a";
  open.create_if_missing = true;
  OpenDatabaseReply opened;
  ASSERT_OK(table.Open(owner, open, &opened));
  GrantReply granted;
  ASSERT_OK(table.Grant(
      owner, GrantRequest{.session = opened.session, .bytes = 2 * kUnit, .bytes_min = 2 * kUnit},
      &granted));
  PutManifestRequest manifest;
  manifest.session = opened.session;
  manifest.version = 1;
  manifest.live = {granted.extent.Sub(0, kUnit)};
  ASSERT_OK(table.PutManifest(owner, manifest));
  ASSERT_OK(table.Close(owner, CloseDatabaseRequest{opened.session, /*unnamed_from=*/7}));

  looks_at_the_clock = 0;
  OpenReaderReply reader;
  ASSERT_OK(table.OpenReader(Peer(2), OpenReaderRequest{{"a"}}, &reader));
  EXPECT_EQ(looks_at_the_clock, 2);
  EXPECT_EQ(reader.whole_from, 7u);
  EXPECT_OK(table.CheckInvariants());
  revoker.Stop();
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
  ASSERT_OK(Beat(session, 1, {}, /*publications_from=*/5));
  OpenReaderReply reader;
  ASSERT_OK(table_.OpenReader(Peer(2), OpenReaderRequest{{"a"}}, &reader));
  ReaderHeartbeatReply renewed;
  now_ += seconds(9);
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, 7}, &renewed));
  now_ += seconds(1);
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, 7}, &renewed));
  EXPECT_TRUE(Beat(session).IsAborted());
  EXPECT_EQ(used(), 2 * kUnit);
  const SessionId next = OpenOk("a", 3);
  EXPECT_EQ(used(), 2 * kUnit);
  ASSERT_OK(Beat(next, 3, {}, /*publications_from=*/9));
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

}  // namespace
}  // namespace dlsm
