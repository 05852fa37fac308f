#include "util/rpc/auth/token_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "util/secret_proof.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class TokenTableTest : public testing::Test {
 protected:
  std::string Acquire(const std::string& shown, const ClientRights& owner = nullptr) {
    std::string token;
    EXPECT_OK(table_.Acquire(shown, owner, &token));
    return token;
  }
  // Looks often enough, up to then.
  void ExpireUntil(seconds at) {
    for (; next_look_ <= now_ + at; next_look_ += milliseconds(500)) table_.Expire(next_look_);
  }

  const TokenTable::Clock::time_point now_ = TokenTable::Clock::now();
  TokenTable::Clock::time_point next_look_ = now_;
  std::vector<std::string> events_;
  TokenTable table_{seconds(2),
                    [this](const std::string& token, const ClientRights& /*owner*/) {
                      events_.push_back("+" + token);
                    },
                    [this](const std::string& token) { events_.push_back("-" + token); }};
};

// Fails if a token ends under a client that is there or may still come back, or does not end under
// one that has gone.
TEST_F(TokenTableTest, TokensEndAfterTheGracePeriod) {
  const std::string a = Acquire("");
  const std::string b = Acquire("");
  EXPECT_EQ(a.size(), kDataTokenBytes);
  EXPECT_NE(a, b);
  EXPECT_EQ(Acquire(a), a);  // A second connection, before the first is known to be lost.
  table_.Release(a, now_);
  ExpireUntil(seconds(100));
  EXPECT_EQ(events_, (std::vector<std::string>{"+" + a, "+" + b}));

  table_.Release(a, now_ + seconds(100));
  ExpireUntil(seconds(101));
  EXPECT_EQ(Acquire(a), a);  // Back in time.
  ExpireUntil(seconds(200));
  EXPECT_EQ(events_.size(), 2u);

  table_.Release(a, now_ + seconds(200));
  table_.Release(b, now_ + seconds(201));
  ExpireUntil(seconds(202));
  EXPECT_EQ(events_, (std::vector<std::string>{"+" + a, "+" + b, "-" + a}));
}

// A client lost its connection, and was about to come back, when the memory node stood still. Fails
// if its token has ended when it can be heard again, for its session goes on; or if it never ends.
TEST_F(TokenTableTest, TokensOutliveAStandstillOfTheMemoryNode) {
  const std::string token = Acquire("");
  ExpireUntil(seconds(1));
  table_.Release(token, now_ + seconds(1));
  table_.Expire(now_ + seconds(100));
  EXPECT_EQ(Acquire(token), token);
  table_.Release(token, now_ + seconds(100));
  next_look_ = now_ + seconds(100);
  ExpireUntil(seconds(102));
  EXPECT_NE(Acquire(token), token);
}

// Fails if a client comes by a token again that was taken from it, or by one that it made up: with
// that it could write to memory that others have got meanwhile.
TEST_F(TokenTableTest, AForgottenTokenIsNeverGoodAgain) {
  const std::string expired = Acquire("");
  table_.Release(expired, now_);
  ExpireUntil(seconds(3));
  EXPECT_NE(Acquire(expired), expired);

  const std::string taken = Acquire("");
  table_.Forget(taken);
  EXPECT_NE(Acquire(taken), taken);
  table_.Release(taken, now_);  // The connection that it was given to ends.

  const std::string invented(kDataTokenBytes, 'x');
  EXPECT_NE(Acquire(invented), invented);
}

// Fails if a token that could not be given out for want of memory is kept for ever: it would count
// as one whose client is there.
TEST(TokenTableMemoryTest, ATokenThatIsNotGivenOutExpires) {
  int abandoned = 0;
  TokenTable table(
      seconds(2), [](const std::string&, const ClientRights&) { throw std::bad_alloc(); },
      [&abandoned](const std::string&) { ++abandoned; });
  std::string token;
  EXPECT_THROW(static_cast<void>(table.Acquire("", nullptr, &token)), std::bad_alloc);
  EXPECT_EQ(token, "");
  table.Expire(TokenTable::Clock::now());
  EXPECT_EQ(abandoned, 1);
}

// Fails if what a client that has gone could reach stays open for ever because there was no memory
// to have it taken away when its token expired.
TEST(TokenTableMemoryTest, WhatCannotBeTakenAwayIsTakenAwayLater) {
  int tries = 0;
  std::vector<std::string> abandoned;
  TokenTable table(seconds(2), {}, [&](const std::string& token) {
    if (++tries < 3) throw std::bad_alloc();
    abandoned.push_back(token);
  });
  std::string token;
  EXPECT_OK(table.Acquire("", nullptr, &token));
  const auto gone = TokenTable::Clock::now() - seconds(3);
  table.Release(token, gone);
  const auto look = [&table] { table.Expire(TokenTable::Clock::now()); };
  EXPECT_THROW(look(), std::bad_alloc);
  EXPECT_THROW(look(), std::bad_alloc);
  look();
  look();
  EXPECT_EQ(abandoned, std::vector<std::string>{token});
}

// Fails if a client of the access list gets another's rights with the token that it saw.
TEST_F(TokenTableTest, ATokenIsGoodForItsOwnerOnly) {
  const auto alice = std::make_shared<AccessRights>("alice", "secret", AccessPatterns());
  const auto mallory = std::make_shared<AccessRights>("mallory", "secret", AccessPatterns());
  const auto alice_again = std::make_shared<AccessRights>("alice", "secret", AccessPatterns());
  const std::string token = Acquire("", alice);
  EXPECT_NE(Acquire(token, mallory), token);
  EXPECT_NE(Acquire(token), token);
  EXPECT_NE(Acquire(token, alice_again), token) << "its line had gone in between";
  EXPECT_EQ(Acquire(token, alice), token);
}

}  // namespace
}  // namespace dlsm
