// What merges keep from use, and what becomes of their outputs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "memory_node/accounts/database_table_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/coding.h"
#include "util/rpc/messages/database_header.h"
#include "util/rpc/messages/merge_answers.h"
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
  ASSERT_OK(table.BeginMerge(Peer(1), opened.session, {}, {}, &hold));
  RemoteSpan output;
  ASSERT_OK(hold->AllocateOutput(kCapacity / 4, &output));
  EXPECT_TRUE(hold->AllocateOutput(1, &output).IsBusy());
  hold.reset();
  grant.for_merge = true;
  grant.bytes = grant.bytes_min = kCapacity / 4;
  ASSERT_OK(table.Grant(Peer(1), grant, &granted)) << "a merge on the compute node may, too";
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
  EXPECT_TRUE(table_.BeginMerge(Peer(1), session, {}, {input}, &hold).IsInvalidArgument());
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

class LostMergesTest : public DatabaseTableTest {
 protected:
  std::unique_ptr<MergeHold> Begin(uint64_t number, const MergeAnswers& answers,
                                   const std::vector<RemoteSpan>& inputs = {}) {
    std::unique_ptr<MergeHold> hold;
    EXPECT_OK(table_.BeginMerge(Peer(1), session_, {number, answers}, inputs, &hold));
    return hold;
  }
  // With no word of the answers to others.
  std::unique_ptr<MergeHold> Begin(uint64_t number) { return Begin(number, {}); }
  Status TryBegin(uint64_t number, uint64_t connection = 1) {
    std::unique_ptr<MergeHold> hold;
    return table_.BeginMerge(Peer(connection), session_, {number, {}}, {}, &hold);
  }
  // To its end, with an output of this many units.
  RemoteSpan Finish(std::unique_ptr<MergeHold> hold, uint64_t units) {
    RemoteSpan output;
    EXPECT_OK(hold->AllocateOutput(units * kUnit, &output));
    EXPECT_OK(hold->KeepOutputs());
    return output;
  }
  Status Tell(const MergeAnswers& answers) { return Beat(session_, 1, answers); }

  const SessionId session_ = OpenOk("a");
  uint64_t next_ = 1;  // The number of the next merge.
};

// Fails if what a merge has made whose answer was lost stays, if what others have made goes with
// it, or if what is told again takes anything more.
TEST_F(LostMergesTest, WhatTheyHaveMadeGoesOnceThatIsTold) {
  const RemoteSpan arrived = Finish(Begin(1), 1);
  const RemoteSpan lost = Finish(Begin(2), 2);
  const RemoteSpan awaited = Finish(Begin(3), 4);
  EXPECT_EQ(used(), 7 * kUnit);
  ASSERT_OK(table_.CheckInvariants());
  const MergeAnswers answers = {.next = 4, .awaited = {3}, .lost = {2}};
  ASSERT_OK(Tell(answers));
  EXPECT_EQ(used(), 5 * kUnit);
  ASSERT_OK(table_.CheckInvariants());
  EXPECT_EQ(GrantOk(session_, 2 * kUnit).offset, lost.offset) << "the same memory";
  ASSERT_OK(Tell(answers));
  EXPECT_EQ(used(), 7 * kUnit);
  ASSERT_OK(Tell({.next = 4, .awaited = {}, .lost = {2, 3}}));
  EXPECT_EQ(used(), 3 * kUnit);
  EXPECT_TRUE(Free(session_, {awaited}).IsInvalidArgument());
  EXPECT_OK(Free(session_, {arrived}));
  // The answer to a later one may be told to be lost with the request for another.
  Finish(Begin(4), 1);
  EXPECT_EQ(used(), 3 * kUnit);
  const auto next = Begin(5, {.next = 6, .awaited = {5}, .lost = {4}});
  EXPECT_EQ(used(), 2 * kUnit);
}

// Fails if a merge goes on for who has given it up, or keeps what it makes; or if it lets go of its
// inputs before it has ended.
TEST_F(LostMergesTest, OnesThatRunAreCancelled) {
  const RemoteSpan input = GrantOk(session_, kUnit);
  auto merge = Begin(1, {.next = 2, .awaited = {1}}, {input});
  RemoteSpan output;
  ASSERT_OK(merge->AllocateOutput(2 * kUnit, &output));
  const auto other = Begin(2, {.next = 3, .awaited = {1, 2}});
  EXPECT_FALSE(merge->cancelled().load());
  ASSERT_OK(Tell({.next = 3, .awaited = {2}, .lost = {1}}));
  EXPECT_TRUE(merge->cancelled().load());
  EXPECT_FALSE(other->cancelled().load());
  EXPECT_TRUE(merge->KeepOutputs().IsAborted());
  ASSERT_OK(Free(session_, {input}));
  EXPECT_EQ(used(), 3 * kUnit);
  ASSERT_OK(table_.CheckInvariants());
  merge.reset();
  EXPECT_EQ(used(), 0u);
}

// Fails if a request that comes after its merge was given up is carried out, as one that has lain
// on its way for long; or if one is carried out twice.
TEST_F(LostMergesTest, NumbersBeginOnceAndNotAfterTheyAreSettled) {
  ASSERT_OK(Tell({.next = 5, .awaited = {2, 4}, .lost = {1}}));
  EXPECT_TRUE(TryBegin(1).IsAborted());
  EXPECT_TRUE(TryBegin(3).IsAborted());
  EXPECT_OK(TryBegin(2));
  EXPECT_TRUE(TryBegin(2).IsAborted()) << "it has begun, and failed";
  EXPECT_OK(TryBegin(6)) << "its message is newer than any heartbeat";
  // What is older says nothing anew: 4 was given up by a message that has overtaken this one.
  ASSERT_OK(Tell({.next = 7, .awaited = {5}, .lost = {4}}));
  ASSERT_OK(Tell({.next = 5, .awaited = {2, 4}, .lost = {1}}));
  EXPECT_TRUE(TryBegin(4).IsAborted());
  EXPECT_OK(TryBegin(5));
  EXPECT_EQ(used(), 0u);
}

// Fails if a merge's number says that bytes are its own which are somebody else's by now.
TEST_F(LostMergesTest, WhatWasGivenBackIsNotGivenBackAgain) {
  const SessionId other = OpenOk("b");
  const RemoteSpan output = Finish(Begin(1), 4);
  ASSERT_OK(Free(session_, {output.Sub(kUnit, kUnit)}));
  const RemoteSpan theirs = GrantOk(other, kUnit);
  ASSERT_EQ(theirs.offset, output.offset + kUnit);
  ASSERT_OK(Tell({.next = 2, .awaited = {}, .lost = {1}}));
  ASSERT_OK(table_.CheckInvariants());
  EXPECT_EQ(used(), 4 * kUnit) << "who frees has heard of it";
  EXPECT_OK(Free(other, {theirs}));
}

// Fails if a client that tells of no answers makes the memory node remember without bound.
TEST_F(LostMergesTest, WhatIsRememberedIsBounded) {
  const uint64_t most = MergeAnswers::kNumbersMax;
  for (uint64_t number = 1; number <= most; ++number) ASSERT_OK(TryBegin(number));
  const Status refused = TryBegin(most + 1);
  EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("heartbeat"));
  EXPECT_OK(TryBegin(0)) << "of these nothing is remembered";
  ASSERT_OK(Tell({.next = most + 1}));
  EXPECT_OK(TryBegin(most + 1));
}

// Fails if an owner that was taken over, and does not know it, lets go of what is its successor's.
TEST_F(LostMergesTest, FormerOwnersAreNotHeard) {
  const RemoteSpan output = Finish(Begin(1), 1);
  ASSERT_OK(Put(session_, 1, {output}));
  OpenDatabaseRequest request;
  request.name = "a";
  request.take_over = true;
  OpenDatabaseReply claim;
  ASSERT_OK(table_.Open(Peer(2), request, &claim));
  EncodeFixed64(memory_.At(OwnershipWordIn(claim.header)), claim.ownership_word);
  EXPECT_TRUE(Tell({.next = 2, .awaited = {}, .lost = {1}}).IsIOFenced());
  request.claimed = claim.session;
  OpenDatabaseReply opened;
  ASSERT_OK(table_.Open(Peer(2), request, &opened));
  // It counts its own merges from 1.
  ASSERT_OK(Beat(opened.session, 2, {.next = 2, .awaited = {}, .lost = {1}}));
  EXPECT_EQ(used(), kUnit);
  ASSERT_OK(table_.CheckInvariants());
  EXPECT_TRUE(TryBegin(2).IsIOFenced());
}

// An answer to a running merge, and that to one that has ended, are given up in one message, which
// there is no memory to deal with. Fails if the first merge cannot end then, or anything is lost.
TEST_F(LostMergesTest, AMessageWithoutMemorySettlesNothing) {
  for (const char* place : {"byte ranges", "merge answers", "accounts: change"}) {
    for (int64_t made = 0; made < 3; ++made) {
      SCOPED_TRACE(testing::Message() << place << " " << made);
      auto running = Begin(next_);
      Finish(Begin(next_ + 1), 1);
      const MergeAnswers given_up{.next = next_ + 2, .awaited = {}, .lost = {next_, next_ + 1}};
      next_ += 2;
      bool told = true;
      {
        const port::FailingAllocationsAt failing(place, made);
        try {
          EXPECT_OK(Tell(given_up));
        } catch (const std::bad_alloc&) {
          told = false;
        }
      }
      ASSERT_OK(table_.CheckInvariants());
      EXPECT_EQ(running->cancelled(), told);
      RemoteSpan output;
      EXPECT_OK(running->AllocateOutput(kUnit, &output));
      EXPECT_EQ(running->KeepOutputs().ok(), !told);
      running.reset();
      ASSERT_OK(Tell(given_up));
      EXPECT_EQ(used(), 0u);
    }
  }
}

// Fails if a merge that there is no memory to begin keeps its inputs for good.
TEST_F(LostMergesTest, AMergeThatCannotBeginLetsItsInputsGo) {
  for (const char* place : {"memory node: merge begins", "accounts: change", "byte ranges"}) {
    for (int64_t made = 0; made < 6; ++made) {
      SCOPED_TRACE(testing::Message() << place << " " << made);
      const RemoteSpan span = GrantOk(session_, 3 * kUnit);
      const RemoteSpan input = span.Sub(kUnit, kUnit);
      {
        std::unique_ptr<MergeHold> hold;
        const port::FailingAllocationsAt failing(place, made);
        try {
          EXPECT_OK(table_.BeginMerge(Peer(1), session_, {next_++, {}}, {input}, &hold));
        } catch (const std::bad_alloc&) {
          EXPECT_EQ(hold, nullptr);
        }
      }
      ASSERT_OK(table_.CheckInvariants());
      EXPECT_OK(Free(session_, {span}));
      table_.EndExpiredSessions();
      EXPECT_EQ(used(), 0u);
    }
  }
}

// Fails if what a merge had is lost because there was no memory when it ended.
TEST_F(LostMergesTest, AMergeThatEndsWithoutMemoryEndsLater) {
  for (const char* place : {"accounts: change", "reader leases: retired"}) {
    SCOPED_TRACE(place);
    const RemoteSpan span = GrantOk(session_, 3 * kUnit);
    auto merge = Begin(0, {}, {span.Sub(kUnit, kUnit)});
    RemoteSpan output;
    EXPECT_OK(merge->AllocateOutput(kUnit, &output));
    EXPECT_OK(Free(session_, {span.Sub(kUnit, kUnit)}));
    EXPECT_EQ(used(), 4 * kUnit);
    {
      const port::FailingAllocationsAt failing(place);
      merge.reset();
      EXPECT_GT(failing.failed(), 0u);
      EXPECT_EQ(used(), 4 * kUnit);
    }
    ASSERT_OK(table_.CheckInvariants());
    table_.EndExpiredSessions();
    EXPECT_EQ(used(), 2 * kUnit);
    EXPECT_OK(Free(session_, {span.Sub(0, kUnit), span.Sub(2 * kUnit, kUnit)}));
    EXPECT_EQ(used(), 0u);
  }
}

}  // namespace
}  // namespace dlsm
