// Accounts, and the changes that they consist of.
#include "memory_node/accounts/accounts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/accounts_testing.h"
#include "util/random.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// Fails if a change that does not fit the accounts is carried out, in whole or in part.
TEST(AccountsTest, AChangeThatDoesNotFitChangesNothing) {
  AccountsWorld world;
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
  AccountsWorld world;
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
    AccountsWorld world;
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
void ExpectSame(const AccountsWorld& left, const AccountsWorld& right) {
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
    AccountsWorld world;
    AccountsWorld again;
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

}  // namespace
}  // namespace dlsm
