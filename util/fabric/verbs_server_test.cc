// Whom a memory node lets in that asks for a queue pair, over a device that is not there. What its
// queue pairs can then is verbs_test.cc's subject, what they cannot verbs_isolation_test.cc's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>

#include "util/fabric/fabric_testing.h"
#include "util/fabric/verbs_fake_testing.h"
#include "util/fabric/verbs_frame.h"
#include "util/fabric/verbs_memory.h"
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

}  // namespace
}  // namespace dlsm
