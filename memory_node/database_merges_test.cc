// What merges keep from use, and what becomes of their outputs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "memory_node/database_table_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

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

}  // namespace
}  // namespace dlsm
