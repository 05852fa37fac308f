// What a queue pair holds, and in which order it lets go.
#include "util/fabric/held_transfers.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace dlsm {
namespace {

std::vector<std::shared_ptr<Transfer>> HoldSome(size_t count, uint64_t first_ticket,
                                                HeldTransfers* held) {
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (size_t i = 0; i < count; ++i) {
    transfers.push_back(std::make_shared<Transfer>());
    held->Hold(Ticket{first_ticket + i}, transfers.back());
  }
  return transfers;
}

// Fails if what is under way is mixed up when its places are used again, or when there are more.
TEST(HeldTransfersTest, AreLetGoInTheirOrder) {
  HeldTransfers held;
  uint64_t ticket = 1;
  std::vector<std::shared_ptr<Transfer>> wanted;
  for (const size_t more : {10, 12, 3, 40, 1, 100}) {
    for (auto& added : HoldSome(more, ticket, &held)) wanted.push_back(std::move(added));
    ticket += more;
    const size_t done = wanted.size() / 2;
    held.Complete(Ticket{ticket - (wanted.size() - done) - 1});
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(wanted[i]->complete(), i < done) << i;
      EXPECT_EQ(held.Holds(*wanted[i]), i >= done) << i;
      EXPECT_EQ(wanted[i].use_count(), i >= done ? 2 : 1) << i;
    }
    wanted.erase(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(done));
    EXPECT_EQ(held.size(), wanted.size());
  }
}

// Fails if one whose user has gone is not found where the places are used again, or one that has a
// user is.
TEST(HeldTransfersTest, TheNewestAbandonedOfTheOldestIsFound) {
  HeldTransfers held;
  auto first = HoldSome(14, 1, &held);
  held.Complete(Ticket{14});
  auto second = HoldSome(8, 15, &held);  // The last of them where the first ones were.
  EXPECT_EQ(held.Abandoned(), Ticket{});
  second[0].reset();
  second[2].reset();
  EXPECT_EQ(held.Abandoned(), Ticket{17});
  held.Complete(Ticket{17});
  EXPECT_EQ(held.size(), 5u);
  EXPECT_EQ(held.Abandoned(), Ticket{});
}

}  // namespace
}  // namespace dlsm
