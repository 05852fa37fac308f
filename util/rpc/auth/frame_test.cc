#include "util/rpc/auth/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/random.h"

namespace dlsm {
namespace {

std::string Frame(const std::string& payload) {
  std::string frame;
  EXPECT_TRUE(MakeFrame(FrameType::kReply, Method::kGrant, Status::Code::kBusy, 0x0123456789abcdef,
                        payload, &frame)
                  .ok());
  return frame;
}

// Feeds `bytes` in pieces of at most `piece`; stops at the end of a frame or the first error.
Status Feed(FrameAssembler* assembler, const std::string& bytes, size_t piece) {
  size_t fed = 0;
  while (fed < bytes.size() && !assembler->complete()) {
    size_t space = 0;
    char* to = assembler->Space(&space);
    EXPECT_GT(space, 0u);
    const size_t count = std::min({space, piece, bytes.size() - fed});
    std::memcpy(to, bytes.data() + fed, count);
    fed += count;
    const Status status = assembler->Filled(count);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

// Fails if a field is lost or mixed up, however the bytes arrive.
TEST(FrameTest, ArrivesWhole) {
  Random random(1);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{27}, size_t{1000}, size_t{300000}}) {
    const std::string payload = random.Bytes(size);
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, size_t{1} << 30}) {
      if (size / piece > 100000) continue;
      FrameAssembler assembler;
      for (int repeat = 0; repeat < 2; ++repeat) {
        ASSERT_TRUE(Feed(&assembler, Frame(payload), piece).ok());
        ASSERT_TRUE(assembler.complete());
        EXPECT_EQ(assembler.header().type, FrameType::kReply);
        EXPECT_EQ(assembler.header().method, Method::kGrant);
        EXPECT_EQ(assembler.header().code, Status::Code::kBusy);
        EXPECT_EQ(assembler.header().call, 0x0123456789abcdef);
        ASSERT_EQ(assembler.TakePayload(), payload);
        EXPECT_FALSE(assembler.started());
      }
    }
  }
}

// Fails if a frame counts as complete before its last byte.
TEST(FrameTest, CutAtEveryLengthIsIncomplete) {
  const std::string frame = Frame("a payload of some bytes");
  for (size_t length = 0; length < frame.size(); ++length) {
    FrameAssembler assembler;
    ASSERT_TRUE(Feed(&assembler, frame.substr(0, length), 5).ok());
    ASSERT_FALSE(assembler.complete()) << length;
    ASSERT_EQ(assembler.started(), length > 0);
    FrameHeader header;
    if (length < kFrameHeaderBytes) {
      ASSERT_TRUE(header.Decode(frame.substr(0, length)).IsCorruption());
    }
  }
}

// Fails if any single flipped bit goes unnoticed.
TEST(FrameTest, EveryFlippedBitIsCorruption) {
  const std::string frame = Frame("payload");
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string flipped = frame;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    FrameAssembler assembler;
    ASSERT_TRUE(Feed(&assembler, flipped, 1000).IsCorruption()) << bit;
  }
}

// A header with a good checksum and a field that breaks a rule.
std::string Resealed(std::string header, size_t offset, char value) {
  header[offset] = value;
  EncodeFixed32(header.data() + kFrameHeaderBytes - 4, Crc32c(header.data(), 24));
  return header;
}

// Fails if a rule is checked by the checksum only.
TEST(FrameTest, BrokenRulesAreCorruption) {
  FrameHeader header;
  const std::string good = header.Encode();
  FrameHeader decoded;
  ASSERT_TRUE(decoded.Decode(good).ok());
  EXPECT_TRUE(decoded.Decode(Resealed(good, 0, 'x')).IsCorruption());      // Magic.
  EXPECT_TRUE(decoded.Decode(Resealed(good, 4, 9)).IsCorruption());        // Version.
  EXPECT_TRUE(decoded.Decode(Resealed(good, 5, 0)).IsCorruption());        // Type.
  EXPECT_TRUE(decoded.Decode(Resealed(good, 5, 3)).IsCorruption());        // Type.
  EXPECT_TRUE(decoded.Decode(Resealed(good, 7, 1)).IsCorruption());        // Code.
  EXPECT_TRUE(decoded.Decode(Resealed(good, 19, '\x7f')).IsCorruption());  // Length.
  EXPECT_TRUE(decoded.Decode(good + '\0').IsCorruption());
}

// Fails if memory is taken for what a header claims rather than for what has arrived.
TEST(FrameTest, HoldsLittleMoreThanWhatArrived) {
  FrameHeader header;
  header.payload_bytes = static_cast<uint32_t>(kFramePayloadBytesMax);
  FrameAssembler assembler;
  ASSERT_TRUE(Feed(&assembler, header.Encode(), 1000).ok());
  size_t space = 0;
  assembler.Space(&space);
  EXPECT_LE(space, size_t{1} << 20);
}

TEST(FrameTest, TooLargeIsRefusedBeforeItIsSent) {
  const std::string payload(kFramePayloadBytesMax + 1, 'x');
  std::string frame;
  EXPECT_TRUE(MakeFrame(FrameType::kRequest, Method::kFree, Status::Code::kOk, 1, payload, &frame)
                  .IsInvalidArgument());
}

}  // namespace
}  // namespace dlsm
