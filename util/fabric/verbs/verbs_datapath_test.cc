// What a queue pair does when its device or its far end has failed, over a device that is not
// there. That bytes arrive is fabric_test.cc's subject, what real devices do verbs_fault_test.cc's.
#include "util/fabric/verbs/verbs_datapath.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/fabric/verbs/verbs_fake_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kDatapathBytes = 1 << 20;

ibv_async_event DeviceFatal() {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  return event;
}

class VerbsDatapathTest : public testing::Test {
 protected:
  void SetUp() override {
    std::shared_ptr<const VerbsDomain> domain;
    ASSERT_OK(fake_.Open({}, &device_));
    ASSERT_OK(VerbsDomain::Create(device_, &domain));
    buffers_ = std::make_shared<VerbsBuffers>(domain);
    ASSERT_OK(buffers_->NewBuffer(4096, &buffer_));
    std::unique_ptr<VerbsEndpoint> endpoint;
    ASSERT_OK(VerbsEndpoint::Create(domain, VerbsEndpoint::Role::kClient, &endpoint));
    VerbsEnd end;
    ASSERT_OK(endpoint->Describe({}, {}, &end));
    ASSERT_OK(endpoint->Connect(end));
    number_ = endpoint->queue_pair();
    auto peer = std::make_shared<VerbsPeer>();
    peer->node = kTestNode;
    peer->name = "memory node 7 at the test";
    peer->regions.Add(MappedRegion{kTestRegion, nullptr, kDatapathBytes});
    const VerbsRemoteMemory all{kTestRegion, 1, 0, kDatapathBytes, 4096};
    queue_pair_ = std::make_unique<VerbsQueuePair>(std::move(endpoint), NewLifeLine(&far_), peer,
                                                   std::vector<VerbsRemoteMemory>{all}, buffers_,
                                                   nullptr, books_);
  }

  static FileDescriptor NewLifeLine(FileDescriptor* far) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    *far = FileDescriptor(ends[1]);
    return FileDescriptor(ends[0]);
  }
  Status PostRead(Ticket* ticket) {
    return queue_pair_->PostRead(RemoteSpan{kTestNode, kTestRegion, 0, 64},
                                 buffer_.span().Sub(0, 64), Purpose::kRead, ticket);
  }

  FakeVerbs fake_;
  std::shared_ptr<const VerbsDevice> device_;
  VerbsBooks books_;
  std::shared_ptr<VerbsBuffers> buffers_;
  RegisteredBuffer buffer_;
  FileDescriptor far_;  // Of the life line.
  const ibv_qp* number_ = nullptr;
  std::unique_ptr<VerbsQueuePair> queue_pair_;
};

// Fails if a transfer is not carried out, or is not waited for.
TEST_F(VerbsDatapathTest, Transfers) {
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  EXPECT_OK(queue_pair_->Wait(ticket, Deadline::In(seconds(20))));
  ASSERT_EQ(fake_.sent.size(), 1u);
  EXPECT_EQ(fake_.sent[0].remote_address, 4096u);
}

// Fails if the cause of all that fails, the device, is hidden behind what follows from it.
TEST_F(VerbsDatapathTest, AFailedDeviceIsTheCause) {
  FileDescriptor other_far;
  books_.farewells.Add(NewLifeLine(&other_far));
  far_.Close();
  device_->events().Take(DeviceFatal());
  Ticket ticket{};
  const Status status = PostRead(&ticket);
  EXPECT_THAT(status.ToString(), HasSubstr("RDMA device fake0 has failed"));
}

// Fails if a wait that begins before its device fails, and ends before it has slept, lays it to the
// memory node's account.
TEST_F(VerbsDatapathTest, AFailedDeviceIsTheCauseOfTimeOuts) {
  fake_.completes = false;
  fake_.flushes = false;
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  ASSERT_OK(queue_pair_->Ring());
  far_.Close();
  device_->events().Take(DeviceFatal());
  const Status status = queue_pair_->Wait(ticket, Deadline::In(milliseconds(0)));
  EXPECT_THAT(status.ToString(), HasSubstr("RDMA device fake0 has failed"));
}

// Fails if a thread that takes turns with others at a queue pair waits for what its device will
// never complete, though the device has said so.
TEST_F(VerbsDatapathTest, TurnsEndWhenTheQueuePairHasFailed) {
  fake_.completes = false;
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  ASSERT_OK(queue_pair_->BeginWait(ticket));
  bool done = false;
  ASSERT_OK(queue_pair_->Advance(ticket, &done));
  EXPECT_FALSE(done);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = const_cast<ibv_qp*>(number_);
  device_->events().Take(event);
  far_.Close();
  const Status status = queue_pair_->Advance(ticket, &done);
  EXPECT_THAT(status.ToString(), HasSubstr("reports that a queue pair has failed"));
}

// Fails if a device that has failed is waited for, at the cost of a processor: it completes nothing
// of what it had.
TEST_F(VerbsDatapathTest, NothingIsWaitedForOfAFailedDevice) {
  fake_.completes = false;
  fake_.flushes = false;
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  ASSERT_OK(queue_pair_->Ring());
  far_.Close();
  device_->events().Take(DeviceFatal());
  const auto start = Deadline::Clock::now();
  EXPECT_FALSE(PostRead(&ticket).ok());
  EXPECT_LT(Deadline::Clock::now() - start, seconds(1));
  EXPECT_FALSE(books_.farewells.Pending());
}

// Fails if a queue pair that the device does not destroy counts as gone, or is laid to the memory
// node's account.
TEST_F(VerbsDatapathTest, AQueuePairThatIsNotDestroyedIsNamed) {
  fake_.completes = false;
  fake_.destroys = false;
  far_.Close();
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  EXPECT_FALSE(queue_pair_->Wait(ticket, Deadline::In(milliseconds(0))).ok());
  EXPECT_TRUE(books_.farewells.Pending());
  const Status status = FarewellPending("memory node 7", books_.farewells);
  EXPECT_THAT(status.ToString(), HasSubstr("this machine's RDMA device has not destroyed"));
  EXPECT_THAT(status.ToString(), Not(HasSubstr("is the memory node overloaded")));
}

// There is no memory to hand a request over to the device. Fails if that throws, and leaves a queue
// pair that has lost the request, or still carries it out when its buffer is another's.
TEST_F(VerbsDatapathTest, ADoorbellWithoutMemoryClosesTheQueuePair) {
  far_.Close();
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  {
    const port::FailingAllocations failing(1);
    const Status status = queue_pair_->Wait(ticket, Deadline::In(seconds(20)));
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_THAT(status.ToString(), HasSubstr("no more memory"));
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_TRUE(queue_pair_->closed());
  EXPECT_TRUE(fake_.sent.empty());
}

// A wait is given up, the memory node does not take its end down, and there is no memory left.
// Fails if the wait ends by anything but a Status, or if it is not known that what was posted may
// still take effect, or not when that is over.
TEST_F(VerbsDatapathTest, AFarewellThatIsMissingIsNotedWithoutMemory) {
  fake_.completes = false;
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  ASSERT_OK(queue_pair_->Ring());
  {
    const port::FailingAllocationsAt failing("farewell");
    const Status status = queue_pair_->Wait(ticket, Deadline::In(milliseconds(0)));
    EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
    EXPECT_EQ(failing.failed(), 0u);
  }
  EXPECT_TRUE(queue_pair_->closed());
  EXPECT_TRUE(books_.farewells.Pending());
  far_.Close();
  EXPECT_FALSE(books_.farewells.Pending());
}

// Another thread's queue pair has not ended, and there is no memory to say so. Fails if a post
// throws then: who has posted before gives its buffers back, and their requests would still be
// sent.
TEST_F(VerbsDatapathTest, APostThatIsRefusedWithoutMemoryClosesTheQueuePair) {
  far_.Close();
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  FileDescriptor other_far;
  books_.farewells.Add(NewLifeLine(&other_far));
  {
    const port::FailingAllocationsAt failing("farewell pending");
    const Status status = PostRead(&ticket);
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_TRUE(queue_pair_->closed());
  EXPECT_TRUE(fake_.sent.empty());
}

// Fails if what a failed transfer's completion came with is waited for once more, at the cost of a
// processor, where there is no memory to say what has failed.
TEST_F(VerbsDatapathTest, AFailedTransferWithoutMemoryIsNotWaitedForAgain) {
  fake_.completes = false;
  far_.Close();
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  ASSERT_OK(queue_pair_->Ring());
  ibv_qp_attr stopped{};
  stopped.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(fake_.library().modify_qp(const_cast<ibv_qp*>(number_), &stopped, IBV_QP_STATE), 0);
  const auto start = Deadline::Clock::now();
  {
    const port::FailingAllocationsAt failing("failed transfer");
    const Status status = queue_pair_->Wait(ticket, Deadline::In(seconds(20)));
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_LT(Deadline::Clock::now() - start, seconds(1));
  EXPECT_TRUE(queue_pair_->closed());
}

// Fails if a queue pair that the device does not destroy counts as gone, or ends the process, where
// there is no memory to say so.
TEST_F(VerbsDatapathTest, OneThatIsNotDestroyedIsKeptWithoutMemory) {
  fake_.completes = false;
  fake_.destroys = false;
  far_.Close();
  Ticket ticket{};
  ASSERT_OK(PostRead(&ticket));
  {
    const port::FailingAllocationsAt failing("not destroyed");
    EXPECT_TRUE(queue_pair_->Wait(ticket, Deadline::In(milliseconds(0))).IsTimedOut());
    EXPECT_GE(failing.failed(), 1u);
  }
  EXPECT_TRUE(queue_pair_->closed());
  EXPECT_TRUE(books_.farewells.broken());
  EXPECT_FALSE(buffers_->NewBuffer(4096, &buffer_).ok());
}

// A memory node and its client, both over that device.
class VerbsConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    const Status may_lock = CheckLockedMemory(uint64_t{16} << 20);
    if (!may_lock.ok()) GTEST_SKIP() << may_lock.ToString();
    ASSERT_OK(fake_.Open({}, &device_));
    node_ = std::make_unique<TestMemoryNode>(kDatapathBytes, device_);
    ASSERT_OK(VerbsConnection::ConnectThrough(device_, kNoNumaNode, node_->Peer(), &connection_));
  }

  FakeVerbs fake_;
  std::shared_ptr<const VerbsDevice> device_;
  std::unique_ptr<TestMemoryNode> node_;
  std::unique_ptr<FabricConnection> connection_;
};

// Fails if a connection that is stopped because of its device does not say so, or if it is not
// known that its writes may still land.
TEST_F(VerbsConnectionTest, StopsForTheCauseThatThereIs) {
  std::unique_ptr<QueuePair> queue_pair;
  ASSERT_OK(connection_->NewQueuePair(Deadline::In(seconds(20)), &queue_pair));
  EXPECT_FALSE(connection_->MayStillLand());
  RegisteredBuffer buffer;
  ASSERT_OK(connection_->NewBuffer(4096, &buffer));
  fake_.completes = false;
  fake_.destroys = false;
  Ticket ticket{};
  ASSERT_OK(queue_pair->PostWrite(buffer.span().Sub(0, 64), node_->Span(0, 64), Purpose::kFlush,
                                  &ticket));
  EXPECT_TRUE(queue_pair->Wait(ticket, Deadline::In(milliseconds(0))).IsTimedOut());
  EXPECT_TRUE(connection_->MayStillLand());
  std::unique_ptr<QueuePair> again;
  Status status = connection_->NewQueuePair(Deadline::In(seconds(20)), &again);
  EXPECT_THAT(status.ToString(), HasSubstr("has not destroyed an earlier queue pair"));
  device_->events().Take(DeviceFatal());
  status = connection_->NewQueuePair(Deadline::In(seconds(20)), &again);
  EXPECT_THAT(status.ToString(), HasSubstr("RDMA device fake0 has failed"));
  fake_.destroys = true;
}

}  // namespace
}  // namespace dlsm
