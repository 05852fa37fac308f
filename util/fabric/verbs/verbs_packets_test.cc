// What the fabric says it has asked of the device, against what the device says it has sent. Needs
// a soft-RoCE device, whose driver counts packets; skipped without one.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/verbs/verbs_connect.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kPacketsBytes = uint64_t{4} << 20;
// Of a long message, soft-RoCE asks for an acknowledgement every so many packets, and at its end.
constexpr uint64_t kPacketsPerAck = 64;

class VerbsPacketsTest : public testing::Test {
 protected:
  struct Packets {
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t repeated = 0;  // Events, each of which explains further packets.
  };

  void SetUp() override {
    const std::string why_not = TestMemoryNode::WhyNot(FabricKind::kVerbs);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    ASSERT_OK(VerbsDevice::Open({}, &device_));
    if (!std::filesystem::exists(CounterPath("sent_pkts"))) {
      GTEST_SKIP() << device_->name() << " counts no packets";
    }
    node_ = std::make_unique<TestMemoryNode>(FabricKind::kVerbs, kPacketsBytes);
    std::unique_ptr<FabricConnection> made;
    ASSERT_OK(VerbsConnection::Connect({}, kNoNumaNode, node_->Peer(), &made));
    connection_.reset(static_cast<VerbsConnection*>(made.release()));
    ASSERT_OK(connection_->NewQueuePair(Soon(), &queue_pair_));
    ASSERT_OK(connection_->NewBuffer(kPacketsBytes, &buffer_));
    ibv_port_attr port;
    ASSERT_OK(device_->QueryPort(&port));
    mtu_ = uint64_t{128} << port.active_mtu;
  }

  std::string CounterPath(const std::string& name) const {
    return "/sys/class/infiniband/" + device_->name() + "/ports/1/hw_counters/" + name;
  }
  uint64_t Counter(const std::string& name) const {
    std::ifstream file(CounterPath(name));
    uint64_t value = 0;
    EXPECT_TRUE(file >> value) << name;
    return value;
  }
  Packets Now() const {
    // The kernel answers with what it has read in the last 10 ms.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    Packets now;
    now.sent = Counter("sent_pkts");
    now.received = Counter("rcvd_pkts");
    for (const char* name : {"duplicate_request", "out_of_seq_request", "rcvd_seq_err",
                             "completer_retry_err", "rcvd_rnr_err", "send_rnr_err"}) {
      now.repeated += Counter(name);
    }
    return now;
  }

  uint64_t PacketsOf(uint64_t bytes) const { return (bytes + mtu_ - 1) / mtu_; }
  uint64_t AcksOf(uint64_t bytes) const {
    return 1 + (PacketsOf(bytes) - 1) / (kPacketsPerAck + 1);
  }

  // Both ends are on this device: so it sends, and receives, what either does.
  template <typename Post>
  void Expect(const char* what, uint64_t count, uint64_t packets, Post post) {
    SCOPED_TRACE(what);
    const VerbsCounts counts_before = connection_->Counts();
    const Packets before = Now();
    Ticket ticket{};
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_OK(post(&ticket));
      if (i % 32 == 31) {
        ASSERT_OK(queue_pair_->Wait(ticket, Soon()));
      }
    }
    ASSERT_OK(queue_pair_->Wait(ticket, Soon()));
    const Packets after = Now();
    const uint64_t sent = after.sent - before.sent;
    const uint64_t received = after.received - before.received;
    std::printf("%s: %llu work requests, %llu packets, %llu repeats\n", what,
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(sent),
                static_cast<unsigned long long>(after.repeated - before.repeated));
    EXPECT_EQ(connection_->Counts().work_requests - counts_before.work_requests, count);
    if (after.repeated == before.repeated) {
      EXPECT_EQ(sent, count * packets);
      EXPECT_EQ(received, count * packets);
    } else {
      EXPECT_GE(sent, count * packets);
    }
  }
  void ExpectReads(const char* what, uint64_t count, uint64_t bytes) {
    const uint64_t read_before = Totals().read_bytes;
    Expect(what, count, 1 + PacketsOf(bytes), [&](Ticket* ticket) {
      return queue_pair_->PostRead(node_->Span(0, bytes), buffer_.span().Sub(0, bytes),
                                   Purpose::kRead, ticket);
    });
    EXPECT_EQ(Totals().read_bytes - read_before, count * bytes);
  }
  void ExpectWrites(const char* what, uint64_t count, uint64_t bytes) {
    const uint64_t written_before = Totals().write_bytes;
    Expect(what, count, PacketsOf(bytes) + AcksOf(bytes), [&](Ticket* ticket) {
      return queue_pair_->PostWrite(buffer_.span().Sub(0, bytes), node_->Span(0, bytes),
                                    Purpose::kRead, ticket);
    });
    EXPECT_EQ(Totals().write_bytes - written_before, count * bytes);
  }
  WireCounts Totals() const { return connection_->Totals()[static_cast<size_t>(Purpose::kRead)]; }

  std::shared_ptr<const VerbsDevice> device_;
  std::unique_ptr<TestMemoryNode> node_;
  std::unique_ptr<VerbsConnection> connection_;
  RegisteredBuffer buffer_;
  std::unique_ptr<QueuePair> queue_pair_;
  uint64_t mtu_ = 0;
};

// Fails if a read or a write costs a packet more than it must (split, repeated, or an extra request
// nobody asked for), or if the fabric counts other requests or bytes than the device was given.
TEST_F(VerbsPacketsTest, TheDeviceSendsWhatTheFabricCounts) {
  ExpectReads("reads of 512 B", 1000, 512);
  ExpectReads("reads of one packet", 200, mtu_);
  ExpectReads("reads of a packet and a byte", 200, mtu_ + 1);
  ExpectReads("reads of 1 MB", 4, 1 << 20);
  ExpectWrites("writes of 64 B, inline", 1000, 64);
  ExpectWrites("writes of 512 B", 1000, 512);
  ExpectWrites("writes of a packet and a byte", 200, mtu_ + 1);
  ExpectWrites("writes of 256 KB", 8, 256 << 10);
  ExpectWrites("writes of 1 MB", 4, 1 << 20);
  uint64_t prior = 0;
  Expect("atomics", 200, 2, [&](Ticket* ticket) {
    return queue_pair_->PostFetchAdd(node_->Span(0, 8), 1, &prior, Purpose::kRead, ticket);
  });
}

}  // namespace
}  // namespace dlsm
