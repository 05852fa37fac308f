// Read-ahead over a fabric that transfers as late as it may: under the sanitizers, a buffer that is
// freed, reused or read too early is an error.
#include "table/read_ahead.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "port/failing_allocations_testing.h"
#include "table/table_testing.h"
#include "util/named_testing.h"

namespace dlsm {
namespace {

void OnAnotherThread(const std::function<void()>& work) { std::thread(work).join(); }

using Format = Named<TableFormat>;

class ReadAheadTest : public testing::TestWithParam<Format> {
 protected:
  ReadAheadTest() : queue_pairs_(&memory_) {
    options_.format = GetParam();
    for (int i = 0; i < kRecords; ++i) {
      records_.emplace_back(MakeInternalKey(fmt::format("{:06}", i), 1),
                            fmt::format("{}{}", i, std::string(100, 'v')));
    }
  }

  void SetUp() override {
    BuildTestTable(options_, records_, &memory_, &queue_pairs_, &table_);
    read_options_.prefetch_bytes = 1000;
    read_options_.prefetch_bytes_max = 4000;
  }

  std::unique_ptr<TableIterator> NewIterator() {
    return table_.reader->NewIterator(read_options_, &queue_pairs_);
  }

  static constexpr int kRecords = 2000;
  TestMemory memory_;
  MemoryQueuePairs queue_pairs_;
  TableOptions options_;
  TestRecords records_;
  TestTable table_;
  TableReadOptions read_options_;
};

// Every window is read once, and while one is consumed the next one is on its way.
TEST_P(ReadAheadTest, ReadsAheadAndReadsNothingTwice) {
  const auto iterator = NewIterator();
  const WireCounts before = queue_pairs_.Counts();
  bool overlapped = false;
  int count = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    overlapped = overlapped || queue_pairs_.Mine()->outstanding() > 0;
    ++count;
  }
  EXPECT_EQ(count, kRecords);
  EXPECT_TRUE(overlapped);
  const WireCounts cost = queue_pairs_.Counts() - before;
  EXPECT_EQ(cost.read_bytes, table_.meta.data_bytes);
  EXPECT_LE(cost.round_trips, table_.meta.data_bytes / 2000);
}

TEST_P(ReadAheadTest, ReadsAheadBackward) {
  const auto iterator = NewIterator();
  const WireCounts before = queue_pairs_.Counts();
  int count = 0;
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) ++count;
  EXPECT_EQ(count, kRecords);
  EXPECT_EQ((queue_pairs_.Counts() - before).read_bytes, table_.meta.data_bytes);
}

// A seek that is followed by few steps must not pay for windows that nobody asked for.
TEST_P(ReadAheadTest, SeeksReadOneWindow) {
  const auto iterator = NewIterator();
  iterator->Seek(records_[1000].first);
  ASSERT_TRUE(iterator->Valid());
  const WireCounts cost = queue_pairs_.Counts();
  EXPECT_EQ(cost.round_trips, 1);
  EXPECT_LE(cost.read_bytes, std::max<uint64_t>(read_options_.prefetch_bytes, 9000));
  EXPECT_EQ(queue_pairs_.Mine()->outstanding(), 0);
}

// In place a window may end within a unit: each byte is counted once all the same, in few windows,
// and a seek counts one window.
TEST_P(ReadAheadTest, CountsOnceWhatItReadsInPlace) {
  MemoryQueuePairs in_place(&memory_, /*direct=*/true);
  read_options_.verify_checksums = false;
  const auto iterator = table_.reader->NewIterator(read_options_, &in_place);
  size_t i = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++i) {
    ASSERT_EQ(iterator->key(), Slice(records_[i].first));
    ASSERT_EQ(iterator->value(), Slice(records_[i].second));
  }
  ASSERT_TRUE(iterator->status().ok()) << iterator->status().ToString();
  EXPECT_EQ(i, records_.size());
  const WireCounts scan = in_place.Counts();
  EXPECT_EQ(scan.read_bytes, table_.meta.data_bytes);
  EXPECT_LE(scan.round_trips, table_.meta.data_bytes / 2000);
  iterator->Seek(records_[1000].first);
  ASSERT_TRUE(iterator->Valid());
  const WireCounts seek = in_place.Counts() - scan;
  EXPECT_EQ(seek.round_trips, 1);
  EXPECT_LE(seek.read_bytes, std::max<uint64_t>(read_options_.prefetch_bytes, 9000));
}

// What is in place becomes others' memory while iterators stand within it. Fails if one of them
// goes on there, at the first record as well; or if one ends because another node was lost.
TEST_P(ReadAheadTest, LooksNoFurtherAtWhatIsLost) {
  MemoryQueuePairs in_place(&memory_, /*direct=*/true);
  read_options_.verify_checksums = false;
  const auto forward = table_.reader->NewIterator(read_options_, &in_place);
  const auto backward = table_.reader->NewIterator(read_options_, &in_place);
  const auto at_first = table_.reader->NewIterator(read_options_, &in_place);
  forward->SeekToFirst();
  backward->SeekToLast();
  at_first->SeekToFirst();
  in_place.LoseANode(/*this_one=*/false);
  forward->Next();
  backward->Prev();
  ASSERT_TRUE(forward->Valid() && backward->Valid());
  EXPECT_EQ(forward->key(), Slice(records_[1].first));
  EXPECT_EQ(backward->key(), Slice(records_[kRecords - 2].first));
  EXPECT_TRUE(at_first->CheckPlace().ok());

  const auto expect_lost = [](const TableIterator& iterator) {
    EXPECT_FALSE(iterator.Valid());
    EXPECT_TRUE(iterator.status().IsIOError()) << iterator.status().ToString();
  };
  const auto stands = table_.reader->NewIterator(read_options_, &in_place);
  stands->SeekToFirst();
  EXPECT_TRUE(stands->CheckPlace().ok());
  in_place.LoseANode(/*this_one=*/true);
  EXPECT_TRUE(stands->CheckPlace().IsIOError());
  forward->Next();
  expect_lost(*forward);
  backward->Prev();
  expect_lost(*backward);
  at_first->Prev();
  expect_lost(*at_first);
  at_first->Seek(records_[1].first);
  expect_lost(*at_first);
}

// What a prepared seek posts is what the seek then needs, also where the table does not have the
// key: one read, one wait.
TEST_P(ReadAheadTest, PreparedSeeksReadOneWindow) {
  for (const std::string key : {"000500", "000500x", "00049a", "001999x", "000", "x"}) {
    const auto iterator = NewIterator();
    const std::string target = MakeInternalKey(key, 1);
    const WireCounts before = queue_pairs_.Counts();
    for (int step = 0; step < 3; ++step) iterator->PrepareSeek(target);
    iterator->Seek(target);
    ASSERT_TRUE(iterator->status().ok()) << iterator->status().ToString();
    const auto expected = std::find_if(records_.begin(), records_.end(), [&](const auto& record) {
      return ExtractUserKey(record.first).compare(key) >= 0;
    });
    ASSERT_EQ(iterator->Valid(), expected != records_.end()) << key;
    if (iterator->Valid()) {
      EXPECT_EQ(iterator->key(), Slice(expected->first));
    }
    const WireCounts cost = queue_pairs_.Counts() - before;
    EXPECT_LE(cost.work_requests, 1) << key;
    EXPECT_LE(cost.round_trips, 1) << key;
  }
}

// Each step on another thread than the one before, with read-ahead outstanding in between: what one
// thread posted must not be waited for, used or freed by another.
TEST_P(ReadAheadTest, MayBeUsedByOneThreadAfterAnother) {
  auto iterator = NewIterator();
  iterator->SeekToFirst();
  for (int i = 0; i < kRecords;) {
    const auto several = [&] {
      for (int steps = 0; steps < 37 && i < kRecords; ++steps, ++i) {
        ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
        ASSERT_EQ(iterator->key(), Slice(records_[static_cast<size_t>(i)].first));
        ASSERT_EQ(iterator->value(), Slice(records_[static_cast<size_t>(i)].second));
        iterator->Next();
      }
    };
    several();
    OnAnotherThread(several);
    if (HasFatalFailure()) return;
  }
  EXPECT_FALSE(iterator->Valid());
  OnAnotherThread([&] { iterator.reset(); });
}

// Destroyed with read-ahead under way, by its thread and by another; the transfer then takes place.
TEST_P(ReadAheadTest, MayBeDestroyedWithReadsUnderWay) {
  for (const bool elsewhere : {false, true}) {
    auto iterator = NewIterator();
    iterator->SeekToFirst();
    while (queue_pairs_.Mine()->outstanding() == 0) {
      ASSERT_TRUE(iterator->Valid());
      iterator->Next();
    }
    if (elsewhere) {
      OnAnotherThread([&] { iterator.reset(); });
    }
    iterator.reset();
    EXPECT_EQ(queue_pairs_.Mine()->outstanding(), 1);
    const auto other = NewIterator();  // Its wait completes the transfer that nobody wants.
    other->SeekToFirst();
    ASSERT_TRUE(other->Valid());
    EXPECT_EQ(queue_pairs_.Mine()->outstanding(), 0);
  }
}

// There is no memory to hold the buffer of a read. Fails if the read is under way then: it would
// land in memory that is somebody else's by that time.
TEST_P(ReadAheadTest, PostsNothingThatCannotBeHeld) {
  const std::string target = MakeInternalKey("001000", 1);
  for (const bool prepares : {false, true}) {
    if (prepares && GetParam() != TableFormat::kByteAddressable) break;  // There it does nothing.
    const auto iterator = NewIterator();
    queue_pairs_.Mine()->Close();  // The next one has not held anything yet.
    for (int step = 0; prepares && step < 2; ++step) iterator->PrepareSeek(target);
    {
      const port::FailingAllocations failing(1);
      if (prepares) {
        EXPECT_THROW(iterator->PrepareSeek(target), std::bad_alloc);
      } else {
        EXPECT_THROW(iterator->Seek(target), std::bad_alloc);
      }
    }
    EXPECT_EQ(queue_pairs_.Mine()->outstanding(), 0u);
    iterator->Seek(target);
    ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
    EXPECT_EQ(iterator->key(), Slice(records_[1000].first));
  }
}

// A queue pair that was replaced between two steps took the read-ahead with it.
TEST_P(ReadAheadTest, ReadsAgainAfterItsQueuePairWasReplaced) {
  const auto iterator = NewIterator();
  int i = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++i) {
    ASSERT_EQ(iterator->key(), Slice(records_[static_cast<size_t>(i)].first));
    if (queue_pairs_.Mine()->outstanding() > 0) queue_pairs_.Mine()->Close();
  }
  ASSERT_TRUE(iterator->status().ok()) << iterator->status().ToString();
  EXPECT_EQ(i, kRecords);
}

// Whichever transfer fails, the iterator says so and can be positioned again.
TEST_P(ReadAheadTest, ReportsEveryFault) {
  int64_t n = 0;
  for (;; ++n) {
    queue_pairs_.FailAfter(n);
    const auto iterator = NewIterator();
    int count = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++count;
    const bool failed = queue_pairs_.failed();
    queue_pairs_.FailNone();
    EXPECT_EQ(iterator->status().ok(), count == kRecords);
    if (!failed) break;
    EXPECT_TRUE(iterator->status().IsIOError()) << "at transfer " << n;
    iterator->Seek(records_[5].first);
    ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
    EXPECT_EQ(iterator->key(), Slice(records_[5].first));
  }
  EXPECT_GT(n, 0) << "nothing was transferred";
}

// Bytes that were damaged on their way are right where they come from. Fails if an iterator that
// has met such bytes goes on looking at them when it is moved there once more.
TEST_P(ReadAheadTest, ReadsAgainWhatWasDamaged) {
  char* const data = memory_.At(table_.meta.image);
  const auto damage_or_mend_all = [&] {
    for (uint64_t i = 0; i < table_.meta.data_bytes; ++i) data[i] = static_cast<char>(~data[i]);
  };
  const std::pair<size_t, std::function<void(TableIterator*)>> moves[] = {
      {0, [](TableIterator* iterator) { iterator->SeekToFirst(); }},
      {1000, [this](TableIterator* iterator) { iterator->Seek(records_[1000].first); }},
      {kRecords - 1, [](TableIterator* iterator) { iterator->SeekToLast(); }},
  };
  for (const auto& [record, move] : moves) {
    SCOPED_TRACE(testing::Message() << "record " << record);
    const auto iterator = NewIterator();
    damage_or_mend_all();
    move(iterator.get());
    EXPECT_TRUE(iterator->status().IsCorruption()) << iterator->status().ToString();
    damage_or_mend_all();
    move(iterator.get());
    ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
    EXPECT_EQ(iterator->key(), Slice(records_[record].first));
    EXPECT_EQ(iterator->value(), Slice(records_[record].second));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, ReadAheadTest,
                         testing::Values(Format{"Byte", TableFormat::kByteAddressable},
                                         Format{"Block", TableFormat::kBlockBased}),
                         NameOf<TableFormat>);

}  // namespace
}  // namespace dlsm
