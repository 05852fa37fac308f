#include "util/rpc/loopback_rpc.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace dlsm {
namespace {

// Answers kGrant at once, kMerge from another thread, keeps the answer of kFree for later.
class LoopbackHandler : public RpcHandler {
 public:
  ~LoopbackHandler() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void Handle(const RpcPeer& peer, Method method, const Slice& request, RpcDone done) override {
    EXPECT_EQ(peer.name, "me");
    std::string reply = "re: " + request.ToString();
    if (method == Method::kMerge) {
      threads_.emplace_back([done, reply] { done(Status::OK(), reply); });
    } else if (method == Method::kFree) {
      kept_.push_back(std::move(done));
    } else {
      done(method == Method::kGrant ? Status::OK() : Status::Busy("not now"), reply);
    }
  }
  void Disconnected(const RpcPeer& peer) override {
    EXPECT_EQ(peer.name, "me");
    ++disconnected;
  }

  std::vector<RpcDone> kept_;
  int disconnected = 0;

 private:
  std::vector<std::thread> threads_;
};

// Fails if an answer is lost, an error is not passed on, or a late answer does harm.
TEST(LoopbackRpcTest, AnswersNowLaterAndTooLate) {
  LoopbackHandler handler;
  auto client = NewLoopbackRpcClient(&handler, RpcPeer{1, "me"});
  const auto soon = [] { return Deadline::In(std::chrono::seconds(10)); };
  std::string reply;
  ASSERT_TRUE(client->Call(Method::kGrant, "a", &reply, soon()).ok());
  EXPECT_EQ(reply, "re: a");
  ASSERT_TRUE(client->Call(Method::kMerge, "b", &reply, soon()).ok());
  EXPECT_EQ(reply, "re: b");
  const Status busy = client->Call(Method::kHeartbeat, "c", &reply, soon());
  EXPECT_TRUE(busy.IsBusy());
  EXPECT_EQ(busy.message().ToString(), "not now");
  EXPECT_TRUE(client->Call(Method::kFree, "d", &reply, Deadline::In(std::chrono::milliseconds(20)))
                  .IsTimedOut());
  client.reset();
  EXPECT_EQ(handler.disconnected, 1);
  handler.kept_[0](Status::OK(), "too late");
}

}  // namespace
}  // namespace dlsm
