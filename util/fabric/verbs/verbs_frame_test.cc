#include "util/fabric/verbs/verbs_frame.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

VerbsEnd SomeEnd() {
  VerbsEnd end;
  end.queue_pair = 0x123456;
  end.first_packet = 0xfedcba;
  end.lid = 0xbeef;
  end.mtu = 5;
  end.gid_type = GidType::kRoceV2;
  end.reads_at_once = 16;
  end.atomics = true;
  end.gid = *GidOfAddress("10.0.0.7");
  return end;
}

VerbsAnswer SomeAnswer() {
  VerbsAnswer answer;
  answer.end = SomeEnd();
  answer.memory = {{RegionId{3}, 77, 0, 1 << 20, 0x7f00'0000'0000},
                   {RegionId{3}, 78, 1 << 20, 5, UINT64_MAX - 5}};
  return answer;
}

// Fails if a field is dropped, swapped or cut.
TEST(VerbsFrameTest, MessagesGoThereAndBack) {
  VerbsOffer offer;
  ASSERT_TRUE(offer.Decode(VerbsOffer{SomeEnd()}.Encode()).ok());
  EXPECT_EQ(offer.end, SomeEnd());
  VerbsAnswer answer;
  ASSERT_TRUE(answer.Decode(SomeAnswer().Encode()).ok());
  EXPECT_EQ(answer.end, SomeEnd());
  EXPECT_EQ(answer.memory, SomeAnswer().memory);
  VerbsRefusal refusal;
  ASSERT_TRUE(refusal.Decode(VerbsRefusal{"no GID"}.Encode()).ok());
  EXPECT_EQ(refusal.reason, "no GID");
  ASSERT_TRUE(refusal.Decode(VerbsRefusal{std::string(5000, 'x')}.Encode()).ok());
}

// Fails if what is cut short, or goes on, is accepted or read beyond.
TEST(VerbsFrameTest, RefusesEveryOtherLength) {
  const std::string bodies[] = {VerbsOffer{SomeEnd()}.Encode(), SomeAnswer().Encode()};
  for (const std::string& body : bodies) {
    for (size_t bytes = 0; bytes <= body.size() + 1; ++bytes) {
      const std::string cut = (body + "x").substr(0, bytes);
      VerbsOffer offer;
      VerbsAnswer answer;
      EXPECT_EQ(offer.Decode(cut).ok(), cut == bodies[0]);
      EXPECT_EQ(answer.Decode(cut).ok(), cut == bodies[1]);
    }
  }
}

// Fails if a number that no device knows, or a range that wraps, reaches the code behind.
TEST(VerbsFrameTest, RefusesWhatCannotBe) {
  const auto refused = [](void (*spoil)(VerbsAnswer&)) {
    VerbsAnswer answer = SomeAnswer();
    spoil(answer);
    VerbsAnswer decoded;
    return decoded.Decode(answer.Encode()).IsCorruption() && decoded.memory.empty();
  };
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.end.queue_pair = 1 << 24; }));
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.end.first_packet = 1 << 24; }));
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.end.mtu = 0; }));
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.end.mtu = 6; }));
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.end.reads_at_once = 0; }));
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.end.gid_type = static_cast<GidType>(3); }));
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.memory[0].bytes = 0; }));
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.memory[0].offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](VerbsAnswer& a) { a.memory[1].address = UINT64_MAX - 4; }));
}

TEST(VerbsFrameTest, HeadersAreChecked) {
  const std::string body = VerbsOffer{SomeEnd()}.Encode();
  const std::string frame = EncodeVerbsFrame(VerbsFrameKind::kOffer, body);
  const std::string good = frame.substr(0, VerbsFrameHeader::kBytes);
  VerbsFrameHeader header;
  ASSERT_TRUE(header.Decode(good).ok());
  EXPECT_EQ(header.kind, VerbsFrameKind::kOffer);
  EXPECT_TRUE(header.CheckBody(body).ok());
  EXPECT_TRUE(header.CheckBody(body.substr(1)).IsCorruption());
  std::string flipped = body;
  flipped[7] = static_cast<char>(flipped[7] ^ 1);
  EXPECT_TRUE(header.CheckBody(flipped).IsCorruption());

  const auto spoilt = [&](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return header.Decode(bytes).IsCorruption();
  };
  EXPECT_TRUE(spoilt(1, 0));
  EXPECT_TRUE(spoilt(1, 6));
  EXPECT_TRUE(spoilt(2, 1));
  EXPECT_TRUE(spoilt(7, 1));   // 16 MB.
  EXPECT_FALSE(spoilt(0, 9));  // Another version is for the caller to name.
  EXPECT_EQ(header.version, 9);
}

}  // namespace
}  // namespace dlsm
