// Scans that go on for long: the iterator finds the only source that is left, and steps that.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "db/test/test_database_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr uint64_t kScannedKeys = 4000;
constexpr char kLongScansName[] = "long scans";

struct LongScanShape {
  const char* name;
  bool shards;     // Scans go from one to the next.
  bool compacted;  // One run of many tables, or many guards; otherwise several that overlap.
  bool memtable;   // Low keys are in the memtable, too: what is merged becomes one source.
  CompactionStyle style;
};
void PrintTo(const LongScanShape& shape, std::ostream* out) { *out << shape.name; }

class LongScanTest : public testing::TestWithParam<LongScanShape> {
 protected:
  using Model = std::map<std::string, std::string>;

  void SetUp() override {
    options_ = TinyOptions();
    options_.compaction_style = GetParam().style;
    if (GetParam().shards) {
      options_.shards = 3;
      options_.shard_boundaries = {NumberedKey(1000), NumberedKey(1003)};
      options_.write_buffer_size *= 3;
    }
    db_ = OpenOrDie(options_, kLongScansName);
    for (uint64_t round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < kScannedKeys; ++i) {
        if (random_.OneIn(static_cast<int>(round) + 1)) Put(i, round);
      }
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
    for (uint64_t i = 0; i < kScannedKeys; ++i) {
      if (random_.OneIn(7) || (i > 2000 && i < 2100)) Delete(i);
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
    if (GetParam().compacted) {
      ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    }
    if (!GetParam().memtable) return;
    for (uint64_t i = 0; i < kScannedKeys / 4; i += 3) Put(i, 9);
  }
  void TearDown() override {
    ASSERT_OK(db_->Close());
    db_.reset();
    EXPECT_OK(DestroyDB(kLongScansName, options_));
  }

  void Put(uint64_t i, uint64_t round) {
    const std::string value =  // Long, so that there are many tables.
        std::to_string(round) + "/" + std::to_string(i) + std::string(300, '.');
    model_[NumberedKey(i)] = value;
    ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), value));
  }
  void Delete(uint64_t i) {
    model_.erase(NumberedKey(i));
    ASSERT_OK(db_->Delete(WriteOptions(), NumberedKey(i)));
  }

  void ExpectAt(const Iterator& iterator, Model::const_iterator at) {
    ASSERT_EQ(iterator.Valid(), at != model_.end()) << iterator.status().ToString();
    if (at == model_.end()) return;
    ASSERT_EQ(iterator.key().ToString(), at->first);
    ASSERT_EQ(iterator.value().ToString(), at->second);
  }

  Random random_{1};
  Options options_;
  Model model_;
  std::unique_ptr<DB> db_;
};

// Fails if a scan passes over an entry, or ends, where one table, guard or shard ends.
TEST_P(LongScanTest, ShowsEverything) {
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  auto at = model_.cbegin();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    ASSERT_NO_FATAL_FAILURE(ExpectAt(*iterator, at++));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectAt(*iterator, at));
  EXPECT_OK(iterator->status());
}

// Fails if the iterator goes on from a source that it has left: by another seek, or a turn.
TEST_P(LongScanTest, TurnsAndSeeksBetweenSteps) {
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  for (int round = 0; round < 100; ++round) {
    const std::string target = NumberedKey(random_.Uniform(kScannedKeys));
    iterator->Seek(target);
    auto at = model_.lower_bound(target);
    for (int turn = 0; turn < 4; ++turn) {
      for (uint64_t steps = random_.Uniform(120); steps > 0 && at != model_.end(); --steps) {
        ASSERT_NO_FATAL_FAILURE(ExpectAt(*iterator, at));
        iterator->Next();
        ++at;
      }
      for (uint64_t steps = random_.Uniform(turn == 0 ? 3 : 40);
           steps > 0 && at != model_.end() && at != model_.begin(); --steps) {
        ASSERT_NO_FATAL_FAILURE(ExpectAt(*iterator, at));
        iterator->Prev();
        --at;
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAt(*iterator, at));
  }
}

// Fails if a long scan passes its bound, or a version that is newer than its snapshot is shown.
TEST_P(LongScanTest, BoundsAndSnapshotsHold) {
  const Snapshot* const snapshot = db_->GetSnapshot();
  const Model before = model_;
  for (uint64_t i = 0; i < kScannedKeys; i += 2) Put(i, 10);
  ASSERT_OK(db_->Flush(FlushOptions()));
  const std::string end = NumberedKey(3333);
  const Slice bound(end);
  ReadOptions reads;
  reads.snapshot = snapshot;
  reads.iterate_upper_bound = &bound;
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(reads));
  auto at = before.cbegin();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++at) {
    ASSERT_LT(iterator->key().ToString(), end);
    ASSERT_EQ(iterator->key().ToString(), at->first);
    ASSERT_EQ(iterator->value().ToString(), at->second);
  }
  EXPECT_TRUE(at == before.lower_bound(end));
  db_->ReleaseSnapshot(snapshot);
}

INSTANTIATE_TEST_SUITE_P(
    EveryShape, LongScanTest,
    testing::Values(
        LongScanShape{"Compacted", false, true, false, CompactionStyle::kGuards},
        LongScanShape{"CompactedAndMemtable", false, true, true, CompactionStyle::kGuards},
        LongScanShape{"Overlapping", false, false, true, CompactionStyle::kGuards},
        LongScanShape{"Leveled", false, true, true, CompactionStyle::kLeveled},
        LongScanShape{"Tiered", false, false, true, CompactionStyle::kTiered},
        LongScanShape{"Shards", true, true, false, CompactionStyle::kGuards},
        LongScanShape{"ShardsAndMemtable", true, false, true, CompactionStyle::kLeveled}),
    [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace dlsm
