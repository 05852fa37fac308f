// Accounts, and the changes that they consist of.
#include "memory_node/accounts/accounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "util/random.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr uint64_t kAccountsCapacity = uint64_t{1} << 20;
constexpr uint64_t kAccountsUnit = 4096;

ByteRanges Range(uint64_t begin, uint64_t end) {
  ByteRanges ranges;
  ranges.Add({begin, end});
  return ranges;
}

// Accounts over memory of their own, with every change that was made of them.
struct World {
  World() : accounts(Options(), &readers) {}
  ~World() { EXPECT_OK(accounts.CheckInvariants()); }

  AccountsOptions Options() {
    AccountsOptions options;
    options.node = NodeId{1};
    options.memory = &memory;
    options.capacity_bytes = kAccountsCapacity;
    options.extent_owners = &owners;
    options.changing = [this](const AccountChange& change) { changes.push_back(change); };
    return options;
  }
  uint64_t used() const { return kAccountsCapacity - accounts.FreeBytes(); }
  DatabasePointer Make(const std::string& name) {
    DatabasePointer database;
    EXPECT_OK(accounts.Make(name, /*room_is_coming=*/false, &database));
    return database;
  }
  void BeginOwner(const DatabasePointer& database) {
    uint64_t unnamed_before = 0;
    EXPECT_OK(accounts.BeginOwner(*database, &unnamed_before));
  }
  Status Grant(const DatabasePointer& database, uint64_t bytes, RemoteSpan* extent) {
    GrantRequest request;
    request.bytes = bytes;
    request.bytes_min = bytes;
    return accounts.Grant(*database, SessionId{1}, request, extent);
  }
  RemoteSpan GrantOk(const DatabasePointer& database, uint64_t bytes) {
    RemoteSpan extent;
    EXPECT_OK(Grant(database, bytes, &extent));
    return extent;
  }
  Status Put(const DatabasePointer& database, uint64_t version, std::vector<RemoteSpan> live) {
    PutManifestRequest request;
    request.version = version;
    request.manifest = "manifest " + std::to_string(version);
    request.live = std::move(live);
    return accounts.PutManifest(*database, request);
  }
  Status Free(const DatabasePointer& database, std::vector<RemoteSpan> spans) {
    ByteRanges freed;
    return accounts.Free(*database, spans, PublishedDatabase::kUnknown, &freed);
  }

  const std::unique_ptr<char[]> region = std::make_unique<char[]>(kAccountsCapacity);
  OwnMemory memory{NodeId{1}, RegionId{}, region.get(), kAccountsCapacity};
  ExtentOwners owners{RegionId{}};
  std::vector<AccountChange> changes;
  ReaderLeases readers;
  Accounts accounts;
};

// Fails if a change that does not fit the accounts is carried out, in whole or in part.
TEST(AccountsTest, AChangeThatDoesNotFitChangesNothing) {
  World world;
  const DatabasePointer database = world.Make("a");
  const RemoteSpan extent = world.GrantOk(database, kAccountsUnit);
  const uint64_t used = world.used();
  const ByteRanges held = Range(extent.offset, extent.offset + kAccountsUnit);
  const ByteRanges free = Range(kAccountsCapacity - kAccountsUnit, kAccountsCapacity);

  const auto refused = [&](AccountChange change) {
    // Steps that fit do not help those that do not.
    change.steps.insert(
        change.steps.begin(),
        AccountStep::Allocate(kHeldReason,
                              {kAccountsCapacity / 2, kAccountsCapacity / 2 + kAccountsUnit}));
    EXPECT_TRUE(world.accounts.Apply(std::move(change)).IsInvalidArgument());
    EXPECT_EQ(world.used(), used);
    EXPECT_EQ(world.accounts.BytesOf(*database, kHeldReason).ranges(), held.ranges());
    EXPECT_OK(world.accounts.CheckInvariants());
  };
  AccountChange change;
  change.account = database->incarnation;
  const auto with = [&](AccountStep step) {
    AccountChange made = change;
    made.steps.push_back(std::move(step));
    return made;
  };
  refused(with(AccountStep::Allocate(kHeldReason, {extent.offset, extent.offset + kAccountsUnit})));
  refused(with(
      AccountStep::Allocate(kHeldReason, {kAccountsCapacity, kAccountsCapacity + kAccountsUnit})));
  refused(with(AccountStep::Release(kHeldReason, free)));
  refused(with(AccountStep::Release(kLiveReason, held)));
  refused(with(AccountStep::Free(OutputReason(1), held)));
  refused(with(AccountStep::Copy(kHeldReason, kLiveReason, free)));
  refused(with(AccountStep{AccountStep::Kind::kAllocate, {}, kHeldReason, std::nullopt}));
  AccountChange unknown = change;
  unknown.account = DatabaseIncarnation{static_cast<uint64_t>(database->incarnation) + 1};
  refused(unknown);
  unknown.made = "a";  // The name is taken.
  refused(unknown);
  unknown.made = "b";  // It would have no header.
  refused(unknown);
  AccountChange again = change;
  again.made = "b";
  refused(again);
  EXPECT_TRUE(world.changes.size() == 2) << "changes that were refused are not to be kept";
}

// Fails if an account that was dropped is opened again, loses what is fenced, or is kept for ever.
TEST(AccountsTest, ADroppedAccountStaysUntilItsLastByteHasNoReason) {
  World world;
  const DatabasePointer database = world.Make("a");
  world.BeginOwner(database);
  world.GrantOk(database, kAccountsUnit);
  Accounts::SessionEnd end;
  end.number = 7;
  end.owner = true;
  EXPECT_OK(world.accounts.EndSession(*database, end));
  EXPECT_OK(world.accounts.Drop(*database));
  EXPECT_EQ(world.accounts.Find("a"), nullptr);
  EXPECT_EQ(world.accounts.count(), 0u);
  EXPECT_EQ(world.accounts.FencedBytes(*database, 7), kAccountsUnit + kDatabaseHeaderBytes);
  const DatabasePointer next = world.Make("a");
  EXPECT_NE(next->incarnation, database->incarnation);
  EXPECT_NE(next->header.offset, database->header.offset);
  EXPECT_TRUE(world.accounts.Drop(*database).IsInvalidArgument());
  EXPECT_OK(world.accounts.EndFence(*database, 7));
  EXPECT_EQ(world.used(), kDatabaseHeaderBytes);
  EXPECT_TRUE(world.accounts.Drop(*database).IsInvalidArgument()) << "there is no such account";
  EXPECT_EQ(world.accounts.Find("a"), next);
}

// Fails if bytes are free while any reason for them is left, whatever order reasons go in.
TEST(AccountsTest, BytesAreFreeWhenTheirLastReasonHasGone) {
  for (int order = 0; order < 6; ++order) {
    SCOPED_TRACE(order);
    World world;
    const DatabasePointer database = world.Make("a");
    const RemoteSpan extent = world.GrantOk(database, kAccountsUnit);
    EXPECT_OK(world.Put(database, 1, {extent}));
    EXPECT_OK(world.accounts.BeginMerge(*database, 1, {extent}));
    const std::vector<std::function<void()>> reasons = {
        [&] { EXPECT_OK(world.Free(database, {extent})); },
        [&] { EXPECT_OK(world.Put(database, 2, {})); },
        [&] { EXPECT_OK(world.accounts.EndMerge(*database, 1, /*in_vain=*/false)); }};
    std::vector<int> left = {0, 1, 2};
    for (int choices = order; !left.empty(); choices /= 3) {
      EXPECT_EQ(world.used(), kDatabaseHeaderBytes + kAccountsUnit);
      const auto next = left.begin() + choices % static_cast<int>(left.size());
      reasons[*next]();
      left.erase(next);
    }
    EXPECT_EQ(world.used(), kDatabaseHeaderBytes);
  }
}

// What two Accounts have of each database that either lists.
void ExpectSame(const World& left, const World& right) {
  const ListDatabasesReply list = left.accounts.List();
  ASSERT_EQ(list.databases.size(), right.accounts.List().databases.size());
  EXPECT_EQ(left.used(), right.used());
  for (const ListDatabasesReply::Entry& entry : list.databases) {
    const DatabasePointer one = left.accounts.Find(entry.name);
    const DatabasePointer other = right.accounts.Find(entry.name);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(one->incarnation, other->incarnation);
    EXPECT_EQ(one->header.offset, other->header.offset);
    EXPECT_EQ(left.accounts.ManifestOf(*one).version, right.accounts.ManifestOf(*other).version);
    EXPECT_EQ(left.accounts.ManifestOf(*one).bytes, right.accounts.ManifestOf(*other).bytes);
    for (const ByteReason reason : {kHeaderReason, kHeldReason, kLiveReason}) {
      EXPECT_EQ(left.accounts.BytesOf(*one, reason).ranges(),
                right.accounts.BytesOf(*other, reason).ranges());
    }
  }
}

// Fails if anything of an account depends on more than the changes that were made of it: then it
// could not be made again from these.
TEST(AccountsTest, ChangesThatAreAppliedAgainMakeTheSameAccounts) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    World world;
    World again;
    size_t applied = 0;
    std::vector<RemoteSpan> held;  // Of database "a", all in one piece as granted.
    DatabasePointer a = world.Make("a");
    world.BeginOwner(a);
    uint64_t version = 0;
    uint64_t number = 0;
    for (int step = 0; step < 400; ++step) {
      switch (random.Uniform(8)) {
        case 0:
        case 1: {
          RemoteSpan extent;
          if (world.Grant(a, (1 + random.Uniform(4)) * kAccountsUnit, &extent).ok()) {
            held.push_back(extent);
          }
          break;
        }
        case 2:
          if (held.empty()) break;
          EXPECT_OK(world.Free(a, {held.back()}));
          held.pop_back();
          break;
        case 3: {
          std::vector<RemoteSpan> live;
          for (const RemoteSpan& span : held) {
            if (random.OneIn(2)) live.push_back(span);
          }
          EXPECT_OK(world.Put(a, ++version, live));
          break;
        }
        case 4: {  // A session ends, and the next one begins.
          Accounts::SessionEnd end;
          end.number = ++number;
          end.owner = true;
          end.fences_live = random.OneIn(2);
          end.owner_gone = random.OneIn(2);
          EXPECT_OK(world.accounts.EndSession(*a, end));
          world.BeginOwner(a);
          EXPECT_OK(world.accounts.EndFence(*a, number));
          held.clear();
          break;
        }
        case 5: {  // A merge, of which the outputs are kept or not.
          if (held.empty()) break;
          EXPECT_OK(world.accounts.BeginMerge(*a, ++number, {held.front()}));
          RemoteSpan output;
          bool in_vain = false;
          if (world.accounts.AllocateOutput(*a, number, 2 * kAccountsUnit, &output, &in_vain)
                  .ok()) {
            EXPECT_OK(world.accounts.ShrinkOutput(*a, number, output, kAccountsUnit));
            if (random.OneIn(2)) {
              EXPECT_OK(world.accounts.KeepOutputs(*a, number));
              held.push_back(output.Sub(0, kAccountsUnit));
            }
          }
          EXPECT_OK(world.accounts.EndMerge(*a, number, in_vain));
          break;
        }
        case 6:
          EXPECT_OK(world.accounts.UnnamedFrom(*a, 1 + random.Uniform(100)));
          break;
        default:
          if (const DatabasePointer b = world.accounts.Find("b"); b != nullptr) {
            EXPECT_OK(world.accounts.Drop(*b));
          } else if (DatabasePointer made;
                     world.accounts.Make("b", /*room_is_coming=*/false, &made).ok()) {
            world.BeginOwner(made);
            RemoteSpan extent;
            if (world.Grant(made, kAccountsUnit, &extent).ok()) {
              EXPECT_OK(world.Put(made, 1, {extent}));
            }
            Accounts::SessionEnd end;
            end.number = ++number;
            end.owner = true;
            EXPECT_OK(world.accounts.EndSession(*made, end));
            EXPECT_OK(world.accounts.EndFence(*made, number));
          }
      }
      if (!random.OneIn(10)) continue;
      for (; applied < world.changes.size(); ++applied) {
        ASSERT_OK(again.accounts.Apply(world.changes[applied]));
      }
      ExpectSame(world, again);
      ASSERT_OK(again.accounts.CheckInvariants());
    }
  }
}

// What an account has, and how much is free.
struct Seen {
  explicit Seen(const World& world, const DatabaseIdentity& database)
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
  std::function<Status(World&, const DatabaseIdentity&, const std::vector<RemoteSpan>&)> change;
};

const std::vector<ChangeCase>& ChangeCases() {
  static const std::vector<ChangeCase> kCases = {
      {"grant",
       [](World& world, const DatabaseIdentity& database, const auto&) {
         GrantRequest request;
         request.bytes = request.bytes_min = kAccountsUnit;
         RemoteSpan extent;
         return world.accounts.Grant(database, SessionId{1}, request, &extent);
       }},
      {"free",
       [](World& world, const DatabaseIdentity& database, const auto& spans) {
         ByteRanges freed;
         return world.accounts.Free(database, {spans[1].Sub(1024, 64), spans[5], spans[7]}, 9,
                                    &freed);
       }},
      {"manifest",
       [](World& world, const DatabaseIdentity& database, const auto& spans) {
         PutManifestRequest request;
         request.version = 2;
         request.manifest = "manifest 2";
         request.live = {spans[0], spans[5], spans[7]};
         return world.accounts.PutManifest(database, request);
       }},
      {"session ends",
       [](World& world, const DatabaseIdentity& database, const auto&) {
         Accounts::SessionEnd end;
         end.number = 2;
         end.owner = end.fences_live = end.owner_gone = true;
         return world.accounts.EndSession(database, end);
       }},
      {"fence ends", [](World& world, const DatabaseIdentity& database,
                        const auto&) { return world.accounts.EndFence(database, 1); }},
      {"output",
       [](World& world, const DatabaseIdentity& database, const auto&) {
         RemoteSpan span;
         bool in_vain = false;
         return world.accounts.AllocateOutput(database, 1, kAccountsUnit, &span, &in_vain);
       }},
      {"output shrinks",
       [](World& world, const DatabaseIdentity& database, const auto&) {
         const ByteRanges outputs = world.accounts.OutputsOf(database, 1);
         const auto [begin, end] = *outputs.ranges().begin();
         return world.accounts.ShrinkOutput(
             database, 1, RemoteSpan{NodeId{1}, RegionId{}, begin, end - begin - 64}, 64);
       }},
      {"outputs are kept", [](World& world, const DatabaseIdentity& database,
                              const auto&) { return world.accounts.KeepOutputs(database, 1); }},
      {"merge ends",
       [](World& world, const DatabaseIdentity& database, const auto&) {
         return world.accounts.EndMerge(database, 1, /*in_vain=*/false);
       }},
      {"drop", [](World& world, const DatabaseIdentity& database,
                  const auto&) { return world.accounts.Drop(database); }},
  };
  return kCases;
}

// The account of the ChangeCases, and spans that its session has held.
std::vector<RemoteSpan> MakeForChanges(World& world, const DatabasePointer& database) {
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
TEST(AccountsTest, AChangeWithoutMemoryHappensAsAWholeOrNotAtAll) {
  for (const ChangeCase& each : ChangeCases()) {
    World expected;
    const DatabasePointer as_expected = expected.Make("a");
    EXPECT_OK(each.change(expected, *as_expected, MakeForChanges(expected, as_expected)));
    const Seen after(expected, *as_expected);
    uint64_t failures = 0;
    for (const char* place : {"byte ranges", "accounts: change", "extent owners",
                              "reader leases: retired", "accounts: free"}) {
      for (int64_t made = 0; made < 20; ++made) {
        SCOPED_TRACE(testing::Message() << each.name << ", " << place << " " << made);
        World world;
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
TEST(AccountsTest, AFenceInPiecesThatEndsWithoutMemoryLosesNothing) {
  World world;
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
TEST(AccountsTest, ADatabaseThatThereIsNoMemoryToMakeIsNotThere) {
  World world;
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
TEST(AccountsTest, WhatCannotBeFreedAtOnceIsFreedLater) {
  for (int64_t made = 0; made < 8; ++made) {
    SCOPED_TRACE(made);
    World world;
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
