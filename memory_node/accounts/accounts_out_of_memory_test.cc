// Changes of the accounts for which there is no memory.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/accounts.h"
#include "memory_node/accounts/accounts_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// What an account has, and how much is free.
struct Seen {
  explicit Seen(const AccountsWorld& world, const DatabaseIdentity& database)
      : used(world.used()), version(world.accounts.ManifestVersionOf(database)) {
    for (const ByteReason reason :
         {kHeaderReason, kHeldReason, kLiveReason, FencedReason(1), FencedReason(2), InputReason(1),
          OutputReason(1), kReleasedReason, kUnusedReason}) {
      reasons[reason] = world.accounts.BytesOf(database, reason).ranges();
    }
  }
  friend bool operator==(const Seen&, const Seen&) = default;

  uint64_t used;
  uint64_t version;
  std::map<ByteReason, ByteRanges::Map> reasons;
};

// One kind of change, of an account that has something for every reason.
struct ChangeCase {
  const char* name;
  std::function<Status(AccountsWorld&, const DatabaseIdentity&, const std::vector<RemoteSpan>&)>
      change;
};

const std::vector<ChangeCase>& ChangeCases() {
  static const std::vector<ChangeCase> kCases = {
      {"grant",
       [](AccountsWorld& world, const DatabaseIdentity& database, const auto&) {
         GrantRequest request;
         request.bytes = request.bytes_min = kAccountsUnit;
         RemoteSpan extent;
         return world.accounts.Grant(database, SessionId{1}, request, &extent);
       }},
      {"free",
       [](AccountsWorld& world, const DatabaseIdentity& database, const auto& spans) {
         ByteRanges freed;
         return world.accounts.Free(database, {spans[1].Sub(1024, 64), spans[5], spans[7]}, 9,
                                    &freed);
       }},
      {"manifest",
       [](AccountsWorld& world, const DatabaseIdentity& database, const auto& spans) {
         PutManifestRequest request;
         request.version = 2;
         request.manifest = "manifest 2";
         request.live = {spans[0], spans[5], spans[7]};
         return world.accounts.PutManifest(database, request);
       }},
      {"session ends",
       [](AccountsWorld& world, const DatabaseIdentity& database, const auto&) {
         Accounts::SessionEnd end;
         end.number = 2;
         end.owner = end.fences_live = end.owner_gone = true;
         return world.accounts.EndSession(database, end);
       }},
      {"fence ends", [](AccountsWorld& world, const DatabaseIdentity& database,
                        const auto&) { return world.accounts.EndFence(database, 1); }},
      {"output",
       [](AccountsWorld& world, const DatabaseIdentity& database, const auto&) {
         RemoteSpan span;
         bool in_vain = false;
         return world.accounts.AllocateOutput(database, 1, kAccountsUnit, &span, &in_vain);
       }},
      {"output shrinks",
       [](AccountsWorld& world, const DatabaseIdentity& database, const auto&) {
         const ByteRanges outputs = world.accounts.OutputsOf(database, 1);
         const auto [begin, end] = *outputs.ranges().begin();
         return world.accounts.ShrinkOutput(
             database, 1, RemoteSpan{NodeId{1}, RegionId{}, begin, end - begin - 64}, 64);
       }},
      {"outputs are kept", [](AccountsWorld& world, const DatabaseIdentity& database,
                              const auto&) { return world.accounts.KeepOutputs(database, 1); }},
      {"merge ends",
       [](AccountsWorld& world, const DatabaseIdentity& database, const auto&) {
         return world.accounts.EndMerge(database, 1, /*in_vain=*/false);
       }},
      {"drop", [](AccountsWorld& world, const DatabaseIdentity& database,
                  const auto&) { return world.accounts.Drop(database); }},
  };
  return kCases;
}

// The account of the ChangeCases, and spans that its session has held.
std::vector<RemoteSpan> MakeForChanges(AccountsWorld& world, const DatabasePointer& database) {
  world.BeginOwner(database);
  std::vector<RemoteSpan> spans;
  for (int i = 0; i < 12; ++i) spans.push_back(world.GrantOk(database, kAccountsUnit));
  EXPECT_OK(world.Put(database, 1, {spans[1], spans[3], spans[9]}));
  EXPECT_OK(world.Free(database, {spans[10]}));
  Accounts::SessionEnd end;
  end.number = 1;
  end.owner = true;
  EXPECT_OK(world.accounts.EndSession(*database, end));
  world.BeginOwner(database);
  ByteRanges held;
  for (const int i : {0, 1, 3, 5, 7}) {
    held.Add({spans[i].offset, spans[i].offset + kAccountsUnit});
  }
  AccountChange change;
  change.account = database->incarnation;
  change.steps.push_back(AccountStep::Copy(FencedReason(1), kHeldReason, held));
  EXPECT_OK(world.accounts.Apply(std::move(change)));
  EXPECT_OK(world.accounts.BeginMerge(*database, 1, {spans[3], spans[5].Sub(0, 64)}));
  RemoteSpan output;
  bool in_vain = false;
  EXPECT_OK(world.accounts.AllocateOutput(*database, 1, kAccountsUnit, &output, &in_vain));
  EXPECT_OK(world.accounts.AllocateOutput(*database, 1, 2 * kAccountsUnit, &output, &in_vain));
  EXPECT_OK(world.accounts.ShrinkOutput(*database, 1, output, kAccountsUnit));
  return spans;
}

// Memory ends at each place of each change, and comes back. Fails if a change that failed has
// changed anything, cannot be made again, or loses bytes; or if one that succeeded comes to
// something else than it does with memory.
TEST(AccountsOutOfMemoryTest, AChangeWithoutMemoryHappensAsAWholeOrNotAtAll) {
  for (const ChangeCase& each : ChangeCases()) {
    AccountsWorld expected;
    const DatabasePointer as_expected = expected.Make("a");
    EXPECT_OK(each.change(expected, *as_expected, MakeForChanges(expected, as_expected)));
    const Seen after(expected, *as_expected);
    uint64_t failures = 0;
    for (const char* place : {"byte ranges", "accounts: change", "extent owners",
                              "reader leases: retired", "accounts: free"}) {
      for (int64_t made = 0; made < 20; ++made) {
        SCOPED_TRACE(testing::Message() << each.name << ", " << place << " " << made);
        AccountsWorld world;
        const DatabasePointer database = world.Make("a");
        const std::vector<RemoteSpan> spans = MakeForChanges(world, database);
        const Seen before(world, *database);
        bool threw = false;
        uint64_t failed = 0;
        {
          const port::FailingAllocationsAt failing(place, made);
          try {
            EXPECT_OK(each.change(world, *database, spans));
          } catch (const std::bad_alloc&) {
            threw = true;
          }
          failed = failing.failed();
        }
        EXPECT_OK(world.accounts.CheckInvariants());
        if (threw) {
          EXPECT_EQ(Seen(world, *database), before);
          EXPECT_OK(each.change(world, *database, spans));
        }
        world.accounts.FreeUnread();
        EXPECT_EQ(Seen(world, *database), after);
        failures += failed;
        if (failed == 0) break;
      }
    }
    EXPECT_GT(failures, 0u) << each.name;
  }
}

// What a session had lies in pieces between bytes that are live. Fails if a fence that ends without
// memory loses them.
TEST(AccountsOutOfMemoryTest, AFenceInPiecesThatEndsWithoutMemoryLosesNothing) {
  AccountsWorld world;
  const DatabasePointer database = world.Make("a");
  world.BeginOwner(database);
  std::vector<RemoteSpan> spans;
  for (int i = 0; i < 3; ++i) spans.push_back(world.GrantOk(database, kAccountsUnit));
  EXPECT_OK(world.Put(database, 1, {spans[1]}));
  Accounts::SessionEnd end;
  end.number = 1;
  end.owner = true;
  EXPECT_OK(world.accounts.EndSession(*database, end));
  {
    const port::FailingAllocationsAt failing("byte ranges");
    EXPECT_OK(world.accounts.EndFence(*database, 1));
    EXPECT_GT(failing.failed(), 0u);
    world.accounts.FreeUnread();
    EXPECT_EQ(world.used(), kDatabaseHeaderBytes + 3 * kAccountsUnit);
  }
  EXPECT_OK(world.accounts.CheckInvariants());
  EXPECT_OK(world.accounts.EndFence(*database, 1));
  world.accounts.FreeUnread();
  EXPECT_EQ(world.used(), kDatabaseHeaderBytes + kAccountsUnit);
}

// Fails if a database that there was no memory to make leaves anything behind.
TEST(AccountsOutOfMemoryTest, ADatabaseThatThereIsNoMemoryToMakeIsNotThere) {
  AccountsWorld world;
  DatabasePointer database;
  {
    const port::FailingAllocationsAt failing("extent owners");
    EXPECT_THROW(
        world.accounts.Make("a", /*room_is_coming=*/false, &database).PermitUncheckedError(),
        std::bad_alloc);
  }
  EXPECT_EQ(world.accounts.count(), 0u);
  EXPECT_EQ(world.used(), 0u);
  EXPECT_OK(world.accounts.CheckInvariants());
  world.Make("a");
}

// A reader has kept bytes in pieces, of two databases. Fails if those that there is no memory to
// free when it leaves are lost, or freed twice.
TEST(AccountsOutOfMemoryTest, WhatCannotBeFreedAtOnceIsFreedLater) {
  for (int64_t made = 0; made < 8; ++made) {
    SCOPED_TRACE(made);
    AccountsWorld world;
    std::vector<ReaderLeases::Database> databases;
    std::vector<std::pair<DatabasePointer, std::vector<RemoteSpan>>> freed;
    for (const std::string name : {"a", "b"}) {
      const DatabasePointer database = world.Make(name);
      databases.push_back(database->published);
      std::vector<RemoteSpan> spans;
      for (int i = 0; i < 7; ++i) {
        const RemoteSpan span = world.GrantOk(database, kAccountsUnit);
        if (i % 2 == 0) spans.push_back(span);
      }
      freed.emplace_back(database, spans);
    }
    const AccountsOptions::Clock::time_point now{};
    world.readers.Open(ReaderId{1}, "reader", databases, now, now + std::chrono::seconds(1));
    for (const auto& [database, spans] : freed) EXPECT_OK(world.Free(database, spans));
    const uint64_t kept = 2 * kDatabaseHeaderBytes + 6 * kAccountsUnit;
    EXPECT_EQ(world.used(), kept + 8 * kAccountsUnit);
    world.readers.Close(ReaderId{1});
    {
      const port::FailingAllocationsAt failing("accounts: free", made);
      world.accounts.FreeUnread();
      EXPECT_EQ(world.used(), kept + (8 - made) * kAccountsUnit);
      EXPECT_EQ(world.readers.retired_bytes(), (8 - made) * kAccountsUnit);
      EXPECT_OK(world.accounts.CheckInvariants());
    }
    world.accounts.FreeUnread();
    EXPECT_EQ(world.used(), kept);
    EXPECT_EQ(world.readers.retired_bytes(), 0u);
  }
}

}  // namespace
}  // namespace dlsm
