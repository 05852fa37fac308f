// A follower whose calls do not reach the memory node for a while.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/test/test_database_testing.h"
#include "util/rpc/auth/socket.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

// Passes connections on to a port. While it is cut there are none.
class Relay {
 public:
  explicit Relay(uint16_t to) : to_(to) {
    EXPECT_OK(ListenSocket("127.0.0.1", 0, &listening_, &port_));
    thread_ = std::thread([this] { Run(); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void Cut(bool cut) { cut_ = cut; }

 private:
  using Pair = std::pair<Socket, Socket>;

  void Run() {
    while (!stop_) {
      std::vector<pollfd> polled = {{listening_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        polled.push_back({pair.first.get(), POLLIN, 0});
        polled.push_back({pair.second.get(), POLLIN, 0});
      }
      poll(polled.data(), polled.size(), /*timeout=*/10);
      size_t next = 1;
      for (auto pair = pairs_.begin(); pair != pairs_.end();) {
        const bool there = PassOn(polled[next], pair->second);
        const bool back = PassOn(polled[next + 1], pair->first);
        next += 2;
        pair = there && back && !cut_ ? std::next(pair) : pairs_.erase(pair);
      }
      if (polled[0].revents != 0) Accept();
    }
  }
  // False: it has ended.
  static bool PassOn(const pollfd& from, const Socket& to) {
    if (from.revents == 0) return true;
    char bytes[4096];
    const ssize_t received = recv(from.fd, bytes, sizeof(bytes), 0);
    return received > 0 && SendAll(to.get(), Slice(bytes, static_cast<size_t>(received)),
                                   Deadline::In(std::chrono::seconds(10)))
                               .ok();
  }
  void Accept() {
    Socket from(accept(listening_.get(), nullptr, nullptr));
    Socket to;
    ConnectFailure failure{};
    if (cut_ || !from.valid()) return;
    if (!ConnectSocket("127.0.0.1", to_, Deadline::In(std::chrono::seconds(10)), &to, &failure)
             .ok()) {
      return;
    }
    pairs_.emplace_back(std::move(from), std::move(to));
  }

  const uint16_t to_;
  Socket listening_;
  uint16_t port_ = 0;
  std::list<Pair> pairs_;
  std::atomic<bool> cut_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The memory node takes the access to its memory from a client that was away for longer than the
// grace period; the follower's lease, which is longer, is renewed again afterwards. Fails if the
// follower goes on with connections that nothing can be read through any more.
TEST(FollowerCutTest, FollowsAgainAfterItsAccessHasBeenTakenAway) {
  TestNode::Config config;
  config.grace = milliseconds(200);
  TestNode node(config);
  Relay relay(node.server().port());
  Options options = node.With(TinyOptions(), "tcp");
  options.publish_interval_ms = 5;
  auto owner = OpenOrDie(options, "followed");
  ASSERT_OK(owner->Put(WriteOptions(), "key", "before"));
  Options following = options;
  following.memory_nodes = relay.address();
  following.follow_interval_ms = 0;
  std::unique_ptr<DB> follower;
  ASSERT_OK(DB::OpenFollower(following, "followed", &follower));
  const auto shows = [&](const std::string& value) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < until) {
      follower->TryCatchUp().PermitUncheckedError();
      if (GetOr(follower.get(), "key") == value) return true;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return false;
  };
  ASSERT_TRUE(shows("before"));
  relay.Cut(true);
  // A token is good for the grace period and a second.
  std::this_thread::sleep_for(config.grace + std::chrono::seconds(3));
  EXPECT_FALSE(follower->TryCatchUp().ok());
  relay.Cut(false);
  ASSERT_OK(owner->Put(WriteOptions(), "key", "after"));
  EXPECT_TRUE(shows("after"));
  EXPECT_OK(follower->Close());
  CloseAndDestroy(&owner, options, "followed");
}

}  // namespace
}  // namespace dlsm
