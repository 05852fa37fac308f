// The session of a handle that is being opened.
#include "db/nodes/memory_node_session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "port/manual_clock_testing.h"
#include "table/memory_queue_pairs_testing.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr std::chrono::milliseconds kSessionLease{10'000};

// Offers the word of a new database. Swaps in its memory are NotSupported.
class OfferingNode final : public RpcClient {
 public:
  Status Call(Method method, const Slice& /*request*/, std::string* reply,
              Deadline /*deadline*/) override {
    if (method != Method::kOpenDatabase) return Status::NotSupported("no call of Open()");
    OpenDatabaseReply offer;
    offer.session = SessionId{1};
    offer.lease_ms = static_cast<uint64_t>(kSessionLease.count());
    offer.header = RemoteSpan{kTestNode, RegionId{}, 0, kDatabaseHeaderBytes};
    offer.ownership_word = OwnershipWord{1, 1}.bits();
    *reply = offer.Encode();
    return Status::OK();
  }
};

// Fails if a handle whose machine was suspended for as long as the lease swaps all the same: the
// memory node may have given the header's memory to others meanwhile.
TEST(MemoryNodeSessionTest, SwapsNothingOnceItsMachineWasSuspendedForALease) {
  port::ManualClock clock;
  OfferingNode node;
  TestMemory memory;
  MemoryQueuePairs queue_pairs(&memory);
  std::unique_ptr<MemoryNodeSession> session;
  ASSERT_OK(MemoryNodeSession::Open(Options(), "db", &node, &session));
  session->Leave();  // There is none to be closed.

  clock.Suspend(kSessionLease / 2);
  const Status in_time = session->TakeOwnership(&queue_pairs);
  EXPECT_TRUE(in_time.IsNotSupported()) << in_time.ToString();
  clock.Suspend(kSessionLease / 2);
  const Status late = session->TakeOwnership(&queue_pairs);
  EXPECT_TRUE(late.IsTimedOut()) << late.ToString();
}

}  // namespace
}  // namespace dlsm
