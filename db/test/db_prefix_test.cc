// Iterators that stay within one prefix, and what is read for them; db_model_test.cc compares what
// they show with a map.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dLSM/slice_transform.h"
#include "db/test/test_database_testing.h"
#include "db/test/wire_counts_testing.h"
#include "db/test/without_rtti_testing.h"
#include "util/named_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr char kPrefixName[] = "prefixes";
constexpr int kKeysOfPrefix = 40;
constexpr size_t kRecordBytesMax = 160;  // Of a key and a value as here, with what tables add.

std::string KeyOf(int prefix, int number) {
  std::string key = NumberedKey(static_cast<uint64_t>(prefix) * kKeysOfPrefix);
  return key.substr(3) + "/" + std::to_string(100 + number);  // Ten bytes are the prefix.
}

ReadOptions WithinPrefix() {
  ReadOptions options;
  options.prefix_same_as_start = true;
  return options;
}

// The keys from where the iterator stands, in the direction of `step`.
std::vector<std::string> Keys(Iterator* iterator, void (Iterator::*step)()) {
  std::vector<std::string> keys;
  for (; iterator->Valid(); (iterator->*step)()) keys.push_back(iterator->key().ToString());
  EXPECT_OK(iterator->status());
  return keys;
}

class PrefixTest : public testing::Test {
 protected:
  void Open(const Options& options) {
    options_ = options;
    db_ = OpenOrDie(options_, kPrefixName);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kPrefixName); }

  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) {
    return std::unique_ptr<Iterator>(db_->NewIterator(options));
  }

  TestNode node_{"tcp"};
  Options options_;
  std::unique_ptr<DB> db_;
};

struct WireShape {
  CompactionStyle style;
  TableFormat format;
  bool compacted;
};
class PrefixWireTest : public testing::WithParamInterface<Named<WireShape>>, public PrefixTest {};

// Nothing but the prefix crosses the network, in either direction. Fails if read-ahead goes on
// behind a prefix, if a table beyond it is opened, or if a turn at its end reads what is there.
TEST_P(PrefixWireTest, NothingBeyondThePrefixIsRead) {
  const WireShape shape = GetParam().value;
  Options options = node_.With(TinyOptions(), "tcp");
  options.compaction_style = shape.style;
  options.table_format = shape.format;
  options.block_size = 1024;
  options.prefix_extractor.reset(NewFixedPrefixTransform(10));
  Open(options);
  constexpr int kPrefixes = 100;
  for (int number = 0; number < kKeysOfPrefix; ++number) {
    for (int prefix = 0; prefix < kPrefixes; ++prefix) {
      ASSERT_OK(db_->Put(WriteOptions(), KeyOf(prefix, number), std::string(100, 'v')));
    }
    if (number % 10 == 9) {
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
  }
  if (shape.compacted) {
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  }
  ASSERT_OK(db_->WaitForBackgroundWork());
  const bool blocks = shape.format == TableFormat::kBlockBased;
  // Of a block, a prefix may have one entry at its either end.
  const uint64_t bytes_max = kKeysOfPrefix * kRecordBytesMax + (blocks ? 2 * 1200 : 0);
  const std::unique_ptr<Iterator> iterator = NewIterator(WithinPrefix());
  for (const int prefix : {0, 17, 50, kPrefixes - 1}) {
    SCOPED_TRACE(prefix);
    for (const bool forward : {true, false}) {
      SCOPED_TRACE(forward);
      const WireCounts before = ReadCounts(db_.get());
      if (forward) {
        iterator->Seek(KeyOf(prefix, 0));
      } else {
        iterator->SeekForPrev(KeyOf(prefix, kKeysOfPrefix - 1));
      }
      ASSERT_EQ(Keys(iterator.get(), forward ? &Iterator::Next : &Iterator::Prev).size(),
                static_cast<size_t>(kKeysOfPrefix));
      const WireCounts read = ReadCounts(db_.get()) - before;
      EXPECT_LE(read.read_bytes, bytes_max);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryShape, PrefixWireTest,
    testing::Values(
        Named<WireShape>{"Leveled",
                         {CompactionStyle::kLeveled, TableFormat::kByteAddressable, true}},
        Named<WireShape>{"Guards", {CompactionStyle::kGuards, TableFormat::kByteAddressable, true}},
        Named<WireShape>{"Runs",
                         {CompactionStyle::kSizeTiered, TableFormat::kByteAddressable, false}},
        Named<WireShape>{"Blocks", {CompactionStyle::kLeveled, TableFormat::kBlockBased, true}}),
    NameOf<WireShape>);

// Fails if bounds or prefixes hide what they should show where both are given, or the other way.
TEST_F(PrefixTest, BoundsCountToo) {
  Options options = TinyOptions();
  options.prefix_extractor.reset(NewFixedPrefixTransform(1));
  Open(options);
  for (const char* key : {"a1", "a2", "b1", "b2", "b3", "c1"}) {
    ASSERT_OK(db_->Put(WriteOptions(), key, "value"));
  }
  ASSERT_OK(db_->Flush(FlushOptions()));
  const Slice lower("a2"), upper("b3");
  ReadOptions bounded = WithinPrefix();
  bounded.iterate_lower_bound = &lower;
  bounded.iterate_upper_bound = &upper;
  const auto iterator = NewIterator(bounded);
  iterator->Seek("a0");
  EXPECT_EQ(Keys(iterator.get(), &Iterator::Next), std::vector<std::string>({"a2"}));
  iterator->Seek("b0");
  EXPECT_EQ(Keys(iterator.get(), &Iterator::Next), std::vector<std::string>({"b1", "b2"}));
  iterator->SeekForPrev("b9");
  EXPECT_EQ(Keys(iterator.get(), &Iterator::Prev), std::vector<std::string>({"b2", "b1"}));
  iterator->SeekToFirst();
  EXPECT_EQ(Keys(iterator.get(), &Iterator::Next), std::vector<std::string>({"a2"}));
  iterator->SeekToLast();
  EXPECT_EQ(Keys(iterator.get(), &Iterator::Prev), std::vector<std::string>({"b2", "b1"}));
  iterator->Seek("c1");
  EXPECT_FALSE(iterator->Valid());
  iterator->Seek("");  // Without a prefix: as far as the bounds.
  EXPECT_EQ(Keys(iterator.get(), &Iterator::Next), std::vector<std::string>({"a2", "b1", "b2"}));
}

// Fails if an application's own class is not asked, or needs what -fno-rtti leaves out.
TEST_F(PrefixTest, OfAnApplicationsOwn) {
  Options options = TinyOptions();
  options.prefix_extractor = UpToSlashWithoutRtti();
  Open(options);
  for (const char* key : {"a/1", "a/2", "ab", "ab/1", "b/1"}) {
    ASSERT_OK(db_->Put(WriteOptions(), key, "value"));
  }
  const auto iterator = NewIterator(WithinPrefix());
  iterator->Seek("a/");
  EXPECT_EQ(Keys(iterator.get(), &Iterator::Next), std::vector<std::string>({"a/1", "a/2"}));
  iterator->SeekForPrev("ab/9");
  EXPECT_EQ(Keys(iterator.get(), &Iterator::Prev), std::vector<std::string>({"ab/1"}));
}

TEST_F(PrefixTest, WithoutAnExtractorIsAnError) {
  Open(TinyOptions());
  const auto iterator = NewIterator(WithinPrefix());
  EXPECT_TRUE(iterator->status().IsInvalidArgument());
  EXPECT_THAT(iterator->status().ToString(), HasSubstr("Options::prefix_extractor"));
}

}  // namespace
}  // namespace dlsm
