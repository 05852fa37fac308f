// Values that a Get has pinned: they stay what they were, whatever is read, merged or freed after
// it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "db/test/test_database_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {
namespace {

// Short strings, whose bytes move with them, and long ones.
TEST(PinnableSliceTest, MovesWhatItHas) {
  for (const size_t size : {0, 5, 1000}) {
    const std::string bytes(size, 'b');
    PinnableSlice from;
    from.PinSelf(bytes);
    PinnableSlice to(std::move(from));
    EXPECT_EQ(to.ToString(), bytes);
    EXPECT_EQ(to.data(), to.GetSelf()->data());
    PinnableSlice other;
    other.PinSelf(Slice("other"));
    other = std::move(to);
    EXPECT_EQ(other.ToString(), bytes);
    EXPECT_FALSE(other.IsPinned());
  }
}

// Fails if a part of short bytes stays behind, in the string that they were moved from.
TEST(PinnableSliceTest, MovesAPartOfWhatItHas) {
  for (const size_t size : {0, 5, 1000}) {
    PinnableSlice from;
    from.PinSelf("<<" + std::string(size, 'b') + ">");
    from.remove_prefix(2);
    from.remove_suffix(1);
    PinnableSlice to(std::move(from));
    EXPECT_EQ(to.ToString(), std::string(size, 'b'));
    EXPECT_EQ(to.data(), to.GetSelf()->data() + 2);
    PinnableSlice& same = to;
    to = std::move(same);
    EXPECT_EQ(to.ToString(), std::string(size, 'b'));
  }
}

TEST(PinnableSliceTest, MovesItsHoldOnOthersBytes) {
  auto holder = std::make_shared<std::string>("bytes");
  const std::weak_ptr<std::string> watch = holder;
  PinnableSlice from;
  const Slice bytes = *holder;
  from.PinSlice(bytes, std::move(holder));
  PinnableSlice to;
  to = std::move(from);
  EXPECT_TRUE(to.IsPinned());
  EXPECT_EQ(to.ToString(), "bytes");
  EXPECT_EQ(watch.use_count(), 1);
  to.Reset();
  EXPECT_TRUE(watch.expired());
}

class PinnedValueTest : public testing::TestWithParam<std::string> {
 protected:
  Options BlockOptions() const {
    Options options = GetParam().empty() ? TinyOptions() : node_.With(TinyOptions(), GetParam());
    options.table_format = TableFormat::kBlockBased;
    options.compression = CompressionType::kNoCompression;
    options.level0_file_num_compaction_trigger = 1000;
    options.level0_stop_writes_trigger = 2000;
    options.max_tables_per_guard = 1000;
    options.idle_size_amplification_percent = 0;
    return options;
  }
  void PutAndFlush(const std::string& key, const std::string& value) {
    ASSERT_OK(db_->Put(WriteOptions(), key, value));
    ASSERT_OK(db_->Put(WriteOptions(), "z", value));  // So that a key's block has one behind it.
    ASSERT_OK(db_->Flush(FlushOptions()));
  }

  const TestNode node_;
  std::unique_ptr<DB> db_;
};

// A newer table's filter says yes, and its cached block does not have the version; an older table's
// block is not cached. Fails if the older value is taken to live as long as the newer block.
TEST_P(PinnedValueTest, LivesAsLongAsItsOwnBytes) {
  db_ = OpenOrDie(BlockOptions(), "pinned");
  PutAndFlush("k", std::string(1000, '1'));
  PutAndFlush("other", std::string(1000, 'o'));
  const Snapshot* const snapshot = db_->GetSnapshot();
  PutAndFlush("k", std::string(1000, '2'));
  EXPECT_EQ(GetOr(db_.get(), "k"), std::string(1000, '2'));
  ReadOptions old;
  old.snapshot = snapshot;
  old.fill_cache = false;
  PinnableSlice pinned;
  ASSERT_OK(db_->Get(old, "k", &pinned));
  EXPECT_EQ(pinned.ToString(), std::string(1000, '1'));
  PinnableSlice other;
  ASSERT_OK(db_->Get(old, "other", &other));
  EXPECT_EQ(other.ToString(), std::string(1000, 'o'));
  db_->ReleaseSnapshot(snapshot);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  for (int i = 0; i < 200; ++i) {
    PutAndFlush(NumberedKey(static_cast<uint64_t>(i)), std::string(1000, 'n'));
  }
  EXPECT_EQ(pinned.ToString(), std::string(1000, '1'));
  EXPECT_EQ(other.ToString(), std::string(1000, 'o'));
}

// Fails if the value of one get, as the key of the next one that puts its value in the same place,
// is gone before it is looked up: then it would be another key that is read, or freed memory.
TEST_P(PinnedValueTest, MayBeTheKeyOfTheNextGet) {
  for (const TableFormat format : {TableFormat::kByteAddressable, TableFormat::kBlockBased}) {
    Options options = BlockOptions();
    options.table_format = format;
    db_ = OpenOrDie(options, "chain");
    ASSERT_OK(db_->Put(WriteOptions(), "", "what is at the empty key"));
    PutAndFlush("a", "b");
    PutAndFlush("b", "c");
    ASSERT_OK(db_->Put(WriteOptions(), "c", "d"));  // Still in a memtable.
    PinnableSlice value;
    ASSERT_OK(db_->Get(ReadOptions(), "a", &value));
    ASSERT_OK(db_->Get(ReadOptions(), value, &value));
    EXPECT_EQ(value.ToString(), "c");
    ASSERT_OK(db_->Get(ReadOptions(), value, &value));
    EXPECT_EQ(value.ToString(), "d");
    EXPECT_TRUE(db_->Get(ReadOptions(), value, &value).IsNotFound());
    EXPECT_TRUE(value.empty());
    EXPECT_FALSE(value.IsPinned());
    CloseAndDestroy(&db_, options, "chain");
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, PinnedValueTest, testing::Values("", "shm", "tcp"),
                         [](const auto& fabric) {
                           return fabric.param.empty() ? std::string("embedded") : fabric.param;
                         });

// Over a network. Fails if a large value is copied, if a small one keeps the memory that it was
// fetched into, if what is pinned changes with later reads and merges, or if its memory is not
// given back with it.
TEST(FetchedValueTest, LargeOnesStayWhereTheyWereFetched) {
  constexpr uint64_t kKeys = 12;
  const auto is_large = [](uint64_t i) { return i % 2 == 1; };
  const auto value_of = [&](uint64_t i) {
    return std::to_string(i) + std::string(is_large(i) ? 20000 : 300, 'v');
  };
  const auto faults = std::make_shared<FaultInjector>();
  Options options = TinyOptions();
  options.fault_injector = faults;
  const auto node = NodeServing("tcp", &options);
  std::unique_ptr<DB> db = OpenOrDie(options, "fetched");
  const auto put_all = [&](const std::string& prefix) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), prefix + value_of(i)));
    }
    ASSERT_OK(db->Flush(FlushOptions()));
    ASSERT_OK(db->CompactRange(nullptr, nullptr));
    ASSERT_OK(db->WaitForBackgroundWork());
  };
  put_all("");
  std::vector<std::string> names;
  for (uint64_t i = 0; i < kKeys; ++i) names.push_back(NumberedKey(i));
  const std::vector<Slice> keys(names.begin(), names.end());
  ASSERT_EQ(GetOr(db.get(), names[0]), value_of(0));  // This thread has its scratch now.
  const int64_t before = faults->buffers();
  {
    std::vector<PinnableSlice> one_by_one(kKeys);
    std::vector<PinnableSlice> together(kKeys);
    std::vector<Status> statuses(kKeys);
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_OK(db->Get(ReadOptions(), keys[i], &one_by_one[i]));
    }
    EXPECT_EQ(faults->buffers(), before + static_cast<int64_t>(kKeys / 2));
    db->MultiGet(ReadOptions(), kKeys, keys.data(), together.data(), statuses.data());
    for (const Status& status : statuses) ASSERT_OK(status);
    put_all("new");
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(GetOr(db.get(), names[i]), "new" + value_of(i));
    for (uint64_t i = 0; i < kKeys; ++i) {
      for (const PinnableSlice* const value : {&one_by_one[i], &together[i]}) {
        EXPECT_EQ(value->IsPinned(), is_large(i)) << i;
        EXPECT_EQ(value->ToString(), value_of(i));
      }
    }
  }
  EXPECT_EQ(faults->buffers(), before);
  CloseAndDestroy(&db, options, "fetched");
}

// Of a block-based table whole blocks are fetched. Fails if a small value keeps the large block
// that it was fetched with, or all those of its MultiGet.
TEST(FetchedValueTest, SmallOnesLeaveTheirBlocks) {
  constexpr uint64_t kKeys = 200;
  const auto value_of = [](uint64_t i) { return std::to_string(i) + std::string(300, 'v'); };
  const auto faults = std::make_shared<FaultInjector>();
  Options options = TinyOptions();
  options.table_format = TableFormat::kBlockBased;
  options.block_size = 16384;
  options.fault_injector = faults;
  const auto node = NodeServing("tcp", &options);
  std::unique_ptr<DB> db = OpenOrDie(options, "fetched blocks");
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value_of(i)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  ReadOptions uncached;
  uncached.fill_cache = false;
  const std::vector<std::string> names = {NumberedKey(3), NumberedKey(100), NumberedKey(101)};
  const std::vector<Slice> keys(names.begin(), names.end());
  ASSERT_EQ(GetOr(db.get(), names[0], uncached), value_of(3));  // This thread has its scratch now.
  const int64_t before = faults->buffers();
  std::vector<PinnableSlice> values(1 + keys.size());
  std::vector<Status> statuses(keys.size());
  ASSERT_OK(db->Get(uncached, keys[0], &values[0]));
  db->MultiGet(uncached, keys.size(), keys.data(), &values[1], statuses.data());
  for (const Status& status : statuses) ASSERT_OK(status);
  EXPECT_EQ(faults->buffers(), before);
  for (const PinnableSlice& value : values) EXPECT_FALSE(value.IsPinned());
  EXPECT_EQ(values[0].ToString(), value_of(3));
  EXPECT_EQ(values[2].ToString(), value_of(100));
  CloseAndDestroy(&db, options, "fetched blocks");
}

}  // namespace
}  // namespace dlsm
