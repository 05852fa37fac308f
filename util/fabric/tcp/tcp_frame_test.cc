#include "util/fabric/tcp/tcp_frame.h"

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "util/fabric/ring_queue.h"
#include "util/fabric/tcp/tcp_send_queue.h"
#include "util/random.h"

namespace dlsm {
namespace {

const TcpRequest kRequest{TcpOpcode::kCompareAndSwap, 0x89abcdef, RegionId{0x12345678},
                          ~uint64_t{0} - 5,           17,         1ull << 63};
const TcpReply kReply{TcpOpcode::kRead, TcpCode::kOutOfBounds, 0x89abcdef, ~uint64_t{0} - 7};

TEST(TcpFrameTest, GoesThereAndBack) {
  TcpRequest::Encoded request;
  kRequest.Encode(request.data());
  TcpRequest decoded;
  ASSERT_EQ(decoded.Decode(request.data()), TcpCode::kOk);
  EXPECT_EQ(decoded, kRequest);

  TcpReply::Encoded reply;
  kReply.Encode(reply.data());
  TcpReply decoded_reply;
  ASSERT_EQ(decoded_reply.Decode(reply.data()), TcpCode::kOk);
  EXPECT_EQ(decoded_reply, kReply);
}

// The bytes themselves: another release must still be understood, or must change the version.
TEST(TcpFrameTest, LayoutIsAsDrawn) {
  TcpRequest::Encoded request;
  kRequest.Encode(request.data());
  const std::string bytes(request.data(), 36);
  EXPECT_EQ(bytes, std::string("\x01\x04\0\0\x78\x56\x34\x12\xfa\xff\xff\xff\xff\xff\xff\xff"
                               "\x11\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\xef\xcd\xab\x89",
                               36));
  TcpReply::Encoded reply;
  kReply.Encode(reply.data());
  EXPECT_EQ(std::string(reply.data(), 16),
            std::string("\x01\x02\x03\0\xef\xcd\xab\x89\xf8\xff\xff\xff\xff\xff\xff\xff", 16));
}

template <typename Frame>
void ExpectBitFlipsRefused(const Frame& frame) {
  typename Frame::Encoded bytes;
  frame.Encode(bytes.data());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    typename Frame::Encoded damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    Frame untouched;
    EXPECT_EQ(untouched.Decode(damaged.data()),
              bit < 8 ? TcpCode::kOtherVersion : TcpCode::kMalformed);
    EXPECT_EQ(untouched, Frame{});
  }
}

TEST(TcpFrameTest, EveryBitFlipIsRefused) {
  ExpectBitFlipsRefused(kRequest);
  ExpectBitFlipsRefused(kReply);
}

// Fails if bytes are lost, doubled or reordered, whatever part of what is offered the socket takes
// and whenever posts and doorbells come between.
TEST(TcpSendQueueTest, SendsEverythingInOrder) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::string payload = random.Bytes(4096);
    TcpSendQueue queue;
    std::string expected, sent;
    size_t rung = 0;
    for (int step = 0; step < 40'000; ++step) {
      if (random.OneIn(2)) {
        const std::string header = random.Bytes(40);
        std::memcpy(queue.AddHeader(header.size()), header.data(), header.size());
        expected += header;
        const size_t bytes = random.OneIn(2) ? 0 : random.Uniform(200);
        queue.AddPayload(payload.data(), bytes);
        expected += payload.substr(0, bytes);
      }
      if (random.OneIn(3)) {
        queue.Ring();
        rung = expected.size();
      }
      EXPECT_EQ(queue.drained(), sent.size() == rung);
      EXPECT_EQ(queue.added(), expected.size());
      EXPECT_EQ(queue.passed(), sent.size());
      // On average less than is posted, so that the queue grows for most of the test.
      iovec parts[3];
      const size_t count = queue.Gather(parts, 3);
      std::string offered;
      for (size_t i = 0; i < count; ++i) {
        offered.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
      }
      if (offered.empty() || random.OneIn(4)) continue;
      const size_t taken = std::min<size_t>(offered.size(), 1 + random.Uniform(110));
      sent += offered.substr(0, taken);
      queue.Consume(taken);
    }
    EXPECT_GT(sent.size(), 200'000u);
    EXPECT_TRUE(expected.substr(0, sent.size()) == sent);
  }
}

TEST(RingQueueTest, IsFirstInFirstOut) {
  Random random(1);
  RingQueue<uint64_t> queue;
  uint64_t in = 0, out = 0;
  for (int step = 0; step < 10'000; ++step) {
    if (random.Uniform(10) < 6) queue.push_back(in++);
    if (!queue.empty() && random.Uniform(10) < 5) {
      ASSERT_EQ(queue.front(), out++);
      queue.pop_front();
    }
    ASSERT_EQ(queue.size(), in - out);
    if (queue.empty()) continue;
    ASSERT_EQ(queue.back(), in - 1);
  }
}

}  // namespace
}  // namespace dlsm
