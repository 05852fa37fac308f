// The rings over plain memory, with a thread in the place of the network.
#include "util/rpc/verbs/rpc_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

constexpr uint64_t kSalt = 0x1234;

// Zeroed and aligned.
class SegmentMemory {
 public:
  explicit SegmentMemory(size_t segments)
      : words_(std::make_unique<uint64_t[]>(segments * kSegmentBytes / sizeof(uint64_t))) {}
  char* at(size_t segment) {
    return reinterpret_cast<char*>(words_.get()) + segment * kSegmentBytes;
  }

 private:
  std::unique_ptr<uint64_t[]> words_;
};

// What one write over the network does: places words in ascending order.
void WriteOver(const char* from, char* to, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, from + i, sizeof(word));
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(to + i))
        .store(word, std::memory_order_release);
  }
}

std::string Framed(RingKind kind, const std::string& body, uint64_t rendezvous) {
  std::string message(SegmentsOf(body.size()) * kSegmentBytes, '?');
  std::memcpy(message.data() + kRingWordBytes, body.data(), body.size());
  FrameRingMessage(kind, body.size(), rendezvous, message.data());
  return message;
}

class RequestRing {
 public:
  explicit RequestRing(size_t segments)
      : memory_(segments), allocator_(segments), reader_(memory_.at(0), segments, kSalt) {}

  // Its number; 0: no room.
  uint64_t Write(const std::string& body) {
    RingAllocator::Allocation allocation;
    if (!allocator_.Allocate(SegmentsOf(body.size()), &allocation)) return 0;
    if (allocation.reset) {
      ++resets_;
      const std::string reset =
          Framed(RingKind::kReset, "", RendezvousWord(kSalt, allocation.number - 1));
      WriteOver(reset.data(), memory_.at(allocation.reset_at), reset.size());
    }
    const std::string message =
        Framed(RingKind::kMessage, body, RendezvousWord(kSalt, allocation.number));
    WriteOver(message.data(), memory_.at(allocation.at), message.size());
    return allocation.number;
  }

  SegmentMemory memory_;
  RingAllocator allocator_;
  RingReader reader_;
  int resets_ = 0;
};

// Fails if the smallest or largest body of some number of segments is laid out wrongly.
TEST(RpcRingTest, MessagesTakeWholeSegments) {
  EXPECT_EQ(SegmentsOf(0), 1u);
  EXPECT_EQ(SegmentsOf(kSegmentBytes - 16), 1u);
  EXPECT_EQ(SegmentsOf(kSegmentBytes - 15), 2u);
  for (size_t segments = 1; segments < 5; ++segments) {
    EXPECT_EQ(SegmentsOf(BodyBytesMax(segments)), segments);
    EXPECT_EQ(SegmentsOf(BodyBytesMax(segments) + 1), segments + 1);
  }
}

// Fails if messages are lost, changed or come in another order, whatever their sizes and wherever
// the ring's end cuts them.
TEST(RpcRingTest, CarriesMessagesAroundAndAround) {
  for (const size_t segments : {8, 9, 31, 64}) {
    SCOPED_TRACE(segments);
    RequestRing ring(segments);
    Random random(segments);
    std::deque<std::pair<uint64_t, std::string>> written;
    int count = 0;
    for (int step = 0; step < 5000; ++step) {
      const std::string body =
          random.Bytes(random.Uniform(BodyBytesMax(ring.allocator_.segments_max()) + 1));
      if (random.Uniform(2) == 0) {
        const uint64_t number = ring.Write(body);
        if (number != 0) written.emplace_back(number, body);
      } else {
        bool found = false;
        std::string read;
        ASSERT_OK(ring.reader_.Next(&found, &read));
        ASSERT_EQ(found, !written.empty());
        if (!found) continue;
        ASSERT_EQ(read, written.front().second);
        ASSERT_EQ(ring.reader_.read(), written.front().first);
        ring.allocator_.Release(written.front().first);
        written.pop_front();
        ++count;
      }
    }
    EXPECT_GT(count, 500);
    EXPECT_GT(ring.resets_, 10);
  }
}

// Fails if the writer may overtake the reader, or a full ring does not become free again.
TEST(RpcRingTest, FullRingWaitsForItsReader) {
  RequestRing ring(8);
  uint64_t last = 0;
  int count = 0;
  for (uint64_t number = ring.Write("x"); number != 0; number = ring.Write("x")) {
    last = number;
    ++count;
  }
  EXPECT_EQ(count, 8);
  for (int i = 0; i < count; ++i) {
    bool found = false;
    std::string body;
    ASSERT_OK(ring.reader_.Next(&found, &body));
    ASSERT_TRUE(found);
  }
  EXPECT_EQ(ring.Write("x"), 0u);
  ring.allocator_.Release(last);
  EXPECT_EQ(ring.allocator_.used(), 0u);
  EXPECT_NE(ring.Write("x"), 0u);
}

// Fails if a message is taken before all of it is there.
TEST(RpcRingTest, IncompleteMessagesAreWaitedFor) {
  RequestRing ring(16);
  const std::string body(300, 'b');
  const std::string message = Framed(RingKind::kMessage, body, RendezvousWord(kSalt, 1));
  bool found = true;
  std::string read;
  ASSERT_OK(ring.reader_.Next(&found, &read));
  EXPECT_FALSE(found);
  // Byte by byte, as some networks do.
  for (size_t bytes = 0; bytes < message.size(); ++bytes) {
    ASSERT_OK(ring.reader_.Next(&found, &read));
    ASSERT_FALSE(found) << bytes;
    ring.memory_.at(0)[bytes] = message[bytes];
  }
  ASSERT_OK(ring.reader_.Next(&found, &read));
  EXPECT_TRUE(found);
  EXPECT_EQ(read, body);
}

// Fails if something that is no message is read, or anything beyond the ring; or if a message in
// the wrong place is not an error.
TEST(RpcRingTest, WhatIsNoMessageIsNotRead) {
  const auto next = [](size_t segment, const std::string& bytes, bool* found) {
    RequestRing ring(8);
    std::string body;
    for (size_t i = 0; i < segment; ++i) {
      EXPECT_EQ(ring.Write(""), i + 1);
      EXPECT_OK(ring.reader_.Next(found, &body));
    }
    WriteOver(bytes.data(), ring.memory_.at(segment), bytes.size());
    return ring.reader_.Next(found, &body);
  };
  bool found = false;
  const std::string good = Framed(RingKind::kMessage, "good", RendezvousWord(kSalt, 1));
  EXPECT_OK(next(0, good, &found));
  EXPECT_TRUE(found);
  // Each bit of the magic, and of a length that is too large.
  for (size_t bit = 10; bit < 64; ++bit) {
    if (bit >= 32 && bit < 48) continue;
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    EXPECT_OK(next(0, bad, &found));
    EXPECT_FALSE(found) << bit;
  }
  for (const int kind : {0, 2, 3, 4, 65535}) {
    const std::string other = Framed(static_cast<RingKind>(kind), "", RendezvousWord(kSalt, 1));
    EXPECT_TRUE(next(0, other, &found).IsCorruption()) << kind;
    EXPECT_FALSE(found);
  }
  // One that would end behind the ring's end.
  std::string long_begin =
      Framed(RingKind::kMessage, std::string(200, 'x'), RendezvousWord(kSalt, 8));
  long_begin.resize(kSegmentBytes);
  EXPECT_OK(next(7, long_begin, &found));
  EXPECT_FALSE(found);
  // The end of another message.
  EXPECT_OK(next(0, Framed(RingKind::kMessage, "late", RendezvousWord(kSalt, 2)), &found));
  EXPECT_FALSE(found);
}

// Fails if the order in which a thread sees words of the ring is not enough to read whole messages
// (also under ThreadSanitizer), or the client's bookkeeping lets it overwrite what is not read.
TEST(RpcRingTest, WriterAndReaderInTwoThreads) {
  constexpr int kMessages = 20000;
  RequestRing ring(64);
  std::atomic<uint64_t> replied{0};  // In the place of replies.
  std::thread reader([&] {
    std::string body;
    for (int i = 0; i < kMessages;) {
      bool found = false;
      ASSERT_OK(ring.reader_.Next(&found, &body));
      if (!found) {
        std::this_thread::yield();
        continue;
      }
      const std::string expected(static_cast<size_t>(i * 7 % 1000),
                                 static_cast<char>('a' + i % 26));
      ASSERT_EQ(body, expected);
      replied.store(ring.reader_.read(), std::memory_order_release);
      ++i;
    }
  });
  for (int i = 0; i < kMessages;) {
    ring.allocator_.Release(replied.load(std::memory_order_acquire));
    const std::string body(static_cast<size_t>(i * 7 % 1000), static_cast<char>('a' + i % 26));
    if (ring.Write(body) != 0) {
      ++i;
    } else {
      std::this_thread::yield();
    }
  }
  reader.join();
}

// Fails if segments are given out twice, lost, or a run goes around the end; or if one slow reply
// keeps all others from being given a place.
TEST(RpcRingTest, ReplyPlacesComeBackInAnyOrder) {
  constexpr size_t kSegments = 40;
  SegmentAllocator allocator(kSegments);
  Random random(3);
  size_t slow = 0;
  ASSERT_TRUE(allocator.Allocate(3, &slow));
  std::vector<bool> used(kSegments, false);
  for (size_t i = slow; i < slow + 3; ++i) used[i] = true;
  std::vector<std::pair<size_t, size_t>> taken;
  for (int step = 0; step < 20000; ++step) {
    const size_t segments = 1 + random.Uniform(6);
    size_t at = 0;
    if (random.Uniform(2) == 0 && allocator.Allocate(segments, &at)) {
      ASSERT_LE(at + segments, kSegments);
      for (size_t i = at; i < at + segments; ++i) {
        ASSERT_FALSE(used[i]);
        used[i] = true;
      }
      taken.emplace_back(at, segments);
    } else if (!taken.empty()) {
      const size_t which = random.Uniform(taken.size());
      for (size_t i = 0; i < taken[which].second; ++i) used[taken[which].first + i] = false;
      allocator.Free(taken[which].first, taken[which].second);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  for (const auto& [at, segments] : taken) allocator.Free(at, segments);
  allocator.Free(slow, 3);
  EXPECT_EQ(allocator.free(), kSegments);
  size_t at = 0;
  EXPECT_TRUE(allocator.Allocate(kSegments, &at));
  EXPECT_FALSE(allocator.Allocate(1, &at));
}

}  // namespace
}  // namespace dlsm
