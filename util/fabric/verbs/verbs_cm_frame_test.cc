#include "util/fabric/verbs/verbs_cm_frame.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

VerbsCmAnswer SomeCmAnswer() {
  VerbsCmAnswer answer;
  answer.limits = VerbsLimits{true, 5, 16, true};
  answer.port = 0xbeef;
  answer.address = *GidOfAddress("10.0.0.7");
  answer.nonce = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255};
  answer.memory = {{RegionId{3}, 77, 0, 1 << 20, 0x7f00'0000'0000},
                   {RegionId{3}, 78, 1 << 20, 5, UINT64_MAX - 5}};
  return answer;
}

// Fails if a field is dropped, swapped or cut.
TEST(VerbsCmFrameTest, MessagesGoThereAndBack) {
  VerbsCmOffer offer;
  ASSERT_TRUE(offer.Decode(VerbsCmOffer{SomeCmAnswer().limits}.Encode()).ok());
  EXPECT_EQ(offer.limits, SomeCmAnswer().limits);
  VerbsCmAnswer answer;
  ASSERT_TRUE(answer.Decode(SomeCmAnswer().Encode()).ok());
  EXPECT_EQ(answer.limits, SomeCmAnswer().limits);
  EXPECT_EQ(answer.port, SomeCmAnswer().port);
  EXPECT_EQ(answer.address, SomeCmAnswer().address);
  EXPECT_EQ(answer.nonce, SomeCmAnswer().nonce);
  EXPECT_EQ(answer.memory, SomeCmAnswer().memory);
}

// Fails if what is cut short, or goes on, is accepted or read beyond.
TEST(VerbsCmFrameTest, RefusesEveryOtherLength) {
  const std::string bodies[] = {VerbsCmOffer{SomeCmAnswer().limits}.Encode(),
                                SomeCmAnswer().Encode()};
  for (const std::string& body : bodies) {
    for (size_t bytes = 0; bytes <= body.size() + 1; ++bytes) {
      const std::string cut = (body + "x").substr(0, bytes);
      VerbsCmOffer offer;
      VerbsCmAnswer answer;
      EXPECT_EQ(offer.Decode(cut).ok(), cut == bodies[0]);
      EXPECT_EQ(answer.Decode(cut).ok(), cut == bodies[1]);
    }
  }
}

// Fails if a number that no device knows reaches the code behind.
TEST(VerbsCmFrameTest, RefusesWhatCannotBe) {
  const auto refused = [](void (*spoil)(VerbsCmAnswer&)) {
    VerbsCmAnswer answer = SomeCmAnswer();
    spoil(answer);
    VerbsCmAnswer decoded;
    return decoded.Decode(answer.Encode()).IsCorruption() && decoded.memory.empty();
  };
  EXPECT_TRUE(refused([](VerbsCmAnswer& a) { a.limits.mtu = 0; }));
  EXPECT_TRUE(refused([](VerbsCmAnswer& a) { a.limits.mtu = 6; }));
  EXPECT_TRUE(refused([](VerbsCmAnswer& a) { a.limits.reads_at_once = 0; }));
  EXPECT_TRUE(refused([](VerbsCmAnswer& a) { a.port = 0; }));
  EXPECT_TRUE(refused([](VerbsCmAnswer& a) { a.memory[0].bytes = 0; }));
}

// Fails if the zeros that a transport adds spoil a greeting, if a changed bit does not, or if it is
// longer than InfiniBand's requests have room for.
TEST(VerbsCmFrameTest, GreetingsAreChecked) {
  constexpr size_t kRoom = 56;
  const std::string bytes = VerbsCmGreeting{SomeCmAnswer().nonce}.Encode();
  ASSERT_EQ(bytes.size(), VerbsCmGreeting::kBytes);
  ASSERT_LE(bytes.size(), kRoom);
  VerbsCmGreeting greeting;
  ASSERT_TRUE(greeting.Decode(bytes + std::string(kRoom - bytes.size(), '\0')).ok());
  EXPECT_EQ(greeting.nonce, SomeCmAnswer().nonce);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string spoilt = bytes;
    spoilt[at] = static_cast<char>(spoilt[at] ^ 4);
    EXPECT_TRUE(greeting.Decode(spoilt).IsCorruption()) << at;
    EXPECT_TRUE(greeting.Decode(bytes.substr(0, at)).IsCorruption()) << at;
  }
}

}  // namespace
}  // namespace dlsm
