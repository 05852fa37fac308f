#include "db/follow/followed_node.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <thread>

#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "port/boot_clock.h"
#include "port/manual_clock_testing.h"
#include "table/merge_scheduler.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFollowedLease{4000};
// What a call there takes at least, while it is late.
constexpr milliseconds kLate{100};

// A memory node whose answers come late. Fails if a lease is reckoned from when the answer has
// come, of the call that begins it or of a heartbeat: the memory node, which counts from when it
// has heard, would give memory to others that is still read here.
TEST(FollowedNodeTest, ALeaseRunsFromBeforeItWasAskedFor) {
  std::atomic<bool> late{false};
  TestNode::Config config;
  config.lease = kFollowedLease;
  config.clock = [&late] {
    if (late) std::this_thread::sleep_for(kLate);
    return DatabaseTableOptions::Clock::now();
  };
  TestNode node(config);
  std::unique_ptr<DB> owner = OpenOrDie(node.With(OwnerOptions(), "tcp"), "followed");
  ASSERT_OK(owner->Close());
  owner.reset();

  const MergeScheduler idle{MergeSchedulerOptions()};
  std::unique_ptr<FollowedNode> followed;
  late = true;
  ASSERT_OK(FollowedNode::Open(node.With(FollowerOptions(), "tcp"), node.address(), {"followed"},
                               &idle, &followed));
  const milliseconds most = kFollowedLease - kLate;
  auto left = followed->lease().left();
  EXPECT_LE(left, most);
  ASSERT_OK(followed->Start([] { return uint64_t{0}; }));
  int renewals = 0;
  EXPECT_TRUE(Eventually([&] {
    const auto before = left;
    left = followed->lease().left();
    if (left > before) ++renewals;
    EXPECT_LE(left, most);
    return renewals == 2;
  }));
  late = false;
  followed->Stop(/*close=*/true);
}

// Fails if a lease goes on to its end by this clock, which may run more slowly than the memory
// node's; or if it ends long before.
TEST(ReaderLeaseTest, EndsAHundredthEarlier) {
  constexpr std::chrono::seconds kLong{10'000};
  ReaderLease lease("node");
  EXPECT_TRUE(lease.Check().IsTimedOut()) << "it has not begun";
  const auto now = ReaderLease::Clock::now();
  lease.Renewed(now - kLong + kLong / 50, kLong);
  EXPECT_OK(lease.Check());
  EXPECT_GT(lease.left(), std::chrono::nanoseconds(0));
  lease.Renewed(now - kLong + kLong / 100, kLong);
  EXPECT_TRUE(lease.Check().IsTimedOut());
}

// Fails if time for which this machine was suspended does not count: the memory node, which runs
// elsewhere, has given the memory to others by then.
TEST(ReaderLeaseTest, EndsWhileTheMachineIsSuspended) {
  constexpr std::chrono::seconds kTenSeconds{10};
  port::ManualClock clock;
  ReaderLease lease("node");
  lease.Renewed(ReaderLease::Clock::now(), kTenSeconds);
  clock.Suspend(kTenSeconds / 2);
  EXPECT_OK(lease.Check());
  EXPECT_LT(lease.left(), kTenSeconds / 2);
  clock.Suspend(kTenSeconds / 2);
  EXPECT_TRUE(lease.Check().IsTimedOut());
  lease.Renewed(ReaderLease::Clock::now(), kTenSeconds);
  EXPECT_OK(lease.Check());
}

// Fails if the clock is another one of the system's than that which goes on during suspension, or
// tells another time than that.
TEST(ReaderLeaseTest, HasTheClockThatGoesOnDuringSuspension) {
  static_assert(std::chrono::is_clock_v<ReaderLease::Clock>);
  const auto system_time = [] {
    timespec time{};
    EXPECT_EQ(clock_gettime(CLOCK_BOOTTIME, &time), 0);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  EXPECT_EQ(port::BootClock::kSource, CLOCK_BOOTTIME);
  const auto before = system_time();
  const auto now = ReaderLease::Clock::now().time_since_epoch();
  EXPECT_LE(before, now);
  EXPECT_LE(now, system_time());
}

}  // namespace
}  // namespace dlsm
