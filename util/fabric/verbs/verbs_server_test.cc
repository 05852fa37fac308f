// Whom a memory node lets in that asks for a queue pair, over a device that is not there. What its
// queue pairs can then is verbs_test.cc's subject, what they cannot verbs_isolation_test.cc's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <new>
#include <string>

#include "port/failing_allocations_testing.h"
#include "util/eventually_testing.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/verbs/verbs_fake_testing.h"
#include "util/fabric/verbs/verbs_farewells.h"
#include "util/fabric/verbs/verbs_frame.h"
#include "util/fabric/verbs/verbs_memory.h"
#include "util/fabric/verbs/verbs_socket.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class VerbsServerTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 1 << 20;

  void SetUp() override {
    const Status may_lock = CheckLockedMemory(kBytes);
    if (!may_lock.ok()) GTEST_SKIP() << may_lock.ToString();
    ASSERT_OK(fake_.Open({}, &device_));
    node_ = std::make_unique<TestMemoryNode>(kBytes, device_);
  }

  // Another client's connection, which has said its preamble.
  void Dial() {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_ = FileDescriptor(ends[0]);
    served_ = FileDescriptor(ends[1]);
  }
  Status Greet(const std::string& shown, std::string* token) {
    Dial();
    SendAll(client_.get(), shown);
    return node_->verbs().Greet(served_.get(), Deadline::In(seconds(20)), token);
  }

  void DialAndOffer() {
    Dial();
    VerbsOffer offer;
    offer.end.mtu = 5;
    offer.end.reads_at_once = 1;
    offer.end.gid_type = GidType::kRoceV2;
    offer.end.gid[10] = offer.end.gid[11] = 0xff;
    SendAll(client_.get(), EncodeVerbsFrame(VerbsFrameKind::kOffer, offer.Encode()));
  }
  // A client that gets a queue pair; client_ is its life line.
  void LetIn() {
    ASSERT_NO_FATAL_FAILURE(DialAndOffer());
    ASSERT_OK(node_->verbs().Adopt(served_.Release(), node_->token()));
    std::string answer;
    ASSERT_OK(ReceiveVerbsAnswer("the memory node", client_.get(), Soon(), VerbsFrameKind::kAnswer,
                                 &answer));
  }

  FakeVerbs fake_;
  std::shared_ptr<const VerbsDevice> device_;
  std::unique_ptr<TestMemoryNode> node_;
  FileDescriptor client_;
  FileDescriptor served_;
};

// Fails if somebody counts as a client who shows no token that is good; or if one who has shown it
// in time is let in when it is good no longer.
TEST_F(VerbsServerTest, GreetsThoseWhoseTokensAreGood) {
  std::string token;
  EXPECT_TRUE(Greet(std::string(kVerbsTokenBytes, 'w'), &token).IsInvalidArgument());
  EXPECT_EQ(token, "");
  ASSERT_OK(Greet(node_->token(), &token));
  EXPECT_EQ(token, node_->token());
  EXPECT_OK(node_->verbs().RevokeToken(token));
  EXPECT_TRUE(node_->verbs().Adopt(served_.Release(), token).IsInvalidArgument());
  EXPECT_EQ(ReceiveUpTo(client_.get(), 1), "") << "its life line ends";
  EXPECT_TRUE(Greet(node_->token(), &token).IsInvalidArgument());
}

// Fails if a client for which there is no descriptor is not told so.
TEST_F(VerbsServerTest, TellsThatThereIsNoDescriptor) {
  ASSERT_NO_FATAL_FAILURE(DialAndOffer());
  ASSERT_OK(node_->verbs().Refuse(served_.get(), Soon()));
  std::string answer;
  const Status status = ReceiveVerbsAnswer("the memory node", client_.get(), Soon(),
                                           VerbsFrameKind::kAnswer, &answer);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("no descriptor is left"));
  EXPECT_THAT(status.ToString(), HasSubstr("of its Server (ulimit -n)"));
}

// Fails if the memory node's log says of a client that goes, or is silent, what the client would
// have to be told of a memory node.
TEST_F(VerbsServerTest, SaysOfClientsWhatTheyDidNotDo) {
  std::string token;
  Dial();
  Status status = node_->verbs().Greet(served_.get(), Deadline::In(milliseconds(0)), &token);
  EXPECT_TRUE(status.IsTimedOut());
  EXPECT_THAT(status.ToString(), HasSubstr("it did not show its token in time"));
  client_.Close();
  status = node_->verbs().Greet(served_.get(), Deadline::In(seconds(20)), &token);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("it did not show its token before"));
  ASSERT_OK(Greet(node_->token(), &token));
  client_.Close();
  status = node_->verbs().Adopt(served_.Release(), token);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.ToString(), HasSubstr("it did not make its offer before"));
}

// Fails if a queue pair whose client has gone is forgotten where there is no memory to take it
// down, which the client waits for; or if it is taken down by half, which ends the memory node.
TEST_F(VerbsServerTest, WhatThereIsNoMemoryToTakeDownIsTakenDownLater) {
  ASSERT_NO_FATAL_FAILURE(LetIn());
  {
    const port::FailingAllocationsAt failing("ended queue pairs");
    ASSERT_EQ(::shutdown(client_.get(), SHUT_WR), 0);
    EXPECT_TRUE(Eventually([&] { return failing.failed() > 0; }));
    EXPECT_FALSE(LifeLineEnded(client_.get()));
  }
  EXPECT_EQ(ReceiveUpTo(client_.get(), 1), "");
  EXPECT_OK(node_->verbs().RevokeToken(node_->token()));
}

// Fails if a client is forgotten that there was no memory to cut off: asked again, the memory node
// would say that it reaches nothing, whatever it still has.
TEST_F(VerbsServerTest, AClientThatThereIsNoMemoryToCutOffIsNotForgotten) {
  ASSERT_NO_FATAL_FAILURE(LetIn());
  {
    const port::FailingAllocationsAt failing("ended queue pairs");
    EXPECT_THROW(node_->verbs().RevokeToken(node_->token()).PermitUncheckedError(), std::bad_alloc);
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_FALSE(LifeLineEnded(client_.get()));
  EXPECT_OK(node_->verbs().RevokeToken(node_->token()));
  EXPECT_EQ(ReceiveUpTo(client_.get(), 1), "");
}

// Fails if what the device has not destroyed is forgotten where there is no memory to try it again:
// the memory node would say that the client reaches nothing.
TEST_F(VerbsServerTest, WhatIsNotDestroyedIsKnownWhateverThereIsNoMemoryFor) {
  ASSERT_NO_FATAL_FAILURE(LetIn());
  fake_.destroys = false;
  {
    const port::FailingAllocationsAt failing("queue pairs taken down");
    EXPECT_THROW(node_->verbs().RevokeToken(node_->token()).PermitUncheckedError(), std::bad_alloc);
    EXPECT_THROW(node_->verbs().RevokeToken(node_->token()).PermitUncheckedError(), std::bad_alloc);
  }
  const Status status = node_->verbs().RevokeToken(node_->token());
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_FALSE(LifeLineEnded(client_.get()));
  fake_.destroys = true;
  EXPECT_OK(node_->verbs().RevokeToken(node_->token()));
  EXPECT_EQ(ReceiveUpTo(client_.get(), 1), "");
}

}  // namespace
}  // namespace dlsm
