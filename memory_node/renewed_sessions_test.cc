// Sessions that are renewed for their process, over whichever of its connections.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "memory_node/accounts/database_table.h"
#include "memory_node/accounts/database_table_testing.h"
#include "util/rpc/auth/access_list.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;

constexpr seconds kMostOfALease{9};

class RenewedSessionsTest : public DatabaseTableTest {
 protected:
  void TakeOver(const RemoteSpan& header) {
    QueuePair* queue_pair;
    ASSERT_OK(memory_.ForThisThread(NodeId{1}, &queue_pair));
    uint64_t prior = 0;
    Ticket ticket{};
    OpenDatabaseReply claim;
    OpenDatabaseRequest request;
    request.name = "a";
    request.take_over = true;
    ASSERT_OK(table_.Open(Peer(3), request, &claim));
    ASSERT_OK(queue_pair->PostCompareAndSwap(OwnershipWordIn(header), claim.ownership_before,
                                             claim.ownership_word, &prior, Purpose::kRpc, &ticket));
    ASSERT_EQ(prior, claim.ownership_before);
  }
};

// Fails if a lease is not renewed by what comes over another connection of the process, or if the
// session becomes one of that connection: then its own calls would be refused.
TEST_F(RenewedSessionsTest, StayWithTheirConnection) {
  const SessionId session = OpenOk("a", 1);
  ASSERT_OK(Beat(session, 1));
  for (int i = 0; i < 4; ++i) {
    now_ += kMostOfALease;
    EXPECT_TRUE(table_.Renew(Peer(2), session));
  }
  now_ += kMostOfALease;
  EXPECT_OK(Beat(session, 1));
  now_ += seconds(11);
  EXPECT_FALSE(table_.Renew(Peer(2), session)) << "it has ended";
}

// Fails if a session without its connection is kept for longer than the grace period, because
// another process of its client's, or a handle that has nothing to do with it, lives.
TEST_F(RenewedSessionsTest, AreNotRenewedWithoutTheirConnection) {
  const SessionId session = OpenOk("a", 1);
  ASSERT_OK(Beat(session, 1));
  table_.Disconnected(Peer(1));
  EXPECT_FALSE(table_.Renew(Peer(2), session));
  now_ += seconds(1);
  EXPECT_OK(Beat(session, 4)) << "it has another one";
  EXPECT_TRUE(table_.Renew(Peer(2), session));
  table_.Disconnected(Peer(4));
  now_ += seconds(3);
  EXPECT_TRUE(Beat(session, 5).IsAborted());
}

// Fails if a session counts as renewed that was taken over, was closed, or never was.
TEST_F(RenewedSessionsTest, AreThoseOfOwners) {
  OpenDatabaseReply opened;
  ASSERT_OK(Open("a", 1, &opened));
  ASSERT_OK(Beat(opened.session, 1));
  ASSERT_TRUE(table_.Renew(Peer(1), opened.session));
  ASSERT_NO_FATAL_FAILURE(TakeOver(opened.header));
  EXPECT_FALSE(table_.Renew(Peer(1), opened.session));
  EXPECT_TRUE(Beat(opened.session, 1).IsIOFenced()) << "which says why";
  const SessionId closed = OpenOk("b", 1);
  ASSERT_OK(Close(closed));
  EXPECT_FALSE(table_.Renew(Peer(1), closed));
  EXPECT_FALSE(table_.Renew(Peer(1), SessionId{12345}));
}

// Fails if a client may keep a database from others that it may not own.
TEST_F(RenewedSessionsTest, AreThoseOfTheClient) {
  const SessionId session = OpenOk("a", 1);
  ASSERT_OK(Beat(session, 1));
  RpcPeer other = Peer(2);
  AccessPatterns patterns;
  patterns.own = {"b"};
  other.rights = std::make_shared<AccessRights>("bob", "secret of bob", patterns);
  EXPECT_FALSE(table_.Renew(other, session));
  patterns.own = {"a"};
  other.rights = std::make_shared<AccessRights>("alice", "secret of alice", patterns);
  EXPECT_TRUE(table_.Renew(other, session));
}

}  // namespace
}  // namespace dlsm
