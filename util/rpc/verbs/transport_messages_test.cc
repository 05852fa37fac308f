#include "util/rpc/verbs/transport_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "util/checksum.h"
#include "util/rpc/verbs/rpc_ring.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

VerbsEnd SomeEnd() {
  VerbsEnd end;
  end.queue_pair = 17;
  end.first_packet = 4711;
  end.mtu = 5;
  end.gid_type = GidType::kRoceV2;
  end.reads_at_once = 16;
  end.gid[15] = 1;
  return end;
}

std::string Request(RequestHead head, const std::string& payload, FrameHeader frame = {}) {
  frame.method = Method::kGrant;
  frame.call = 9;
  frame.payload_bytes = static_cast<uint32_t>(payload.size());
  frame.payload_checksum = Crc32c(payload);
  std::string bytes(kRequestHeadBytes, '\0');
  head.EncodeTo(bytes.data());
  bytes += frame.Encode();
  if (head.kind == RequestKind::kInline) bytes += payload;
  return bytes;
}

RequestHead SomeHead() {
  RequestHead head;
  head.immediate = true;
  head.slot = kRpcSlots - 1;
  head.place_segments = 3;
  head.place_address = 0x1122334455667788;
  head.place_key = 0xabcdef01;
  head.payload_key = 0x10fedcba;
  head.payload_address = 0x8877665544332211;
  return head;
}

// Fails if a field is lost, or a message that is cut short or too long is taken.
TEST(TransportMessagesTest, OfferAndAnswerComeBack) {
  TransportOffer offer;
  offer.transport = RpcTransport::kRing;
  offer.end = SomeEnd();
  offer.salt = 5;
  offer.state_address = 6;
  offer.state_key = 7;
  TransportOffer read;
  ASSERT_OK(read.Decode(offer.Encode()));
  EXPECT_EQ(read.transport, RpcTransport::kRing);
  EXPECT_EQ(read.end, offer.end);
  EXPECT_EQ(read.Encode(), offer.Encode());
  TransportAnswer answer;
  answer.end = SomeEnd();
  answer.ring_address = 1;
  answer.ring_key = 2;
  answer.ring_segments = 3;
  answer.request_bytes_max = 1024;
  TransportAnswer answer_read;
  ASSERT_OK(answer_read.Decode(answer.Encode()));
  EXPECT_EQ(answer_read.end, answer.end);
  EXPECT_EQ(answer_read.Encode(), answer.Encode());
  for (size_t bytes = 0; bytes < offer.Encode().size(); ++bytes) {
    EXPECT_TRUE(read.Decode(offer.Encode().substr(0, bytes)).IsCorruption());
  }
  for (size_t bytes = 0; bytes < answer.Encode().size(); ++bytes) {
    EXPECT_TRUE(answer_read.Decode(answer.Encode().substr(0, bytes)).IsCorruption());
  }
  EXPECT_TRUE(read.Decode(offer.Encode() + "x").IsCorruption());
  std::string other = offer.Encode();
  other[0] = static_cast<char>(kTransportVersion + 1);
  EXPECT_TRUE(read.Decode(other).IsNotSupported());
  other = offer.Encode();
  other[1] = 0;
  EXPECT_TRUE(read.Decode(other).IsInvalidArgument());
}

// Fails if a client could be told of a ring or requests of sizes that it has no memory for.
TEST(TransportMessagesTest, ImpossibleAnswersAreCorruption) {
  TransportAnswer answer;
  answer.end = SomeEnd();
  TransportAnswer read;
  for (const uint32_t bytes : {0u, 63u, 0xffffffffu}) {
    answer.request_bytes_max = bytes;
    EXPECT_TRUE(read.Decode(answer.Encode()).IsCorruption());
  }
  answer.request_bytes_max = 64;
  EXPECT_OK(read.Decode(answer.Encode()));
  answer.ring_segments = 0xffffffff;
  EXPECT_TRUE(read.Decode(answer.Encode()).IsCorruption());
}

// Fails if a field of a request is lost.
TEST(TransportMessagesTest, RequestsComeBack) {
  const RequestHead head = SomeHead();
  const std::string bytes = Request(head, "payload");
  RequestMessage read;
  ASSERT_OK(read.Decode(bytes));
  EXPECT_EQ(read.payload.ToString(), "payload");
  EXPECT_EQ(read.frame.call, 9u);
  std::string again(kRequestHeadBytes, '\0');
  read.head.EncodeTo(again.data());
  EXPECT_EQ(again, bytes.substr(0, kRequestHeadBytes));
}

// Fails if a client could make a memory node use a slot, place or payload that there cannot be, or
// a changed bit goes unnoticed.
TEST(TransportMessagesTest, BadRequestsAreCorruption) {
  RequestMessage read;
  const std::string good = Request(SomeHead(), "payload");
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      EXPECT_TRUE(read.Decode(bad).IsCorruption()) << i;
    }
    EXPECT_TRUE(read.Decode(good.substr(0, i)).IsCorruption());
  }
  EXPECT_TRUE(read.Decode(good + "x").IsCorruption());
  RequestHead head = SomeHead();
  head.slot = kRpcSlots;
  EXPECT_THAT(read.Decode(Request(head, "")).ToString(), HasSubstr("slot"));
  head = SomeHead();
  head.place_segments = 0;
  EXPECT_THAT(read.Decode(Request(head, "")).ToString(), HasSubstr("place"));
  head.place_segments = static_cast<uint32_t>(kReplySegmentsMax) + 1;
  EXPECT_THAT(read.Decode(Request(head, "")).ToString(), HasSubstr("place"));
  EXPECT_GE(kReplySegmentsMax, SegmentsOf(kFrameBytesMax));
  head = SomeHead();
  head.kind = static_cast<RequestKind>(4);
  EXPECT_THAT(read.Decode(Request(head, "")).ToString(), HasSubstr("kind"));
  FrameHeader reply;
  reply.type = FrameType::kReply;
  EXPECT_THAT(read.Decode(Request(SomeHead(), "", reply)).ToString(), HasSubstr("reply"));
  // The payload is elsewhere: nothing may follow.
  head = SomeHead();
  head.kind = RequestKind::kRemote;
  EXPECT_OK(read.Decode(Request(head, "payload")));
  EXPECT_TRUE(read.Decode(Request(head, "payload") + "payload").IsCorruption());
}

}  // namespace
}  // namespace dlsm
