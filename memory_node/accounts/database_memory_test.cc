// What sessions are granted, give back and keep by their manifests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/database_table_testing.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// Fails if who may have what others have been refused is not told; or if he is for what he was
// refused himself, for what is long past, or for another's quota.
TEST_F(DatabaseTableTest, OthersAreToldOfRefusedGrants) {
  const SessionId a = OpenOk("a");
  const SessionId b = OpenOk("b");
  const SessionId shard_of_b = OpenOk("b#shard-1");
  const auto expect_told = [&](bool to_a, bool to_b, bool to_shard_of_b) {
    EXPECT_EQ(table_.OthersWantRoom(a), to_a);
    EXPECT_EQ(table_.OthersWantRoom(b), to_b);
    EXPECT_EQ(table_.OthersWantRoom(shard_of_b), to_shard_of_b);
  };
  RemoteSpan span;
  expect_told(false, false, false);
  EXPECT_TRUE(Grant(b, 2 * kCapacity, 2 * kCapacity, &span).IsBusy());
  expect_told(true, false, true);
  now_ += seconds(1);
  EXPECT_TRUE(Grant(a, 2 * kCapacity, 2 * kCapacity, &span).IsBusy());
  expect_told(true, true, true);
  now_ += seconds(1);
  expect_told(false, true, true);  // That of b is past.
  now_ += seconds(1);
  expect_told(false, false, false);
  ASSERT_OK(table_.SetQuota(Peer(1), SetQuotaRequest{"b", 8 * kUnit}));
  EXPECT_TRUE(Grant(b, 16 * kUnit, 16 * kUnit, &span).IsBusy());
  expect_told(false, false, true);
  EXPECT_FALSE(table_.OthersWantRoom(SessionId{}));
}

// Fails if a request makes the table keep, or do under its lock, what its sender chooses.
TEST_F(DatabaseTableTest, WhatOneRequestMayAskForIsBounded) {
  const SessionId session = OpenOk("a");
  RemoteSpan span;
  EXPECT_TRUE(Grant(session, UINT64_MAX, uint64_t{1} << 40, &span).IsInvalidArgument());
  const RemoteSpan table = GrantOk(session, kUnit);
  std::unique_ptr<MergeHold> hold;
  EXPECT_TRUE(table_.BeginMerge(Peer(1), session, {}, {table, table}, &hold).IsInvalidArgument());
  OpenReaderRequest request;
  OpenReaderReply reply;
  request.databases = {"a", "a"};
  EXPECT_TRUE(table_.OpenReader(Peer(2), request, &reply).IsInvalidArgument());
  request.databases.assign(OpenReaderRequest::kDatabasesMax + 1, "");
  EXPECT_TRUE(OpenReaderRequest().Decode(request.Encode()).IsCorruption());
  request.databases.pop_back();
  EXPECT_OK(OpenReaderRequest().Decode(request.Encode()));
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

// A manifest is under way when its connection breaks; its client takes it for failed, makes another
// connection and gives back what it had named. Fails if the memory node puts it all the same when
// it comes: what it names is another table's by then, and what it does not name is lost with the
// client.
TEST_F(DatabaseTableTest, ReplacedConnectionsAreNotHeard) {
  const SessionId session = OpenOk("a", 1);
  const RemoteSpan input = GrantOk(session, kUnit);
  const RemoteSpan output = GrantOk(session, kUnit);
  ASSERT_OK(Put(session, 1, {input}));
  FreeRequest free;
  free.session = session;
  free.spans = {output};
  ASSERT_OK(table_.Free(Peer(3), free));
  RemoteSpan other;
  ASSERT_OK(Grant(session, kUnit, kUnit, &other, 3));
  ASSERT_EQ(other, output) << "it is in use again";
  const Status late = Put(session, 2, {output});
  EXPECT_TRUE(late.IsIOError()) << late.ToString();
  EXPECT_FALSE(late.IsIOFenced());
  EXPECT_TRUE(Beat(session, 1).IsIOError());
  table_.Disconnected(Peer(1));
  now_ += seconds(5);  // More than the grace period: that was not its connection.
  EXPECT_OK(Beat(session, 3));
  now_ += seconds(10);
  OpenDatabaseReply next;
  ASSERT_OK(Open("a", 4, &next));
  EXPECT_EQ(next.manifest, "manifest 1");
  EXPECT_EQ(used(), kUnit);
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

// Fails if a database is destroyed that was found to be unused and has come into use since: its
// manifest names something, or is a later one.
TEST_F(DatabaseTableTest, WhatWasUnusedIsDestroyedOnlyWhileItIs) {
  const auto destroy_unused = [this](uint64_t manifest_version_max) {
    DestroyDatabaseRequest request;
    request.name = "a";
    request.if_unused = true;
    request.manifest_version_max = manifest_version_max;
    return table_.Destroy(request);
  };
  SessionId session = OpenOk("a");
  const RemoteSpan span = GrantOk(session, kUnit);
  ASSERT_OK(Put(session, 1, {}));
  ASSERT_OK(Put(session, 2, {span}));
  ASSERT_OK(Close(session));
  EXPECT_TRUE(destroy_unused(UINT64_MAX).IsInvalidArgument());
  session = OpenOk("a");
  ASSERT_OK(Put(session, 3, {}));
  ASSERT_OK(Close(session));
  EXPECT_TRUE(destroy_unused(2).IsInvalidArgument());
  EXPECT_OK(destroy_unused(3));
  EXPECT_TRUE(destroy_unused(3).IsNotFound());
  EXPECT_EQ(used(), 0u);
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
