#include "db/tree/evictable_table_reader.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/statistics.h"
#include "db/tree/table.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "table/table_testing.h"
#include "util/eventually_testing.h"

namespace dlsm {
namespace {

// Where the index of one table is fetched, as often as that is asked for.
class TestSource final : public TableReaderSource {
 public:
  TestSource(const TableOptions& options, const TestTable& table)
      : options_(options), table_(table) {}

  const InternalKeyComparator& comparator() const override { return comparator_; }
  Status OpenReader(const TableMeta& meta, const CachedBlocks& blocks,
                    const TableReadOptions& options,
                    std::unique_ptr<TableReader>* reader) const override {
    {
      port::MutexLock lock(mutex_);
      purposes_.push_back(options.purpose);
    }
    const bool fails = fails_;
    while (held_up_) std::this_thread::yield();
    if (fails) return Status::IOError("injected fault");
    return TableReader::Open(options_, meta, table_.resident, nullptr, blocks, reader);
  }

  // What attempts that begin from now on come to, and whether they end.
  void SetFails(bool fails) { fails_ = fails; }
  void SetHeldUp(bool held_up) { held_up_ = held_up; }
  // Of all attempts.
  std::vector<Purpose> purposes() const {
    port::MutexLock lock(mutex_);
    return purposes_;
  }
  size_t attempts() const { return purposes().size(); }

 private:
  const TableOptions options_;
  const TestTable& table_;
  const InternalKeyComparator comparator_{BytewiseComparator()};
  std::atomic<bool> fails_{false};
  std::atomic<bool> held_up_{false};
  mutable port::Mutex mutex_;
  mutable std::vector<Purpose> purposes_ GUARDED_BY(mutex_);
};

class EvictableTableReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kRecords; ++i) {
      records_.emplace_back(MakeInternalKey(fmt::format("{:04}", i), 1), std::to_string(i));
    }
    BuildTestTable(options_, records_, &memory_, &queue_pairs_, &table_);
    source_ = std::make_unique<TestSource>(options_, table_);
  }

  std::unique_ptr<EvictableTableReader> NewReader(bool loaded = false) {
    std::unique_ptr<TableReader> reader;
    if (loaded) {
      EXPECT_OK(TableReader::Open(options_, table_.meta, table_.resident, nullptr, CachedBlocks(),
                                  &reader));
    }
    return std::make_unique<EvictableTableReader>(table_.meta, std::move(reader), CachedBlocks(),
                                                  source_.get(), budget_, statistics_.get());
  }
  std::unique_ptr<TableIterator> NewIterator(const TableReader& reader,
                                             Purpose purpose = Purpose::kRead) {
    TableReadOptions options;
    options.purpose = purpose;
    return reader.NewIterator(options, &queue_pairs_);
  }
  // All indexes and filters that stay have as much room as there is.
  bool NoneStays() const { return budget_->HasRoomFor(budget_->metadata_max()); }
  uint64_t Loads() const { return statistics_->Get(Ticker::kMetadataLoads); }

  static constexpr int kRecords = 200;
  TestMemory memory_;
  MemoryQueuePairs queue_pairs_{&memory_};
  TableOptions options_;
  TestRecords records_;
  TestTable table_;
  std::unique_ptr<TestSource> source_;
  const std::shared_ptr<MemoryBudget> budget_ =
      std::make_shared<MemoryBudget>(uint64_t{1} << 20, 0, nullptr);
  const std::shared_ptr<Statistics> statistics_ = CreateStatistics();
};

// Fails if a read that may transfer nothing, or has no time left, has an index fetched, or if the
// failure of a read with a deadline is told to one without.
TEST_F(EvictableTableReaderTest, LimitedReads) {
  const auto reader = NewReader();
  TableReadOptions local;
  local.limited = local.local = true;
  EXPECT_TRUE(reader->MakeReady(local).IsIncomplete());
  const auto iterator = reader->NewIterator(local, &queue_pairs_);
  for (int seek = 0; seek < 2; ++seek) {
    iterator->Seek(records_[7].first);
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(iterator->status().IsIncomplete()) << iterator->status().ToString();
  }
  TableReadOptions late;
  late.limited = true;
  late.deadline = port::Clock::now() - std::chrono::milliseconds(1);
  EXPECT_TRUE(reader->MakeReady(late).IsTimedOut());
  EXPECT_EQ(source_->attempts(), 0u);
  // Another's attempt goes on for longer than this read may wait.
  source_->SetHeldUp(true);
  std::thread other([&] { EXPECT_OK(reader->MakeReady({.limited = true})); });
  ASSERT_TRUE(Eventually([&] { return source_->attempts() == 1; }));
  late.deadline = port::Clock::now() + std::chrono::milliseconds(5);
  EXPECT_TRUE(reader->MakeReady(late).IsTimedOut());
  source_->SetHeldUp(false);
  other.join();
  EXPECT_EQ(source_->attempts(), 1u);
  late.deadline = port::Clock::now() + std::chrono::hours(1);
  EXPECT_OK(reader->MakeReady(late));
  EXPECT_OK(reader->MakeReady(local));
}

// Fails if an iterator whose table's index cannot be fetched asks for it more than once for each
// move, hides that it could not, or stays at that error.
TEST_F(EvictableTableReaderTest, AnIteratorTriesAgainWithEachMove) {
  const auto reader = NewReader();
  source_->SetFails(true);
  const auto iterator = NewIterator(*reader);
  EXPECT_EQ(source_->attempts(), 1u);
  for (size_t attempts = 1; attempts <= 3; ++attempts) {
    iterator->Seek(records_[7].first);
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(iterator->status().IsIOError()) << iterator->status().ToString();
    EXPECT_EQ(source_->attempts(), attempts);
  }
  source_->SetFails(false);
  iterator->Seek(records_[7].first);
  ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
  EXPECT_EQ(iterator->value(), Slice("7"));
  iterator->Next();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value(), Slice("8"));
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value(), Slice("0"));
  iterator->Prev();
  EXPECT_FALSE(iterator->Valid());
  iterator->SeekToLast();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value(), Slice(std::to_string(kRecords - 1)));
  iterator->Next();
  EXPECT_FALSE(iterator->Valid());
  EXPECT_OK(iterator->status());
  EXPECT_EQ(source_->attempts(), 4u);
}

// Fails if readers that have waited for an attempt, in vain, begin with attempts of their own, one
// behind the other; or if one that comes later makes none.
TEST_F(EvictableTableReaderTest, WhoHasWaitedForAnAttemptHasItsError) {
  constexpr size_t kReaders = 8;
  const auto reader = NewReader();
  const LookupKey key(ExtractUserKey(records_[7].first), kSequenceNumberMax);
  source_->SetFails(true);
  source_->SetHeldUp(true);
  std::atomic<size_t> begun{0};
  std::vector<std::thread> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      TableProbe probe;
      ++begun;
      EXPECT_TRUE(reader->Find(key, /*filtered=*/false, &probe));
      EXPECT_EQ(probe.span.bytes, 0u);
      LookupResult result;
      const Status status = reader->Decode(key, probe, Slice(), TableReadOptions(), &result);
      EXPECT_TRUE(status.IsIOError()) << status.ToString();
    });
  }
  while (begun < kReaders || source_->attempts() == 0) std::this_thread::yield();
  // They are on their way to the lock. One that takes longer yet may make an attempt of its own.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  source_->SetHeldUp(false);
  for (std::thread& each : readers) each.join();
  EXPECT_LE(source_->attempts(), kReaders / 2);

  source_->SetFails(false);
  TableProbe probe;
  ASSERT_TRUE(reader->Find(key, /*filtered=*/false, &probe));
  EXPECT_GT(probe.span.bytes, 0u);
}

// Fails if what has left, and is there only for those who still read it, counts as what could go:
// whether its index was there before or is fetched afterwards.
TEST_F(EvictableTableReaderTest, WhatHasLeftIsNotCountedAsStaying) {
  for (const bool loaded : {true, false}) {
    SCOPED_TRACE(loaded);
    auto reader = NewReader(loaded);
    EXPECT_EQ(NoneStays(), !loaded);
    reader->NoteLeaving();
    EXPECT_TRUE(NoneStays());
    NewIterator(*reader)->SeekToFirst();
    EXPECT_GT(budget_->metadata_bytes(), 0u);
    EXPECT_TRUE(NoneStays());
    reader->NoteLeaving();  // Of the table, where a reader of it has left before.
    reader.reset();
    EXPECT_EQ(budget_->metadata_bytes(), 0u);
    // Nothing is left over that would hide what stays.
    reader = NewReader(/*loaded=*/true);
    EXPECT_FALSE(NoneStays());
  }
}

// The same for a table that has been merged.
TEST_F(EvictableTableReaderTest, ATableThatIsObsoleteHasLeft) {
  const Table table(NewReader(/*loaded=*/true), nullptr);
  EXPECT_FALSE(NoneStays());
  table.MarkObsolete();
  EXPECT_TRUE(NoneStays());
  EXPECT_GT(budget_->metadata_bytes(), 0u);
}

// Fails if sizes are guessed where the index would tell them, if it is fetched for a range that
// holds all of the table, or if a range is 0 because it cannot be fetched.
TEST_F(EvictableTableReaderTest, SizesAreThoseThatTheIndexTells) {
  const auto reader = NewReader();
  const LookupKey first("", kSequenceNumberMax);
  const LookupKey middle("0050", kSequenceNumberMax);
  const LookupKey next("0051", kSequenceNumberMax);
  const LookupKey last("z", kSequenceNumberMax);
  EXPECT_EQ(reader->ApproximateBytes(first.internal_key(), last.internal_key()),
            table_.meta.data_bytes);
  EXPECT_EQ(source_->attempts(), 0u);
  source_->SetFails(true);
  EXPECT_GT(reader->ApproximateBytes(middle.internal_key(), next.internal_key()), 0u);
  EXPECT_EQ(source_->attempts(), 1u);
  source_->SetFails(false);
  EXPECT_EQ(reader->ApproximateBytes(middle.internal_key(), next.internal_key()),
            table_.reader->ApproximateBytes(middle.internal_key(), next.internal_key()));
  EXPECT_EQ(source_->attempts(), 2u);
}

// Fails if a merge that reads a table makes it one that was read lately, or is counted as a read
// that had to fetch an index; or if it fetches it as a read does.
TEST_F(EvictableTableReaderTest, MergesAreNoReads) {
  const auto merged = NewReader();
  NewIterator(*merged, Purpose::kCompaction)->SeekToFirst();
  EXPECT_TRUE(merged->loaded());
  EXPECT_FALSE(merged->TakeUse());
  EXPECT_EQ(Loads(), 0u);
  const auto read = NewReader();
  NewIterator(*read)->SeekToFirst();
  EXPECT_TRUE(read->TakeUse());
  EXPECT_FALSE(read->TakeUse());
  EXPECT_EQ(Loads(), 1u);
  EXPECT_EQ(source_->purposes(), (std::vector<Purpose>{Purpose::kCompaction, Purpose::kRead}));
}

}  // namespace
}  // namespace dlsm
