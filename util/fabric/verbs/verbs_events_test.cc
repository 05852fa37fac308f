// What a device reports by itself, and what becomes of its queue pairs then. Events of a software
// device are few, so most are made by the test; the port and its address are really taken away
// where the test may do that (script/softroce/run-in-vm).
#include "util/fabric/verbs/verbs_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "util/eventually_testing.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/fabric/verbs/verbs_device.h"
#include "util/fabric/verbs/verbs_fake_testing.h"
#include "util/named_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// Fails if a cause is lost or replaced, or who is to be woken is not, or after it has gone.
TEST(VerbsHealthTest, TheFirstCauseStays) {
  VerbsHealth health;
  int calls = 0;
  health.OnBreak([&] { ++calls; });
  EXPECT_FALSE(health.broken());
  EXPECT_OK(health.why());
  health.Break(Status::IOError("first"));
  health.Break(Status::IOError("second"));
  EXPECT_TRUE(health.broken());
  EXPECT_THAT(health.why().ToString(), HasSubstr("first"));
  EXPECT_EQ(calls, 1);
  health.OnBreak([&] { ++calls; });  // Too late to be told later.
  EXPECT_EQ(calls, 2);
  VerbsHealth other;
  other.OnBreak([&] { ++calls; });
  other.Forget();
  other.Break(Status::IOError("unheard"));
  EXPECT_EQ(calls, 2);
}

// Fails if a device that fails and is then taken away counts as two, or if its end is told in place
// of its failure.
TEST(VerbsDeviceFailureTest, IsToldOnce) {
  FakeVerbs fake;
  std::shared_ptr<const VerbsDevice> device;
  ASSERT_OK(fake.Open({}, &device));
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  fake.Tell(event);
  EXPECT_TRUE(Eventually([&] { return !device->events().device().ok(); }));
  fake.Vanish();
  device->events().Take(event);
  std::this_thread::sleep_for(milliseconds(100));  // The watcher's, to find that it is gone.
  EXPECT_EQ(device->events().counts().device_failures, 1u);
  EXPECT_THAT(device->events().device().ToString(), HasSubstr("local catastrophic error"));
}

class VerbsEventsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = TestMemoryNode::WhyNot(FabricKind::kVerbs);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    ASSERT_OK(VerbsDevice::Open({}, &device_));
    node_ = std::make_unique<TestMemoryNode>(uint64_t{1} << 20, device_);
    FabricPeer peer = node_->Peer();
    ASSERT_OK(VerbsConnection::Connect({}, kNoNumaNode, peer, &connection_));
  }

  VerbsEvents& client_events() {
    return static_cast<VerbsConnection*>(connection_.get())->device().events();
  }
  std::unique_ptr<QueuePair> NewQueuePair() {
    std::unique_ptr<QueuePair> made;
    EXPECT_OK(connection_->NewQueuePair(Soon(), &made));
    return made;
  }
  Status Touch(QueuePair& queue_pair, Deadline deadline = Soon()) {
    std::string bytes(64, '\0');
    Ticket ticket{};
    const Status status = queue_pair.PostRead(
        node_->Span(0, bytes.size()), {bytes.data(), bytes.size(), 0}, Purpose::kRead, &ticket);
    return status.ok() ? queue_pair.Wait(ticket, deadline) : status;
  }

  std::shared_ptr<const VerbsDevice> device_;  // The memory node's; the client has its own.
  std::unique_ptr<TestMemoryNode> node_;
  std::unique_ptr<FabricConnection> connection_;
};

// Fails if an event of one queue pair is not told to its owner, or is to others; or if an event of
// its completion queue is nobody's.
TEST_F(VerbsEventsTest, AQueuePairFailsAlone) {
  std::shared_ptr<const VerbsDomain> domain;
  std::unique_ptr<VerbsEndpoint> one, other;
  ASSERT_OK(VerbsDomain::Create(device_, &domain));
  ASSERT_OK(VerbsEndpoint::Create(domain, VerbsEndpoint::Role::kClient, &one));
  ASSERT_OK(VerbsEndpoint::Create(domain, VerbsEndpoint::Role::kClient, &other));
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = one->queue_pair();
  device_->events().Take(event);
  EXPECT_TRUE(one->health().broken());
  EXPECT_THAT(one->health().why().ToString(), HasSubstr(device_->name()));
  EXPECT_FALSE(other->health().broken());
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = other->completions();
  device_->events().Take(event);
  EXPECT_TRUE(other->health().broken());
  EXPECT_EQ(device_->events().counts().queue_pair_failures, 2u);
  // One that has gone is nobody's, and that is no error.
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = one->queue_pair();
  one.reset();
  device_->events().Take(event);
}

// Fails if a transfer goes on over a device that has failed, sleeps on although it has, does not
// name the cause, or if new queue pairs are promised on it.
TEST_F(VerbsEventsTest, AFailedDeviceEndsTransfers) {
  const auto queue_pair = NewQueuePair();
  EXPECT_OK(Touch(*queue_pair));
  const auto idle = NewQueuePair();
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  client_events().Take(event);
  const Status status = Touch(*queue_pair);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("has failed"));
  EXPECT_THAT(status.ToString(), HasSubstr("open the database again"));
  EXPECT_FALSE(Touch(*idle).ok());
  std::unique_ptr<QueuePair> again;
  const Status refused = connection_->NewQueuePair(Soon(), &again);
  EXPECT_THAT(refused.ToString(), HasSubstr("has failed"));
  EXPECT_THAT(connection_->Describe(), HasSubstr("1 device failures"));
}

// Fails if a memory node keeps a queue pair that its device has reported as failed: its client
// would wait for the end of its retries.
TEST_F(VerbsEventsTest, AMemoryNodeDropsWhatHasFailed) {
  const auto queue_pair = NewQueuePair();
  EXPECT_OK(Touch(*queue_pair));
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  device_->events().Take(event);
  EXPECT_EQ(node_->verbs().Events().device_failures, 1u);
  // The thread that watches life lines takes the end down, soon.
  const Deadline deadline = Deadline::In(seconds(10));
  Status status;
  while (status.ok() && !deadline.Passed()) status = Touch(*queue_pair, deadline);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("the memory node closed it"));
}

// Fails if threads that watch for events keep a processor busy.
TEST_F(VerbsEventsTest, WatchingCostsNoTime) {
  const auto queue_pair = NewQueuePair();
  EXPECT_OK(Touch(*queue_pair));
  std::this_thread::sleep_for(milliseconds(50));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10);
}

// With an address of its own, which the test may take away and give back.
class VerbsAddressTest : public VerbsEventsTest {
 protected:
  void SetUp() override {
    const char* const netdev = std::getenv("SOFTROCE_NETDEV");
    if (netdev == nullptr || netdev != std::string("dummy0")) {
      GTEST_SKIP() << "only in the virtual machine may a network interface be changed";
    }
    netdev_ = netdev;
    VerbsEventsTest::SetUp();
  }
  void TearDown() override {
    if (netdev_.empty()) return;
    Ip("link set dev " + netdev_ + " up");
    EXPECT_TRUE(Eventually([&] {
      std::shared_ptr<const VerbsDevice> device;
      return VerbsDevice::Open({}, &device).ok();
    }));
  }
  static void Ip(const std::string& arguments) {
    EXPECT_EQ(std::system(("ip " + arguments).c_str()), 0) << arguments;  // NOLINT
  }
  std::string netdev_;
};

// Fails if a port that goes down and comes back is not noticed, not counted, or not named when
// something fails for it.
TEST_F(VerbsAddressTest, APortGoesDownAndComesBack) {
  const auto queue_pair = NewQueuePair();
  EXPECT_OK(Touch(*queue_pair));
  Ip("link set dev " + netdev_ + " down");
  EXPECT_TRUE(Eventually([&] { return client_events().counts().port_downs > 0; }));
  EXPECT_GT(node_->verbs().Events().port_downs, 0u);
  std::unique_ptr<QueuePair> refused;
  const Status status = connection_->NewQueuePair(Soon(), &refused);
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("is not active"));
  Ip("link set dev " + netdev_ + " up");
  EXPECT_TRUE(Eventually([&] { return client_events().counts().port_ups > 0; }));
  EXPECT_EQ(client_events().PortTrouble(), "");
  EXPECT_TRUE(Eventually([&] {
    std::unique_ptr<QueuePair> made;
    return connection_->NewQueuePair(Soon(), &made).ok() && Touch(*made).ok();
  }));
}

// Fails if a queue pair whose address was taken away goes on as if it had it, or its cause is lost,
// however it was connected.
class VerbsAddressGoesTest : public VerbsAddressTest,
                             public testing::WithParamInterface<Named<VerbsConnect>> {};

INSTANTIATE_TEST_SUITE_P(BothWays, VerbsAddressGoesTest,
                         testing::Values(Named<VerbsConnect>{"hello", VerbsConnect::kHello},
                                         Named<VerbsConnect>{"cm", VerbsConnect::kCm}),
                         NameOf<VerbsConnect>);

TEST_P(VerbsAddressGoesTest, AnAddressIsTakenAway) {
  const std::string address = "10.77.9.9";
  Ip("addr add " + address + "/32 dev " + netdev_);
  VerbsOptions options;
  options.device = address;
  options.connect = GetParam();
  std::unique_ptr<FabricConnection> connection;
  ASSERT_TRUE(Eventually([&] {
    return VerbsConnection::Connect(options, kNoNumaNode, node_->Peer(), &connection).ok();
  }));
  std::unique_ptr<QueuePair> queue_pair;
  ASSERT_OK(connection->NewQueuePair(Soon(), &queue_pair));
  ASSERT_OK(Touch(*queue_pair));
  const auto unconcerned = NewQueuePair();
  Ip("addr del " + address + "/32 dev " + netdev_);
  // A transfer may fail before the device has told why.
  std::string failure;
  EXPECT_TRUE(Eventually([&] {
    failure = Touch(*queue_pair).ToString();
    return failure.find("has no longer the GID") != std::string::npos;
  })) << failure;
  EXPECT_OK(Touch(*unconcerned));
  queue_pair.reset();
}

}  // namespace
}  // namespace dlsm
