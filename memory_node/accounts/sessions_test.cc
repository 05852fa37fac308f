#include "memory_node/accounts/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class SessionsTest : public testing::Test {
 protected:
  static RpcPeer Peer(uint64_t connection, const std::string& token) {
    RpcPeer peer{connection, "client " + std::to_string(connection)};
    peer.data_token = token;
    return peer;
  }
  Sessions::Clock::time_point At(int second) { return start_ + seconds(second); }
  Session* Add(uint64_t id, uint64_t connection, const std::string& token,
               const DatabasePointer& database, int ends_at) {
    return sessions_.Add(SessionId{id}, Peer(connection, token), database, At(ends_at));
  }

  const Sessions::Clock::time_point start_{};
  Sessions sessions_;
  const DatabasePointer a_ = std::make_shared<DatabaseIdentity>();
  const DatabasePointer b_ = std::make_shared<DatabaseIdentity>();
};

// Fails if a session ends before its lease, does not end with it, or is forgotten because another
// one was looked at first.
TEST_F(SessionsTest, SessionsAreOverWithTheirLeases) {
  Session* const first = Add(1, 1, "t", a_, 10);
  Add(2, 2, "t", b_, 20);
  EXPECT_THAT(sessions_.Over(At(9)), IsEmpty());
  EXPECT_THAT(sessions_.Over(At(10)), ElementsAre(SessionId{1}));
  EXPECT_THAT(sessions_.Over(At(10)), ElementsAre(SessionId{1})) << "nobody has ended it";
  EXPECT_OK(sessions_.Renew(Peer(1, "t"), At(30), first));
  EXPECT_THAT(sessions_.Over(At(19)), IsEmpty());
  EXPECT_THAT(sessions_.Over(At(40)), ElementsAre(SessionId{1}, SessionId{2}));
  sessions_.Erase(SessionId{1});
  sessions_.Erase(SessionId{2});
  EXPECT_THAT(sessions_.Over(At(40)), IsEmpty());
  EXPECT_TRUE(sessions_.empty());
  Add(3, 3, "t", a_, 45);
  EXPECT_THAT(sessions_.Over(At(44)), IsEmpty());
  sessions_.MoveOn(seconds(10));
  EXPECT_THAT(sessions_.Over(At(54)), IsEmpty());
  EXPECT_THAT(sessions_.Over(At(55)), ElementsAre(SessionId{3}));
}

// Fails if a lost connection ends a session at once or not at all, ends another client's, or makes
// a lease longer.
TEST_F(SessionsTest, ALostConnectionShortensTheLeaseUntilThereIsAnother) {
  Session* const first = Add(1, 1, "t", a_, 10);
  Add(2, 2, "t", a_, 10);
  sessions_.Disconnected(1, At(3));
  EXPECT_TRUE(sessions_.AnyDisconnected());
  EXPECT_THAT(sessions_.Over(At(2)), IsEmpty());
  EXPECT_THAT(sessions_.Over(At(3)), ElementsAre(SessionId{1}));
  EXPECT_OK(sessions_.Renew(Peer(3, "t"), At(12), first));
  EXPECT_FALSE(sessions_.AnyDisconnected());
  EXPECT_TRUE(sessions_.Renew(Peer(1, "t"), At(50), first).IsIOError())
      << "its client has replaced that connection";
  sessions_.Disconnected(1, At(4));  // The one that it had before.
  EXPECT_THAT(sessions_.Over(At(9)), IsEmpty());
  sessions_.Disconnected(3, At(100));
  EXPECT_THAT(sessions_.Over(At(12)), ElementsAre(SessionId{1}, SessionId{2}));
}

// Fails if access that another session needs would be taken away, or access that none needs stays.
TEST_F(SessionsTest, TokensThatOthersHaveAreTheirs) {
  Session* const first = Add(1, 1, "shared", a_, 10);
  EXPECT_OK(sessions_.Renew(Peer(1, "own"), At(10), first));
  EXPECT_OK(sessions_.Renew(Peer(1, "other"), At(10), first));
  Add(2, 1, "shared", a_, 10);
  Add(3, 1, "other", b_, 10);
  EXPECT_THAT(sessions_.TokensOnlyOf(*first, /*same_database=*/false), ElementsAre("own"));
  EXPECT_THAT(sessions_.TokensOnlyOf(*first, /*same_database=*/true), ElementsAre("own", "other"));
}

// Fails if a client makes a session as large as it likes.
TEST_F(SessionsTest, ASessionHasOnlySoManyDataTokens) {
  Session* const session = Add(1, 1, "0", a_, 10);
  for (size_t i = 1; i < Sessions::kTokensMax; ++i) {
    EXPECT_OK(sessions_.Renew(Peer(1, std::to_string(i)), At(10), session));
  }
  EXPECT_TRUE(sessions_.Renew(Peer(1, "one more"), At(20), session).IsIOError());
  EXPECT_EQ(session->ends_at, At(10));
  EXPECT_OK(sessions_.Renew(Peer(1, "1"), At(20), session));
}

}  // namespace
}  // namespace dlsm
