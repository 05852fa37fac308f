// A table whose bytes have changed: Corruption or the right answer, never a crash, never a wrong
// value with checksums on.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>

#include "dLSM/filter_policy.h"
#include "table/record.h"
#include "table/table_testing.h"
#include "util/named_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

using Format = Named<TableFormat>;

class TableCorruptionTest : public testing::TestWithParam<Format> {
 protected:
  TableCorruptionTest() : queue_pairs_(&memory_, /*direct=*/true) {
    options_.format = GetParam();
    options_.filter_policy = bloom_.get();
    options_.block_bytes = 200;
    options_.compression = kSnappyCompression;
    for (int i = 0; i < 40; ++i) {
      records_.emplace_back(MakeInternalKey(fmt::format("key{:03}", i / 2), 9 - i % 2),
                            fmt::format("{}{}", i, std::string(20, 'v')));
    }
  }

  void SetUp() override { BuildTestTable(options_, records_, &memory_, &queue_pairs_, &table_); }

  // Reads all of the table in every way. Wrong answers are allowed only without checksums.
  void ReadAll(bool verify_checksums) {
    for (const auto& [key, value] : records_) {
      LookupState state{};
      std::string found;
      const Status status =
          LookUp(*table_.reader, ExtractUserKey(key), TrailerSequence(ExtractTrailer(key)),
                 &queue_pairs_, &state, &found, verify_checksums);
      status.PermitUncheckedError();
      if (!verify_checksums) continue;
      if (status.ok()) {
        EXPECT_EQ(state, LookupState::kFound);
        EXPECT_EQ(found, value);
      } else {
        EXPECT_TRUE(status.IsCorruption()) << status.ToString();
      }
    }
    TableReadOptions read_options;
    read_options.verify_checksums = verify_checksums;
    const auto iterator = table_.reader->NewIterator(read_options, &queue_pairs_);
    size_t steps = 0;  // Bytes that form a loop must not catch the reader.
    const size_t steps_max = table_.meta.data_bytes;
    for (iterator->SeekToFirst(); iterator->Valid() && steps < steps_max; iterator->Next()) ++steps;
    EXPECT_LT(steps, steps_max);
    if (verify_checksums && iterator->status().ok()) {
      EXPECT_EQ(steps, records_.size());
    }
    steps = 0;
    for (iterator->SeekToLast(); iterator->Valid() && steps < steps_max; iterator->Prev()) ++steps;
    EXPECT_LT(steps, steps_max);
    for (const auto& record : records_) {
      iterator->Seek(record.first);
      if (verify_checksums && iterator->Valid()) {
        EXPECT_EQ(iterator->key(), Slice(record.first));
      }
    }
  }

  char* Data() { return memory_.At(table_.meta.image); }

  const std::unique_ptr<const FilterPolicy> bloom_{NewBloomFilterPolicy(10)};
  TestMemory memory_;
  MemoryQueuePairs queue_pairs_;
  TableOptions options_;
  TestRecords records_;
  TestTable table_;
};

TEST_P(TableCorruptionTest, ChangedDataIsNoticed) {
  for (uint64_t i = 0; i < table_.meta.data_bytes; ++i) {
    for (const int change : {0x01, 0x80, 0xff}) {
      SCOPED_TRACE(testing::Message() << "byte " << i << " change " << change);
      Data()[i] = static_cast<char>(Data()[i] ^ change);
      ReadAll(true);
      ReadAll(false);
      Data()[i] = static_cast<char>(Data()[i] ^ change);
      if (HasFailure()) return;
    }
  }
  ReadAll(true);
}

TEST_P(TableCorruptionTest, ChangedResidentPartIsNoticed) {
  for (size_t i = 0; i < table_.resident.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      TestTable changed{table_.meta, table_.resident, nullptr};
      changed.resident[i] = static_cast<char>(changed.resident[i] ^ 1 << bit);
      EXPECT_TRUE(OpenTestTable(options_, nullptr, &changed).IsCorruption()) << i;
    }
  }
}

TEST_P(TableCorruptionTest, TruncatedResidentPartIsNoticed) {
  for (size_t bytes = 0; bytes < table_.resident.size(); ++bytes) {
    TestTable changed{table_.meta, table_.resident.substr(0, bytes), nullptr};
    EXPECT_TRUE(OpenTestTable(options_, nullptr, &changed).IsCorruption()) << bytes;
    if (bytes < table_.meta.index_bytes) {
      changed.meta.index_bytes = bytes;
      changed.meta.filter_bytes = 0;
    } else {
      changed.meta.filter_bytes = bytes - changed.meta.index_bytes;
    }
    const bool no_filter = bytes == table_.meta.index_bytes;  // That is a whole table, too.
    EXPECT_EQ(OpenTestTable(options_, nullptr, &changed).ok(), no_filter) << bytes;
  }
}

// A table of another memory node, or of the one before it restarted.
TEST_P(TableCorruptionTest, ForeignDataIsNoticed) {
  Random random(1);
  for (int round = 0; round < 100; ++round) {
    for (uint64_t i = 0; i < table_.meta.data_bytes; ++i) {
      Data()[i] = static_cast<char>(random.OneIn(2) ? random.Next() : random.Uniform(20));
    }
    ReadAll(false);
    LookupState state{};
    std::string value;
    EXPECT_TRUE(LookUp(*table_.reader, ExtractUserKey(records_[7].first), 100, &queue_pairs_,
                       &state, &value)
                    .IsCorruption());
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, TableCorruptionTest,
                         testing::Values(Format{"Byte", TableFormat::kByteAddressable},
                                         Format{"Block", TableFormat::kBlockBased}),
                         NameOf<TableFormat>);

TEST(RecordTest, RefusesEveryTruncationAndFlip) {
  std::string memory(100, '\0');
  MemorySink sink(memory.data(), memory.size());
  const std::string key = MakeInternalKey("user key", 77);
  ASSERT_OK(AppendRecord(key, "value", &sink));
  const std::string good = memory.substr(0, sink.appended());
  ASSERT_EQ(good.size(), RecordBytes(key.size(), 5));
  Record record;
  ASSERT_TRUE(ParseRecord(good.data(), good.data() + good.size(), &record));
  EXPECT_TRUE(VerifyRecord(record));
  EXPECT_EQ(record.internal_key, Slice(key));
  EXPECT_EQ(record.value, Slice("value"));
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_FALSE(ParseRecord(good.data(), good.data() + bytes, &record)) << bytes;
  }
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(ParseRecord(bad.data(), bad.data() + bad.size(), &record) && VerifyRecord(record));
  }
}

// A length takes a byte more from 128 and from 16,384 on, and the shortest are decoded apart.
TEST(RecordTest, IsParsedWhateverItsLengths) {
  for (const size_t user_key_bytes : {0, 1, 119, 120, 16375, 16376}) {
    for (const size_t value_bytes : {0, 1, 127, 128, 16383, 16384}) {
      const std::string key = MakeInternalKey(std::string(user_key_bytes, 'k'), 77);
      const std::string value(value_bytes, 'v');
      std::string bytes(RecordBytes(key.size(), value_bytes), '\0');
      MemorySink sink(bytes.data(), bytes.size());
      ASSERT_OK(AppendRecord(key, value, &sink));
      ASSERT_EQ(sink.appended(), bytes.size());
      Record record;
      ASSERT_TRUE(ParseRecord(bytes.data(), bytes.data() + bytes.size(), &record));
      EXPECT_EQ(record.encoded, Slice(bytes));
      EXPECT_EQ(record.internal_key, Slice(key));
      EXPECT_EQ(record.value, Slice(value));
      EXPECT_TRUE(VerifyRecord(record));
      // Each limit that a length or the record's end lies behind.
      for (const size_t limit : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, bytes.size() - 1}) {
        EXPECT_FALSE(ParseRecord(bytes.data(), bytes.data() + limit, &record)) << limit;
      }
    }
  }
}

TEST(TableMetaTest, RefusesEveryTruncationAndImpossibleSizes) {
  TableMeta meta;
  meta.number = 3;
  meta.format = TableFormat::kBlockBased;
  meta.image = RemoteSpan{kTestNode, RegionId{1}, 4096, 30};
  meta.data_bytes = 20;
  meta.index_bytes = 7;
  meta.filter_bytes = 3;
  meta.entries = 5;
  meta.deletions = 2;
  meta.sequence_max = 9;
  meta.smallest = MakeInternalKey("a", 1);
  meta.largest = MakeInternalKey("b", 1);
  const auto encoded = [](const TableMeta& each) {
    std::string bytes;
    KeyWriter keys(/*sharing=*/false);
    each.EncodeTo(&bytes, &keys);
    return bytes;
  };
  const auto decode = [](Slice* from, TableMeta* to) {
    KeyReader keys(/*sharing=*/false, /*key_bytes_max=*/1000);
    return to->DecodeFrom(from, &keys);
  };
  const std::string good = encoded(meta);
  TableMeta decoded;
  Slice rest = good;
  ASSERT_OK(decode(&rest, &decoded));
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(encoded(decoded), good);
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    Slice part(good.data(), bytes);
    EXPECT_TRUE(decode(&part, &decoded).IsCorruption()) << bytes;
  }
  const auto refused = [&](const TableMeta& changed) {
    const std::string bytes = encoded(changed);
    Slice from = bytes;
    TableMeta to;
    return decode(&from, &to).IsCorruption();
  };
  TableMeta changed = meta;
  changed.data_bytes = UINT64_MAX;
  EXPECT_TRUE(refused(changed));
  changed = meta;
  changed.index_bytes = UINT64_MAX - 10;
  EXPECT_TRUE(refused(changed));
  changed = meta;
  changed.image.offset = UINT64_MAX - 10;
  EXPECT_TRUE(refused(changed));
  changed = meta;
  changed.deletions = 6;
  EXPECT_TRUE(refused(changed));
  changed = meta;
  changed.smallest = "short";
  EXPECT_TRUE(refused(changed));
}

}  // namespace
}  // namespace dlsm
