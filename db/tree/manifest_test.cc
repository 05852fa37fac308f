#include "db/tree/manifest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "db/test/test_database_testing.h"
#include "db/tree/level_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

struct Decoded {
  Status status;
  Manifest manifest;
  std::vector<Level> levels;
};

Decoded Decode(const Slice& bytes) {
  Decoded decoded;
  decoded.status =
      ManifestCodec::Decode(bytes, FakeTableOpener(), &decoded.manifest, &decoded.levels);
  decoded.status.PermitUncheckedError();  // Not all tests are about it.
  return decoded;
}

std::string WithChecksum(const std::string& body) {
  std::string bytes;
  PutFixed32(&bytes, Crc32c(body.data(), body.size()));
  return bytes + body;
}

std::string Sample() {
  return ManifestOfOneLevel({{"", Guard::Order::kNewestFirst, {{1, "a", "f"}, {2, "", "b"}}},
                             {"g", Guard::Order::kByKey, {{3, "g", "h"}}},
                             {std::string("p\0q", 3), Guard::Order::kByKey, {}}});
}

// Fails if anything that a manifest says is lost on the way to a memory node and back.
TEST(ManifestTest, ComesBackAsItWas) {
  Manifest manifest;
  manifest.comparator_name = "a comparator";
  manifest.filter_policy_name = "";
  manifest.last_sequence = Manifest::kLastSequenceMax;
  manifest.next_table_number = UINT64_MAX;
  std::vector<Level> levels = {Decode(Sample()).levels.at(0), Level(Guard::Order::kByKey),
                               Level(Guard::Order::kNewestFirst)};
  const Decoded decoded = Decode(ManifestCodec::Encode(manifest, levels));
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.manifest.comparator_name, "a comparator");
  EXPECT_EQ(decoded.manifest.filter_policy_name, "");
  EXPECT_EQ(decoded.manifest.last_sequence, Manifest::kLastSequenceMax);
  EXPECT_EQ(decoded.manifest.next_table_number, UINT64_MAX);
  ASSERT_EQ(decoded.levels.size(), 3u);
  EXPECT_EQ(decoded.levels[1].sentinel().order, Guard::Order::kByKey);
  EXPECT_EQ(decoded.levels[2].sentinel().order, Guard::Order::kNewestFirst);
  const Level& level = decoded.levels[0];
  EXPECT_EQ(NumbersOf(level.sentinel().tables), (std::vector<uint64_t>{1, 2}));
  ASSERT_EQ(level.guards().size(), 2u);
  EXPECT_EQ(level.guards()[0].key, "g");
  EXPECT_EQ(level.guards()[1].key, std::string("p\0q", 3));
  const TableMeta& meta = level.guards()[0].tables.at(0)->meta();
  EXPECT_EQ(meta.image, FakeMeta({3, "g", "h"}).image);
  EXPECT_EQ(meta.smallest, FakeMeta({3, "g", "h"}).smallest);
}

// Fails if databases with one shard can no longer be opened by what they were made with, or a shard
// forgets which one it is.
TEST(ManifestTest, SaysWhichShardItIs) {
  const auto format_of = [](const Manifest& manifest) {
    return DecodeFixed32(ManifestCodec::Encode(manifest, {}).data() + 4);
  };
  Manifest manifest;
  EXPECT_EQ(format_of(manifest), 1u);
  manifest.shards.nodes = {"only"};
  EXPECT_EQ(format_of(manifest), 1u);
  manifest.shards = ShardMap{{"m"}, {"one:1", "two:2"}};
  EXPECT_EQ(format_of(manifest), 2u);
  const Decoded first = Decode(ManifestCodec::Encode(manifest, {}));
  ASSERT_OK(first.status);
  EXPECT_EQ(first.manifest.shard, 0u);
  EXPECT_EQ(first.manifest.shards, manifest.shards);
  Manifest other;
  other.shard = 1;
  const Decoded second = Decode(ManifestCodec::Encode(other, {}));
  ASSERT_OK(second.status);
  EXPECT_EQ(second.manifest.shard, 1u);
  EXPECT_TRUE(second.manifest.divided());
  ShardMap map;
  std::vector<TableNode> nodes;
  EXPECT_OK(ReadMap(ManifestCodec::Encode(manifest, {}), "moved:3", &map, &nodes));
  EXPECT_EQ(map.nodes, (std::vector<std::string>{"moved:3", "two:2"}));
  EXPECT_TRUE(ReadMap(ManifestCodec::Encode(other, {}), "", &map, &nodes).IsCorruption());
}

// Fails if a shard forgets on which memory nodes its tables may be, or half a list of them passes.
TEST(ManifestTest, SaysWhereTablesMayBe) {
  Manifest manifest;
  manifest.table_nodes = {{NodeId{3}, "one:1"}, {NodeId{4}, "two:2"}};
  const std::string undivided = ManifestCodec::Encode(manifest, {});
  EXPECT_EQ(DecodeFixed32(undivided.data() + 4), 3u);
  const Decoded decoded = Decode(undivided);
  ASSERT_OK(decoded.status);
  EXPECT_EQ(decoded.manifest.table_nodes, manifest.table_nodes);
  EXPECT_FALSE(decoded.manifest.divided());
  for (size_t length = 4; length < undivided.size(); ++length) {
    const std::string cut = WithChecksum(undivided.substr(4, length - 4));
    EXPECT_TRUE(Decode(cut).status.IsCorruption()) << length;
  }
  manifest.shards = ShardMap{{"m"}, {"one:1", "two:2"}};
  ShardMap map;
  std::vector<TableNode> nodes;
  EXPECT_OK(ReadMap(ManifestCodec::Encode(manifest, {}), "one:1", &map, &nodes));
  EXPECT_EQ(map, manifest.shards);
  EXPECT_EQ(nodes, manifest.table_nodes);
  manifest.shard = 1;
  const Decoded second = Decode(ManifestCodec::Encode(manifest, {}));
  ASSERT_OK(second.status);
  EXPECT_EQ(second.manifest.shard, 1u);
  EXPECT_TRUE(second.manifest.divided());
}

// Fails if what long keys have in common is written more than once, or a key is not what it was
// before; if manifests without long keys can no longer be read by what wrote them; or if one with
// long keys that an earlier release wrote cannot be.
TEST(ManifestTest, LongKeysAreWrittenOnce) {
  const std::string common(50'000, 'k');
  std::vector<GuardSketch> guards = {{"", Guard::Order::kNewestFirst, {}}};
  for (uint64_t i = 1; i <= 20; ++i) {
    const std::string key = common + NumberedKey(i);
    guards.push_back({key, Guard::Order::kByKey, {{i, key, key + "z"}}});
  }
  const std::string earlier = ManifestOfOneLevel(guards);
  ASSERT_GT(earlier.size(), 60 * common.size());
  const Decoded decoded = Decode(earlier);
  ASSERT_OK(decoded.status);
  const std::string bytes = ManifestCodec::Encode(decoded.manifest, decoded.levels);
  EXPECT_EQ(DecodeFixed32(bytes.data() + 4), 9u);
  EXPECT_LT(bytes.size(), common.size() + 20 * 500);
  const Decoded again = Decode(bytes);
  ASSERT_OK(again.status);
  ASSERT_EQ(again.levels.at(0).guards().size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    const Guard& guard = again.levels[0].guards()[i];
    EXPECT_EQ(guard.key, guards[i + 1].key);
    const TableMeta expected = FakeMeta(guards[i + 1].tables[0]);
    EXPECT_EQ(guard.tables.at(0)->meta().smallest, expected.smallest);
    EXPECT_EQ(guard.tables.at(0)->meta().largest, expected.largest);
  }
  const Decoded sample = Decode(Sample());
  EXPECT_EQ(DecodeFixed32(ManifestCodec::Encode(sample.manifest, sample.levels).data() + 4), 1u);
  for (size_t length = 4; length < bytes.size(); length += 997) {
    EXPECT_TRUE(Decode(WithChecksum(bytes.substr(4, length - 4))).status.IsCorruption()) << length;
  }
}

// Fails if a manifest that nobody can decode is put all the same.
TEST(ManifestTest, KeysOfAnyLengthDoNotFit) {
  const Level level = Decode(Sample()).levels.at(0);
  EXPECT_TRUE(ManifestCodec::Fits({level}));
  const TableRef table = MakeFakeTable({7, "x", "y" + std::string(size_t{16} << 20, 'y')});
  const std::vector<TableRef> many(64, table);
  EXPECT_FALSE(
      ManifestCodec::Fits({level.With(InternalKeyComparator(BytewiseComparator()), {}, many)}));
}

// Fails if a manifest that was cut short is taken for a whole one, or crashes the reader.
TEST(ManifestTest, RefusesEveryTruncation) {
  const std::string bytes = Sample();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(Decode(Slice(bytes.data(), length)).status.IsCorruption()) << length;
    // The same with a checksum that fits: what is behind it checks its own bounds.
    if (length < 4) continue;
    const std::string cut = WithChecksum(bytes.substr(4, length - 4));
    const Status status = Decode(cut).status;
    EXPECT_TRUE(status.IsCorruption()) << length << ": " << status.ToString();
  }
}

// Fails if a flipped bit goes unnoticed by the checksum, or, where a hostile memory node has made
// it fit, crashes the reader or makes it take more memory than the bytes account for.
TEST(ManifestTest, RefusesEveryFlippedBit) {
  const std::string bytes = Sample();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(Decode(flipped).status.IsCorruption()) << bit;
    const Decoded hostile = Decode(WithChecksum(flipped.substr(4)));
    if (hostile.status.ok()) {
      for (const Level& level : hostile.levels) {
        level.CheckInvariants(InternalKeyComparator(BytewiseComparator())).PermitUncheckedError();
      }
    }
  }
}

// The same with bytes that were never a manifest.
TEST(ManifestTest, SurvivesNoise) {
  Random random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string body;
    PutFixed32(&body, 1);
    body += random.Bytes(random.Uniform(80));
    Decode(WithChecksum(body));
  }
}

// Fails if bytes behind the last level are ignored: somebody else may mean something by them.
TEST(ManifestTest, RefusesTrailingBytes) {
  EXPECT_TRUE(Decode(WithChecksum(Sample().substr(4) + "x")).status.IsCorruption());
}

// Fails if a database of another release is read as if it were of this one, or called damaged.
TEST(ManifestTest, NamesAnotherFormat) {
  std::string body = Sample().substr(4);
  EncodeFixed32(body.data(), 4);
  const Status status = Decode(WithChecksum(body)).status;
  EXPECT_TRUE(status.IsNotSupportedError()) << status.ToString();
  EXPECT_NE(status.ToString().find("version"), std::string::npos);
}

// Fails if counts that no input could back make the reader allocate or loop.
TEST(ManifestTest, RefusesHugeCounts) {
  const auto header = [] {
    std::string body;
    PutFixed32(&body, 1);
    PutLengthPrefixed(&body, Slice());
    PutLengthPrefixed(&body, Slice());
    PutVarint64(&body, 1);
    PutVarint64(&body, 1);
    return body;
  };
  std::string levels = header();
  PutVarint32(&levels, UINT32_MAX);
  EXPECT_TRUE(Decode(WithChecksum(levels)).status.IsCorruption());
  std::string guards = header();
  PutVarint32(&guards, 1);
  PutLengthPrefixed(&guards, Slice());
  guards.push_back(0);
  PutVarint32(&guards, 0);
  PutVarint32(&guards, UINT32_MAX);
  EXPECT_TRUE(Decode(WithChecksum(guards)).status.IsCorruption());
  std::string tables = header();
  PutVarint32(&tables, 1);
  PutLengthPrefixed(&tables, Slice());
  tables.push_back(0);
  PutVarint32(&tables, UINT32_MAX);
  EXPECT_TRUE(Decode(WithChecksum(tables)).status.IsCorruption());
}

// Fails if sequence numbers that do not fit their 56 bits, or leave so few for the next writes that
// these run into the epoch above, get in.
TEST(ManifestTest, RefusesSequenceNumbersOutOfRange) {
  for (const uint64_t last : {Manifest::kLastSequenceMax + 1, kSequenceNumberMax - 1,
                              kSequenceNumberMax, kSequenceNumberMax + 1, UINT64_MAX}) {
    std::string body;
    PutFixed32(&body, 1);
    PutLengthPrefixed(&body, Slice());
    PutLengthPrefixed(&body, Slice());
    PutVarint64(&body, last);
    PutVarint64(&body, 1);
    PutVarint32(&body, 0);
    EXPECT_TRUE(Decode(WithChecksum(body)).status.IsCorruption()) << last;
  }
}

// Fails if a table that cannot be opened is passed over.
TEST(ManifestTest, PassesOnWhyATableCannotBeOpened) {
  Manifest manifest;
  std::vector<Level> levels;
  int opened = 0;
  const Status status = ManifestCodec::Decode(
      Sample(),
      [&opened](const TableMeta& meta, TableRef* table) {
        if (++opened == 2) return Status::IOError("no such table");
        return FakeTableOpener()(meta, table);
      },
      &manifest, &levels);
  EXPECT_TRUE(status.IsIOError());
}

}  // namespace
}  // namespace dlsm
