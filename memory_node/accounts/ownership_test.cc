#include "memory_node/accounts/ownership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "util/coding.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr uint64_t kHeadersCapacity = 4 * kDatabaseHeaderBytes;

class OwnershipWordsTest : public testing::Test {
 protected:
  DatabasePointer Database(const std::string& name, uint64_t number) {
    auto made = std::make_shared<DatabaseIdentity>();
    made->name = name;
    made->incarnation = DatabaseIncarnation{number};
    made->header = {NodeId{1}, RegionId{}, number * kDatabaseHeaderBytes, kDatabaseHeaderBytes};
    return made;
  }
  // As the client of that session would. Returns whether it has.
  bool Swap(SessionId session, const DatabasePointer& database) {
    const Ownership::Offer offer = ownership_.OfferOf(session);
    QueuePair* queue_pair;
    EXPECT_OK(memory_.ForThisThread(NodeId{1}, &queue_pair));
    uint64_t prior = 0;
    Ticket ticket{};
    EXPECT_OK(queue_pair->PostCompareAndSwap(OwnershipWordIn(database->header), offer.before,
                                             offer.word, &prior, Purpose::kRpc, &ticket));
    return prior == offer.before;
  }

  const std::unique_ptr<char[]> bytes_ = std::make_unique<char[]>(kHeadersCapacity);
  OwnMemory memory_{NodeId{1}, RegionId{}, bytes_.get(), kHeadersCapacity};
  Ownership ownership_{&memory_};
  const DatabasePointer a_ = Database("a", 1);
  const DatabasePointer b_ = Database("b", 2);
};

// Fails if a database has two owners, or one of a database counts for another.
TEST_F(OwnershipWordsTest, AClaimBecomesTheOwnerOfItsDatabase) {
  EXPECT_FALSE(ownership_.IsWanted(*a_));
  ownership_.Begin(SessionId{1}, a_, "first");
  EXPECT_EQ(*ownership_.ClaimOn(*a_), "first");
  EXPECT_EQ(ownership_.ClaimOn(*b_), nullptr);
  EXPECT_FALSE(ownership_.IsOwner(SessionId{1}));
  ownership_.BecomeOwner(SessionId{1});
  EXPECT_TRUE(ownership_.IsOwner(SessionId{1}));
  EXPECT_EQ(ownership_.OwnerOf(*a_), SessionId{1});
  EXPECT_EQ(ownership_.OwnerOf(*b_), SessionId{});
  EXPECT_EQ(ownership_.ClaimOn(*a_), nullptr) << "an owner is no claim";
  EXPECT_TRUE(ownership_.IsWanted(*a_));
  EXPECT_FALSE(ownership_.IsWanted(*b_));
  ownership_.End(SessionId{1});
  EXPECT_FALSE(ownership_.IsWanted(*a_));
  EXPECT_FALSE(ownership_.IsOwner(SessionId{1}));
}

// Fails if an owner is told too late that another has taken over, or without that.
TEST_F(OwnershipWordsTest, AnOwnerHasLostTheDatabaseFromTheSwapOn) {
  ownership_.Begin(SessionId{1}, a_, "first");
  ownership_.BecomeOwner(SessionId{1});
  EXPECT_TRUE(ownership_.HasNotSwapped(SessionId{1}));
  EXPECT_EQ(ownership_.LostOwnerOf(*a_), SessionId{}) << "its own word may yet come";
  EXPECT_TRUE(Swap(SessionId{1}, a_));
  EXPECT_TRUE(ownership_.HasItsWord(SessionId{1}));
  EXPECT_FALSE(ownership_.HasNotSwapped(SessionId{1}));
  ownership_.Begin(SessionId{2}, a_, "second");
  EXPECT_EQ(ownership_.LostOwnerOf(*a_), SessionId{});
  EXPECT_TRUE(Swap(SessionId{2}, a_));
  EXPECT_EQ(ownership_.LostOwnerOf(*a_), SessionId{1});
  EXPECT_EQ(ownership_.LostOwnerOf(*b_), SessionId{});
  EXPECT_EQ(ownership_.HolderOf(*a_, ownership_.WordOf(*a_)), "second");
  EXPECT_THAT(ownership_.Fence(SessionId{1}, Ownership::Clock::time_point{} + seconds(10)),
              HasSubstr("ownership of database 'a' was taken by second (epoch 2)"));
  EXPECT_EQ(ownership_.take_overs(), 1u);
  ownership_.End(SessionId{1});
  EXPECT_EQ(ownership_.OwnerOf(*a_), SessionId{});
  EXPECT_TRUE(ownership_.HasItsWord(SessionId{2}));
  ownership_.BecomeOwner(SessionId{2});
  ownership_.End(SessionId{2});
  EXPECT_EQ(ownership_.HolderOf(*a_, ownership_.WordOf(*a_)), "a client that has gone since");
}

// Fails if two sessions of one database are offered one word, or an epoch that was there before.
TEST_F(OwnershipWordsTest, WordsAreOfferedOnce) {
  std::set<uint64_t> words;
  uint32_t epoch = 0;
  for (uint64_t round = 1; round <= 10; ++round) {
    // The lower halves of the numbers, which tags are made of, are the same.
    const SessionId first{round << 32 | 5};
    const SessionId second{(100 + round) << 32 | 5};
    const SessionId none{(200 + round) << 32};  // A tag of 0 would be nobody's.
    for (const SessionId session : {first, second, none}) {
      const Ownership::Offer offer = ownership_.Begin(session, a_, "client");
      EXPECT_TRUE(words.insert(offer.word).second);
      EXPECT_GT(OwnershipWord::Of(offer.word).epoch, epoch);
      EXPECT_NE(OwnershipWord::Of(offer.word).tag, 0u);
    }
    EXPECT_TRUE(Swap(second, a_));
    EXPECT_FALSE(Swap(first, a_)) << "one of two wins";
    epoch = OwnershipWord::Of(ownership_.WordOf(*a_)).epoch;
    for (const SessionId session : {first, second, none}) ownership_.End(session);
  }
}

// Fails if what a fenced session is told is forgotten too early, or takes memory for ever.
TEST_F(OwnershipWordsTest, WhyASessionHasEndedIsToldForAWhile) {
  const Ownership::Clock::time_point start{};
  for (uint64_t i = 1; i <= Ownership::kFencedMax + 1; ++i) {
    ownership_.Begin(SessionId{i}, a_, "client");
    ownership_.Fence(SessionId{i}, start + seconds(i));
    ownership_.End(SessionId{i});
  }
  EXPECT_EQ(ownership_.WhyFenced(SessionId{1}), nullptr) << "there is a bound";
  EXPECT_NE(ownership_.WhyFenced(SessionId{2}), nullptr);
  ownership_.ForgetFenced(start + seconds(2));
  EXPECT_EQ(ownership_.WhyFenced(SessionId{2}), nullptr);
  EXPECT_NE(ownership_.WhyFenced(SessionId{3}), nullptr);
}

// Fails if an owner whose word has been there has its database still when somebody puts back the
// word from before.
TEST_F(OwnershipWordsTest, TheWordFromBeforeDoesNotComeBack) {
  ownership_.Begin(SessionId{1}, a_, "first");
  ownership_.BecomeOwner(SessionId{1});
  const Ownership::Offer offer = ownership_.OfferOf(SessionId{1});
  EXPECT_TRUE(Swap(SessionId{1}, a_));
  EXPECT_EQ(ownership_.LostOwnerOf(*a_), SessionId{});
  EncodeFixed64(memory_.At(OwnershipWordIn(a_->header)), offer.before);
  EXPECT_EQ(ownership_.LostOwnerOf(*a_), SessionId{1});
  EXPECT_FALSE(ownership_.HasNotSwapped(SessionId{1}));
}

// Fails if a session of which nothing is known ends the process.
TEST_F(OwnershipWordsTest, ASessionWithoutAClaimMayEnd) {
  ownership_.End(SessionId{1});
  EXPECT_FALSE(ownership_.IsWanted(*a_));
}

}  // namespace
}  // namespace dlsm
