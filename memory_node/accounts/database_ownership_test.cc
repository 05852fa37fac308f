// Ownership of databases: words in their headers, claims, and what a fenced session can still do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "memory_node/accounts/database_table.h"
#include "util/coding.h"
#include "util/random.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr uint64_t kOwnedCapacity = uint64_t{1} << 20;
constexpr uint64_t kOwnedUnit = 4096;

class OwnershipTest : public testing::TestWithParam<bool> {
 protected:
  ~OwnershipTest() override { EXPECT_OK(table_.CheckInvariants()); }

  DatabaseTableOptions Options() {
    DatabaseTableOptions options;
    options.node = NodeId{1};
    options.memory = &memory_;
    options.capacity_bytes = kOwnedCapacity;
    options.clients_map_memory = GetParam();
    options.clock = [this] { return now_; };
    return options;
  }
  static RpcPeer Peer(uint64_t connection) {
    return RpcPeer{connection, "client " + std::to_string(connection)};
  }

  // The steps of a client, one by one.
  Status Ask(uint64_t connection, bool take_over, OpenDatabaseReply* reply) {
    OpenDatabaseRequest request;
    request.name = "a";
    request.create_if_missing = true;
    request.take_over = take_over;
    return table_.Open(Peer(connection), request, reply);
  }
  bool Swap(const OpenDatabaseReply& reply) {
    QueuePair* queue_pair;
    EXPECT_OK(memory_.ForThisThread(NodeId{1}, &queue_pair));
    uint64_t prior = 0;
    Ticket ticket{};
    EXPECT_OK(queue_pair->PostCompareAndSwap(OwnershipWordIn(reply.header), reply.ownership_before,
                                             reply.ownership_word, &prior, Purpose::kRpc, &ticket));
    return prior == reply.ownership_before;
  }
  Status Confirm(uint64_t connection, SessionId session, OpenDatabaseReply* reply) {
    OpenDatabaseRequest request;
    request.name = "a";
    request.claimed = session;
    return table_.Open(Peer(connection), request, reply);
  }
  Status Take(uint64_t connection, bool take_over, OpenDatabaseReply* reply) {
    const Status asked = Ask(connection, take_over, reply);
    if (!asked.ok()) return asked;
    Swap(*reply);
    return Confirm(connection, reply->session, reply);
  }
  OpenDatabaseReply TakeOk(uint64_t connection, bool take_over) {
    OpenDatabaseReply reply;
    EXPECT_OK(Take(connection, take_over, &reply));
    return reply;
  }

  Status Grant(const OpenDatabaseReply& as, uint64_t connection, RemoteSpan* span) {
    GrantRequest request{.session = as.session, .bytes = kOwnedUnit, .bytes_min = kOwnedUnit};
    GrantReply reply;
    const Status status = table_.Grant(Peer(connection), request, &reply);
    *span = reply.extent;
    return status;
  }
  Status Put(const OpenDatabaseReply& as, uint64_t connection, uint64_t version,
             std::vector<RemoteSpan> live) {
    PutManifestRequest request;
    request.session = as.session;
    request.version = version;
    request.manifest = "by " + std::to_string(connection);
    request.live = std::move(live);
    return table_.PutManifest(Peer(connection), request);
  }
  Status Close(const OpenDatabaseReply& as, uint64_t connection) {
    return table_.Close(Peer(connection), CloseDatabaseRequest{as.session});
  }
  // The second has swapped its word in, and nobody has noticed yet.
  void SwapUnnoticed(OpenDatabaseReply* first, OpenDatabaseReply* second) {
    *first = TakeOk(1, /*take_over=*/false);
    EXPECT_OK(Put(*first, 1, 1, {}));
    EXPECT_OK(Ask(2, /*take_over=*/true, second));
    EXPECT_TRUE(Swap(*second));
  }
  struct Owners {
    OpenDatabaseReply first;  // Has let go of nothing.
    OpenDatabaseReply second;
    RemoteSpan span;  // The first one's.
  };
  // The second has taken over from the first. `live`: the manifest names the span.
  Owners TakeInTurn(bool live) {
    Owners owners;
    owners.first = TakeOk(1, /*take_over=*/false);
    EXPECT_OK(Grant(owners.first, 1, &owners.span));
    std::vector<RemoteSpan> named;
    if (live) named.push_back(owners.span);
    EXPECT_OK(Put(owners.first, 1, 1, named));
    owners.second = TakeOk(2, /*take_over=*/true);
    EXPECT_OK(Put(owners.second, 2, 2, named));
    return owners;
  }
  // A reader of the database that uses `publication`.
  ReaderId ReadAt(uint64_t publication) {
    OpenReaderReply reader;
    EXPECT_OK(table_.OpenReader(Peer(3), OpenReaderRequest{{"a"}}, &reader));
    ReaderHeartbeatReply renewed;
    EXPECT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader.reader, publication}, &renewed));
    return reader.reader;
  }
  uint64_t used() {
    NodeStatisticsReply reply;
    table_.Describe(&reply);
    return reply.used_bytes;
  }

  DatabaseTableOptions::Clock::time_point now_{};
  const std::unique_ptr<char[]> bytes_ = std::make_unique<char[]>(kOwnedCapacity);
  OwnMemory memory_{NodeId{1}, RegionId{}, bytes_.get(), kOwnedCapacity};
  DatabaseTable table_{Options()};
};

// Fails if an epoch is given out twice, or forgotten while nobody has the database open.
TEST_P(OwnershipTest, EpochsGrowWithEachOpen) {
  uint32_t before = 0;
  for (uint64_t i = 1; i < 20; ++i) {
    const OpenDatabaseReply opened = TakeOk(i, /*take_over=*/i % 3 == 0);
    const OwnershipWord word = OwnershipWord::Of(opened.ownership_word);
    EXPECT_GT(word.epoch, before);
    EXPECT_NE(word.tag, 0u);
    before = word.epoch;
    ASSERT_OK(Put(opened, i, i, {}));
    if (i % 3 != 2) {
      ASSERT_OK(Close(opened, i));
    }
  }
}

// A former owner lets go of what it had when its successor has closed already. Fails if nobody can
// follow any more from then on, for that memory counts as named by every publication.
TEST_P(OwnershipTest, WhatIsLetGoLateWasNamedByNoneOfTheLast) {
  const auto [first, second, span] = TakeInTurn(/*live=*/false);
  OpenReaderReply reader;
  ASSERT_OK(table_.OpenReader(Peer(3), OpenReaderRequest{{"a"}}, &reader));
  ASSERT_OK(table_.Close(Peer(2), CloseDatabaseRequest{second.session, /*unnamed_from=*/9}));
  EXPECT_FALSE(Close(first, 1).ok()) << "it is told that it was taken over";
  ASSERT_OK(table_.CloseReader(CloseReaderRequest{reader.reader}));
  EXPECT_EQ(used(), kDatabaseHeaderBytes);
  ASSERT_OK(table_.OpenReader(Peer(3), OpenReaderRequest{{"a"}}, &reader));
  EXPECT_LE(reader.whole_from, 9u);
}

// The same, when the database has been destroyed meanwhile, under a follower of its last
// publication. Fails if that reads what is somebody else's by then.
TEST_P(OwnershipTest, WhatIsLetGoAfterADestroyWaitsForReaders) {
  const auto [first, second, span] = TakeInTurn(/*live=*/true);
  const ReaderId reader = ReadAt(9);
  ASSERT_OK(table_.Close(Peer(2), CloseDatabaseRequest{second.session, /*unnamed_from=*/9}));
  ASSERT_OK(table_.Destroy(DestroyDatabaseRequest{"a"}));
  EXPECT_FALSE(Close(first, 1).ok());
  EXPECT_EQ(used(), kDatabaseHeaderBytes + kOwnedUnit);
  ASSERT_OK(table_.CloseReader(CloseReaderRequest{reader}));
  EXPECT_EQ(used(), 0u);
}

// The same, when the next owner has given up what the last one published, and has not told yet from
// where on it publishes itself. Fails if that counts as given up by the last one.
TEST_P(OwnershipTest, WhatIsLetGoUnderAnOwnerThatHasNotToldWaitsForReaders) {
  const auto [first, second, span] = TakeInTurn(/*live=*/true);
  const ReaderId reader = ReadAt(9);
  ASSERT_OK(table_.Close(Peer(2), CloseDatabaseRequest{second.session, /*unnamed_from=*/9}));
  const OpenDatabaseReply third = TakeOk(4, /*take_over=*/false);
  FreeRequest free;
  free.session = third.session;
  free.unnamed_from = FreeRequest::kPublicationsUnknown;
  free.spans = {span};
  ASSERT_OK(table_.Free(Peer(4), free));
  ASSERT_OK(Put(third, 4, 3, {}));
  EXPECT_FALSE(Close(first, 1).ok());
  EXPECT_EQ(used(), kDatabaseHeaderBytes + kOwnedUnit);
  HeartbeatRequest told;
  told.session = third.session;
  told.publications_from = 10;
  ASSERT_OK(table_.Heartbeat(Peer(4), told));
  EXPECT_EQ(used(), kDatabaseHeaderBytes + kOwnedUnit);
  ReaderHeartbeatReply renewed;
  ASSERT_OK(table_.RenewReader(ReaderHeartbeatRequest{reader, 10}, &renewed));
  EXPECT_EQ(used(), kDatabaseHeaderBytes);
}

// A handle that was taken over lets go when the database has been closed, and opened and closed by
// two that published nothing: one only looked, the other's open failed behind its swap. Fails if
// they make it unknown what was published last.
TEST_P(OwnershipTest, WhoHasToldNothingHasPublishedNothing) {
  const auto [first, second, span] = TakeInTurn(/*live=*/false);
  ASSERT_OK(table_.Close(Peer(2), CloseDatabaseRequest{second.session, /*unnamed_from=*/9}));
  OpenDatabaseReply looks;
  ASSERT_OK(Ask(4, /*take_over=*/false, &looks));
  ASSERT_OK(Close(looks, 4));
  ASSERT_OK(Close(TakeOk(5, /*take_over=*/false), 5));
  EXPECT_FALSE(Close(first, 1).ok()) << "it is told that it was taken over";
  EXPECT_EQ(used(), kDatabaseHeaderBytes);
  OpenReaderReply reader;
  ASSERT_OK(table_.OpenReader(Peer(3), OpenReaderRequest{{"a"}}, &reader));
  EXPECT_LE(reader.whole_from, 9u);
}

// Who opened the database last has given up what was published, and closed without a word. Fails if
// that counts as having changed nothing: a follower may read it.
TEST_P(OwnershipTest, WhoHasGivenBackMemoryHasChangedWhatWasTold) {
  const auto [first, second, span] = TakeInTurn(/*live=*/true);
  const ReaderId reader = ReadAt(9);
  ASSERT_OK(table_.Close(Peer(2), CloseDatabaseRequest{second.session, /*unnamed_from=*/9}));
  const OpenDatabaseReply third = TakeOk(4, /*take_over=*/false);
  ASSERT_OK(Put(third, 4, 3, {}));
  ASSERT_OK(Close(third, 4));
  EXPECT_FALSE(Close(first, 1).ok());
  EXPECT_EQ(used(), kDatabaseHeaderBytes + kOwnedUnit);
  ASSERT_OK(table_.CloseReader(CloseReaderRequest{reader}));
  EXPECT_EQ(used(), kDatabaseHeaderBytes);
}

// The answer to an open got lost, and its client asks again over the same connection. Fails if it
// is told that the database is open, by itself; or if a session that it may know is ended.
TEST_P(OwnershipTest, WhoAsksAgainHasNotHeardOfTheFirstAnswer) {
  OpenDatabaseReply lost;
  ASSERT_OK(Ask(1, /*take_over=*/false, &lost));
  OpenDatabaseReply other;
  EXPECT_TRUE(Ask(2, /*take_over=*/false, &other).IsBusy());
  const OpenDatabaseReply opened = TakeOk(1, /*take_over=*/false);
  EXPECT_FALSE(Swap(lost));
  RemoteSpan span;
  ASSERT_OK(Grant(opened, 1, &span));
  ASSERT_OK(Put(opened, 1, 1, {span}));
  EXPECT_TRUE(Ask(1, /*take_over=*/false, &other).IsBusy()) << "its word is in place";
  ASSERT_OK(Close(opened, 1));

  ASSERT_OK(Ask(1, /*take_over=*/false, &lost));
  OpenDatabaseReply again;
  ASSERT_OK(Ask(1, /*take_over=*/false, &again));
  EXPECT_EQ(again.manifest, "by 1");
  EXPECT_TRUE(Grant(lost, 1, &span).IsIOError());
  ASSERT_OK(Grant(again, 1, &span));  // Without the swap, but it has the answer.
  EXPECT_TRUE(Ask(1, /*take_over=*/false, &other).IsBusy());
  ASSERT_OK(Close(again, 1));
  EXPECT_EQ(used(), kDatabaseHeaderBytes + kOwnedUnit);

  OpenDatabaseReply heard;
  ASSERT_OK(Ask(1, /*take_over=*/false, &heard));
  EXPECT_TRUE(Swap(heard));  // And has called nobody since.
  EXPECT_TRUE(Ask(1, /*take_over=*/false, &other).IsBusy());
  ASSERT_OK(Confirm(1, heard.session, &heard));
  ASSERT_OK(Close(heard, 1));
}

// Fails if any call of a fenced session has an effect, from the swap on, whether or not the memory
// node has been told of it; or if it does not say who took over.
TEST_P(OwnershipTest, AFencedSessionCanDoNothing) {
  for (const bool confirmed : {false, true}) {
    const OpenDatabaseReply old = TakeOk(1, /*take_over=*/true);
    RemoteSpan span;
    ASSERT_OK(Grant(old, 1, &span));
    ASSERT_OK(Put(old, 1, old.manifest_version + 1, {span}));
    OpenDatabaseReply heir;
    ASSERT_OK(Ask(2, /*take_over=*/true, &heir));
    EXPECT_EQ(heir.manifest, "") << "it may still change";
    RemoteSpan more;
    EXPECT_OK(Grant(old, 1, &more)) << "nothing is taken yet";
    EXPECT_TRUE(Grant(heir, 2, &more).IsInvalidArgument()) << "nor owned";
    ASSERT_TRUE(Swap(heir));
    if (confirmed) {
      ASSERT_OK(Confirm(2, heir.session, &heir));
    }
    const Status fenced = Grant(old, 1, &more);
    EXPECT_TRUE(fenced.IsIOFenced() && fenced.IsIOError()) << fenced.ToString();
    EXPECT_THAT(fenced.ToString(), HasSubstr("ownership of database 'a' was taken by client 2"));
    EXPECT_TRUE(Put(old, 1, 99, {}).IsIOFenced());
    EXPECT_TRUE(
        table_.Free(Peer(1), FreeRequest{.session = old.session, .spans = {span}}).IsIOFenced());
    EXPECT_TRUE(table_.Heartbeat(Peer(1), HeartbeatRequest{old.session}).IsIOFenced());
    std::unique_ptr<MergeHold> hold;
    EXPECT_TRUE(table_.BeginMerge(Peer(1), old.session, {}, {}, &hold).IsIOFenced());
    ASSERT_OK(Confirm(2, heir.session, &heir));
    EXPECT_EQ(heir.manifest, "by 1");
    EXPECT_TRUE(Close(old, 1).IsIOFenced());
    ASSERT_OK(table_.CheckInvariants());
    ASSERT_OK(Put(heir, 2, heir.manifest_version + 1, {span}));
    ASSERT_OK(Close(heir, 2));
  }
  EXPECT_EQ(table_.take_overs(), 2u);
}

// Fails if a merge of the old owner's adds to what the new one has.
TEST_P(OwnershipTest, MergesEndWithTheirOwner) {
  const OpenDatabaseReply old = TakeOk(1, false);
  std::unique_ptr<MergeHold> hold;
  ASSERT_OK(table_.BeginMerge(Peer(1), old.session, {}, {}, &hold));
  RemoteSpan output;
  ASSERT_OK(hold->AllocateOutput(kOwnedUnit, &output));
  OpenDatabaseReply heir;
  ASSERT_OK(Ask(2, true, &heir));
  ASSERT_TRUE(Swap(heir));
  EXPECT_TRUE(hold->KeepOutputs().IsAborted());
  EXPECT_TRUE(hold->cancelled().load());
  hold.reset();
  ASSERT_OK(Confirm(2, heir.session, &heir));
}

// Fails if memory that the old owner can still reach is given to anybody, what is live and freed by
// the new one included; or if it is not given back when the old one has let go.
TEST_P(OwnershipTest, MemoryWaitsUntilTheOldOwnerHasLetGo) {
  for (const bool by_close : {false, true}) {
    const OpenDatabaseReply old = TakeOk(1, false);
    RemoteSpan live;
    RemoteSpan pool;
    ASSERT_OK(Grant(old, 1, &live));
    ASSERT_OK(Grant(old, 1, &pool));
    RemoteSpan freed;  // By the old owner, but live: it may still be reading it.
    ASSERT_OK(Grant(old, 1, &freed));
    ASSERT_OK(Put(old, 1, old.manifest_version + 1, {live, freed}));
    ASSERT_OK(table_.Free(Peer(1), FreeRequest{.session = old.session, .spans = {freed}}));
    OpenDatabaseReply heir = TakeOk(2, true);
    EXPECT_EQ(used(), kDatabaseHeaderBytes + (GetParam() ? 3 : 2) * kOwnedUnit);
    ASSERT_OK(table_.Free(Peer(2), FreeRequest{.session = heir.session, .spans = {live, freed}}));
    ASSERT_OK(Put(heir, 2, heir.manifest_version + 1, {}));
    EXPECT_EQ(used(), kDatabaseHeaderBytes + (GetParam() ? 3 * kOwnedUnit : 0));
    EXPECT_EQ(table_.List().databases[0].bytes, used());
    ASSERT_OK(table_.CheckInvariants());
    now_ += seconds(5);
    ASSERT_OK(table_.Heartbeat(Peer(2), HeartbeatRequest{heir.session}));
    now_ += seconds(6);  // The old owner's lease is no matter any more.
    ASSERT_OK(table_.Heartbeat(Peer(2), HeartbeatRequest{heir.session}));
    EXPECT_EQ(used(), kDatabaseHeaderBytes + (GetParam() ? 3 * kOwnedUnit : 0));
    if (by_close) {
      EXPECT_TRUE(Close(old, 1).IsIOFenced());
    } else {
      table_.Disconnected(Peer(1));
      now_ += seconds(2);
      table_.EndExpiredSessions();
    }
    EXPECT_EQ(used(), kDatabaseHeaderBytes);
    ASSERT_OK(Close(heir, 2));
  }
}

// The old owner's connection breaks just before it is taken over, or just after that; it lives,
// does not know yet, and makes another connection. Fails if what it can still write to is given to
// others meanwhile, or for ever kept from them.
TEST_P(OwnershipTest, WhoHasLostAConnectionHasNotLetGo) {
  for (const bool before : {true, false}) {
    const OpenDatabaseReply old = TakeOk(1, false);
    RemoteSpan pool;
    ASSERT_OK(Grant(old, 1, &pool));
    ASSERT_OK(Put(old, 1, old.manifest_version + 1, {}));
    if (before) table_.Disconnected(Peer(1));
    const OpenDatabaseReply heir = TakeOk(2, true);
    if (!before) table_.Disconnected(Peer(1));
    table_.EndExpiredSessions();
    const uint64_t kept = kDatabaseHeaderBytes + (GetParam() ? kOwnedUnit : 0);
    EXPECT_EQ(used(), kept) << "it may be about to call";
    EXPECT_TRUE(table_.Heartbeat(Peer(3), HeartbeatRequest{old.session}).IsIOFenced());
    now_ += seconds(5);
    table_.EndExpiredSessions();
    EXPECT_EQ(used(), kept) << "it is told, and may be in the middle of a table";
    table_.Disconnected(Peer(3));
    now_ += seconds(2);
    table_.EndExpiredSessions();
    EXPECT_EQ(used(), kDatabaseHeaderBytes);
    ASSERT_OK(Close(heir, 2));
  }
}

// The old owner has died, and is taken over before its session has ended. Fails if what it had is
// kept for ever.
TEST_P(OwnershipTest, WhoIsNotHeardOfAgainHasLetGo) {
  const OpenDatabaseReply old = TakeOk(1, false);
  RemoteSpan pool;
  ASSERT_OK(Grant(old, 1, &pool));
  ASSERT_OK(Put(old, 1, 1, {}));
  table_.Disconnected(Peer(1));
  TakeOk(2, true);
  now_ += seconds(2);
  table_.EndExpiredSessions();
  EXPECT_EQ(used(), kDatabaseHeaderBytes);
}

// Fails if both of two that race for a database own it, or neither does, in any order of their
// steps; or if the loser is not told who has it.
TEST_P(OwnershipTest, OneOfTwoWinsEachEpoch) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    OpenDatabaseReply former = TakeOk(9, true);
    ASSERT_OK(Put(former, 9, former.manifest_version + 1, {}));
    if (random.OneIn(2)) {
      ASSERT_OK(Close(former, 9));
    }
    struct Racer {
      int step = 0;
      bool take_over = true;
      OpenDatabaseReply reply;
      Status outcome = Status::Busy("not asked");
    };
    Racer racers[2];
    racers[0].take_over = !random.OneIn(3);
    while (racers[0].step < 3 || racers[1].step < 3) {
      const uint64_t i = random.Uniform(2);
      Racer& racer = racers[i];
      switch (racer.step++) {
        case 0:
          racer.outcome.PermitUncheckedError();
          racer.outcome = Ask(i + 1, racer.take_over, &racer.reply);
          if (!racer.outcome.ok()) racer.step = 3;
          break;
        case 1:
          Swap(racer.reply);
          break;
        case 2:
          racer.outcome = Confirm(i + 1, racer.reply.session, &racer.reply);
          break;
        default:
          break;
      }
      ASSERT_OK(table_.CheckInvariants());
    }
    int owners = 0;
    uint32_t epochs[2] = {0, 0};
    for (uint64_t i = 0; i < 2; ++i) {
      RemoteSpan span;
      const bool owns = racers[i].outcome.ok() && Grant(racers[i].reply, i + 1, &span).ok();
      owners += owns ? 1 : 0;
      if (racers[i].outcome.ok()) {
        epochs[i] = OwnershipWord::Of(racers[i].reply.ownership_word).epoch;
      } else {
        EXPECT_TRUE(racers[i].outcome.IsBusy()) << racers[i].outcome.ToString();
        EXPECT_THAT(racers[i].outcome.ToString(), HasSubstr("client"));
      }
    }
    EXPECT_EQ(owners, 1);
    EXPECT_NE(epochs[0], epochs[1]) << "one epoch has one owner";
    for (const uint64_t connection : {1, 2, 9}) table_.Disconnected(Peer(connection));
    now_ += seconds(3);
    table_.EndExpiredSessions();
  }
}

// Fails if a take-over that was cut short anywhere leaves a database that nobody can open.
TEST_P(OwnershipTest, HalfATakeOverCanBeRepeated) {
  for (const bool swapped : {false, true}) {
    const OpenDatabaseReply old = TakeOk(1, true);
    ASSERT_OK(Put(old, 1, old.manifest_version + 1, {}));
    OpenDatabaseReply dies;
    ASSERT_OK(Ask(2, true, &dies));
    if (swapped) {
      ASSERT_TRUE(Swap(dies));
    }
    OpenDatabaseReply refused;
    const Status busy = Ask(3, false, &refused);
    EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
    const OpenDatabaseReply heir = TakeOk(3, true);
    EXPECT_EQ(heir.manifest, "by 1");
    const Status late = Confirm(2, dies.session, &dies);
    EXPECT_TRUE(late.IsBusy()) << late.ToString();
    EXPECT_THAT(late.ToString(), HasSubstr("is open by client 3"));
    ASSERT_OK(Close(heir, 3));
    ASSERT_OK(Take(4, false, &refused));
    ASSERT_OK(Close(refused, 4));
  }
}

// Fails if a claim that nobody confirms keeps the database, or its header, for ever.
TEST_P(OwnershipTest, ClaimsRunOut) {
  OpenDatabaseReply owner = TakeOk(1, false);
  OpenDatabaseReply claim;
  ASSERT_OK(Ask(2, true, &claim));
  ASSERT_OK(Ask(2, true, &claim));
  EXPECT_EQ(table_.List().databases.size(), 1u);
  ASSERT_OK(Close(owner, 1));
  EXPECT_EQ(used(), kDatabaseHeaderBytes) << "the claim needs it still";
  EXPECT_TRUE(table_.Destroy(DestroyDatabaseRequest{"a"}).IsBusy());
  now_ += seconds(11);
  table_.EndExpiredSessions();
  EXPECT_EQ(used(), 0u);
}

// The second swaps its word in and does not say so; the third takes over, and a hostile client puts
// back the second's word. Fails if the database has two owners then, or the process ends.
TEST_P(OwnershipTest, AWordThatIsPutBackMakesNoSecondOwner) {
  OpenDatabaseReply first;
  OpenDatabaseReply second;
  ASSERT_NO_FATAL_FAILURE(SwapUnnoticed(&first, &second));
  const OpenDatabaseReply third = TakeOk(3, /*take_over=*/true);
  RemoteSpan span;
  EXPECT_OK(Grant(third, 3, &span));
  EncodeFixed64(memory_.At(OwnershipWordIn(third.header)), second.ownership_word);
  OpenDatabaseReply confirmed;
  EXPECT_OK(Confirm(2, second.session, &confirmed));
  EXPECT_TRUE(Grant(third, 3, &span).IsIOFenced());
  EXPECT_OK(Grant(second, 2, &span));
}

// Fails if an owner that another has taken over from ends as one that closed, because it confirmed
// its claim once more: what is live would not be fenced, and it would not hear of the new owner.
TEST_P(OwnershipTest, ALostOwnerThatConfirmsAgainIsFenced) {
  OpenDatabaseReply first;
  OpenDatabaseReply second;
  ASSERT_NO_FATAL_FAILURE(SwapUnnoticed(&first, &second));
  OpenDatabaseReply again;
  const Status busy = Confirm(1, first.session, &again);
  EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
  EXPECT_THAT(busy.ToString(),
              HasSubstr("fenced: ownership of database 'a' was taken by client 2"));
  EXPECT_EQ(table_.take_overs(), 1u);
  RemoteSpan span;
  EXPECT_TRUE(Grant(first, 1, &span).IsIOFenced());
  ASSERT_OK(Confirm(2, second.session, &again));
}

INSTANTIATE_TEST_SUITE_P(Memory, OwnershipTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Mapped" : "Revocable"; });

}  // namespace
}  // namespace dlsm
