#include "db/follow/publication.h"

#include <gtest/gtest.h>

#include <string>

#include "util/status_testing.h"

namespace dlsm {
namespace {

Publication Example() {
  Publication publication;
  publication.number = 7;
  publication.sequence = 1234567;
  publication.places = {{"memory1:19843", NodeId{1}, ContentsId{11}, {"db", "db#shard-2"}},
                        {"", NodeId{2}, ContentsId{UINT64_MAX}, {"db#shard-1"}}};
  publication.manifests = {"first", std::string("\0second", 7), ""};
  return publication;
}

// Fails if a field is lost, or if bytes that have been damaged are taken for a publication.
TEST(PublicationTest, SurvivesTheWireAndNothingElseDoes) {
  const Publication publication = Example();
  const std::string bytes = publication.Encode();
  Publication decoded;
  ASSERT_OK(decoded.Decode(bytes));
  EXPECT_EQ(decoded.number, publication.number);
  EXPECT_EQ(decoded.sequence, publication.sequence);
  EXPECT_EQ(decoded.places, publication.places);
  EXPECT_EQ(decoded.manifests, publication.manifests);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(decoded.Decode(Slice(bytes.data(), length)).IsCorruption()) << length;
  }
  EXPECT_TRUE(decoded.Decode(bytes + '\0').IsCorruption());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(decoded.Decode(flipped).ok()) << bit;
  }
}

// Fails if a slot of which only some words have arrived is taken for whole.
TEST(PublicationTest, ATornSlotIsSeen) {
  PublicationSlot older;
  older.number = 5;
  older.sequence = 100;
  older.image = {NodeId{1}, RegionId{2}, 4096, 500};
  older.image_checksum = 99;
  PublicationSlot newer = older;
  newer.number = 7;
  newer.sequence = 200;
  newer.image.offset = 8192;
  newer.image_checksum = 98;
  PublicationSlot decoded;
  ASSERT_OK(decoded.Decode(newer.Encode()));
  EXPECT_EQ(decoded.number, newer.number);
  EXPECT_EQ(decoded.sequence, newer.sequence);
  EXPECT_EQ(decoded.image, newer.image);
  EXPECT_EQ(decoded.image_checksum, newer.image_checksum);
  for (unsigned arrived = 0; arrived < 1u << PublicationSlot::kWords; ++arrived) {
    PublicationSlot::Words words = older.Encode();
    for (size_t i = 0; i < words.size(); ++i) {
      if ((arrived >> i & 1) != 0) words[i] = newer.Encode()[i];
    }
    const bool whole = words == older.Encode() || words == newer.Encode();
    EXPECT_EQ(decoded.Decode(words).ok(), whole) << arrived;
  }
}

}  // namespace
}  // namespace dlsm
