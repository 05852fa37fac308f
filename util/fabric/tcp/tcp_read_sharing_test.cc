// When threads read over a connection that they share: each gets its own bytes, in its order, and
// hears of nothing that concerns others.
#include "util/fabric/tcp/tcp_read_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "port/failing_allocations_testing.h"
#include "port/processors.h"
#include "util/fabric/factory/fabric_factory.h"
#include "util/fabric/factory/fabric_testing.h"
#include "util/fabric/known_bytes_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// The connection of a compute node to a memory node that speaks the protocol.
class TcpReadSharingTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 1 << 20;
  // So many threads that a crowd of them waits at once.
  static size_t Crowd() { return size_t{3} * std::max(port::ProcessorCount(), 8u); }

  TcpReadSharingTest() : node_(FabricKind::kTcp, kBytes) {
    for (uint64_t i = 0; i < kBytes; ++i) node_.data()[i] = ByteAt(i);
  }

  void Connect(bool share_reads, uint64_t believed_bytes = kBytes) {
    FabricOptions options;
    options.kind = FabricKind::kTcp;
    options.tcp_poll = kTestPoll;
    options.tcp_share_reads = share_reads;
    FabricPeer peer = node_.Peer();
    peer.regions[0].bytes = believed_bytes;
    ASSERT_OK(ConnectFabric(options, peer, Soon(), &connection_));
  }

  // `count` threads, each with its queue pair, call read(thread, queue pair).
  template <typename Function>
  void InThreads(size_t count, Function read) {
    std::vector<std::unique_ptr<QueuePair>> queue_pairs(count);
    for (auto& queue_pair : queue_pairs) {
      ASSERT_OK(connection_->NewQueuePair(Soon(), &queue_pair));
    }
    std::vector<std::thread> threads;
    for (size_t id = 0; id < count; ++id) {
      threads.emplace_back([id, &read, &queue_pairs] { read(id, *queue_pairs[id]); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  Status ReadOne(QueuePair& queue_pair, uint64_t offset, std::string* to) {
    Ticket ticket{};
    Status status = queue_pair.PostRead(node_.Span(offset, to->size()),
                                        LocalSpan{to->data(), to->size()}, Purpose::kRead, &ticket);
    return status.ok() ? queue_pair.Wait(ticket, Soon()) : status;
  }

  // Until threads of a crowd have read together, for a minute at most; then `more` times each.
  void ReadInACrowd(uint64_t more) {
    const Deadline deadline = Soon();
    InThreads(Crowd(), [&](size_t id, QueuePair& queue_pair) {
      Random random(id);
      for (uint64_t left = more; left > 0 && !deadline.Passed();) {
        std::string got(1 + random.Uniform(600), 'x');
        const uint64_t offset = random.Uniform(kBytes - got.size());
        ASSERT_OK(ReadOne(queue_pair, offset, &got));
        ASSERT_EQ(got, BytesAt(offset, got.size()));
        if (connection_->Waits().shared > 0) --left;
      }
    });
  }

  TestMemoryNode node_;
  std::unique_ptr<FabricConnection> connection_;
};

TEST_F(TcpReadSharingTest, ACrowdReadsTogether) {
  Connect(/*share_reads=*/true);
  ReadInACrowd(Rounds(200));
  EXPECT_GT(connection_->Waits().shared, 0u);
  EXPECT_LE(connection_->Waits().shared, connection_->Waits().polled + connection_->Waits().slept);
}

TEST_F(TcpReadSharingTest, OneThreadReadsOnItsOwn) {
  Connect(/*share_reads=*/true);
  InThreads(1, [&](size_t, QueuePair& queue_pair) {
    for (uint64_t i = 0; i < 200; ++i) {
      std::string got(8, 'x');
      ASSERT_OK(ReadOne(queue_pair, i, &got));
      ASSERT_EQ(got, BytesAt(i, 8));
    }
  });
  EXPECT_EQ(connection_->Waits().shared, 0u);
}

TEST_F(TcpReadSharingTest, NobodySharesUnasked) {
  Connect(/*share_reads=*/false);
  InThreads(Crowd(), [&](size_t, QueuePair& queue_pair) {
    for (uint64_t i = 0; i < 100; ++i) {
      std::string got(8, 'x');
      ASSERT_OK(ReadOne(queue_pair, i, &got));
    }
  });
  EXPECT_EQ(connection_->Waits().shared, 0u);
}

// Writes, atomics and large reads in a crowd, in the order in which they were posted: fails if a
// read overtakes what its own queue pair has under way.
TEST_F(TcpReadSharingTest, OrderHoldsWithinAQueuePair) {
  Connect(/*share_reads=*/true);
  InThreads(std::min<size_t>(Crowd(), kBytes / 2 / 4096), [&](size_t id, QueuePair& queue_pair) {
    Random random(id);
    const uint64_t mine = id * 4096;
    for (uint64_t i = 0; i < Rounds(300); ++i) {
      const std::string wrote(1 + random.Uniform(100), static_cast<char>('a' + i % 26));
      std::string got(wrote.size(), 'x');
      std::string far(random.Uniform(4) == 0 ? size_t{64} << 10 : 16, 'x');
      Ticket ticket{};
      ASSERT_OK(queue_pair.PostWrite(LocalSpan{const_cast<char*>(wrote.data()), wrote.size()},
                                     node_.Span(mine, wrote.size()), Purpose::kRead, &ticket));
      const uint64_t rung = random.Uniform(3);
      if (rung == 0) {
        ASSERT_OK(queue_pair.Ring());
      }
      if (rung == 1) {
        ASSERT_OK(queue_pair.Wait(ticket, Soon()));
      }
      ASSERT_OK(queue_pair.PostRead(node_.Span(mine, got.size()), LocalSpan{got.data(), got.size()},
                                    Purpose::kRead, &ticket));
      const Ticket first = ticket;
      if (random.Uniform(2) == 0) {
        ASSERT_OK(queue_pair.Ring());
      }
      ASSERT_OK(queue_pair.PostRead(node_.Span(kBytes / 2, far.size()),
                                    LocalSpan{far.data(), far.size()}, Purpose::kRead, &ticket));
      ASSERT_OK(queue_pair.Wait(first, Soon()));
      ASSERT_EQ(got, wrote);
      ASSERT_OK(queue_pair.Wait(ticket, Soon()));
      ASSERT_EQ(far, BytesAt(kBytes / 2, far.size()));
      uint64_t prior = 0;
      const uint64_t word = mine + 2048;
      ASSERT_OK(queue_pair.PostFetchAdd(node_.Span(word, 8), 1, &prior, Purpose::kRead, &ticket));
      ASSERT_OK(queue_pair.Wait(ticket, Soon()));
      uint64_t now = 0;
      ASSERT_OK(queue_pair.PostRead(node_.Span(word, 8),
                                    LocalSpan{reinterpret_cast<char*>(&now), 8}, Purpose::kRead,
                                    &ticket));
      ASSERT_OK(queue_pair.Wait(ticket, Soon()));
      ASSERT_EQ(now, prior + 1);
    }
  });
}

// The server refuses reads beyond its region, and closes the connection over which they came. Fails
// if those who read within it hear of that, or do not share another one soon.
TEST_F(TcpReadSharingTest, ARefusalIsItsReadersAlone) {
  Connect(/*share_reads=*/true, 2 * kBytes);
  std::atomic<bool> refused{false};
  std::atomic<uint64_t> shared_before{UINT64_MAX};
  const Deadline deadline = Soon();
  InThreads(Crowd(), [&](size_t id, QueuePair& queue_pair) {
    std::string got(100, 'x');
    if (id == 0) {
      while (connection_->Waits().shared < 100 && !deadline.Passed()) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      const Status status = ReadOne(queue_pair, kBytes + 5, &got);
      EXPECT_THAT(status.ToString(), HasSubstr("not inside one of its regions"));
      EXPECT_TRUE(queue_pair.closed());
      refused = true;
      // What had arrived over the former connection may still be counted.
      std::this_thread::sleep_for(milliseconds(100));
      shared_before = connection_->Waits().shared;
      return;
    }
    while (connection_->Waits().shared <= shared_before && !deadline.Passed()) {
      ASSERT_OK(ReadOne(queue_pair, id, &got));
      ASSERT_EQ(got, BytesAt(id, 100));
    }
  });
  EXPECT_TRUE(refused);
  EXPECT_GT(connection_->Waits().shared, shared_before);
}

// A crowd that has no memory for a connection to share. Fails if a reader hears of that, or if what
// it has posted is left behind when it does.
TEST_F(TcpReadSharingTest, WithoutMemoryToShareEachReadsOnItsOwn) {
  Connect(/*share_reads=*/true);
  const port::FailingAllocationsAt failing("shared reads: connection");
  const Deadline deadline = Soon();
  InThreads(Crowd(), [&](size_t id, QueuePair& queue_pair) {
    std::string got(100, 'x');
    while (failing.failed() == 0 && !deadline.Passed()) {
      ASSERT_OK(ReadOne(queue_pair, id, &got));
      ASSERT_EQ(got, BytesAt(id, 100));
    }
  });
  EXPECT_GT(failing.failed(), 0u);
  EXPECT_EQ(connection_->Waits().shared, 0u);
}

// Fails if threads that share hang, or hear of nothing, when the memory node dies; and if a
// connection that has ended is kept.
TEST_F(TcpReadSharingTest, AllHearOfADeadMemoryNode) {
  Connect(/*share_reads=*/true);
  const Deadline deadline = Soon();
  std::atomic<size_t> heard{0};
  InThreads(Crowd(), [&](size_t id, QueuePair& queue_pair) {
    if (id == 0) {
      while (connection_->Waits().shared < 100 && !deadline.Passed()) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      return node_.Die();
    }
    std::string got(100, 'x');
    Status status;
    while (status.ok() && !deadline.Passed()) status = ReadOne(queue_pair, 0, &got);
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    ++heard;
  });
  EXPECT_EQ(heard, Crowd() - 1);
}

}  // namespace
}  // namespace dlsm
