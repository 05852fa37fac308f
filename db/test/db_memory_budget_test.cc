// Options::memory_budget: whole databases whose indexes and filters do not all fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/cache.h"
#include "db/test/test_database_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/random.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBudgetKeys = 60'000;
constexpr uint64_t kMetadataMax = uint64_t{64} << 10;

std::string BudgetValue(uint64_t number, uint64_t round) {
  return std::to_string(number * 31 + round) + std::string(number % 20, 'v');
}

struct BudgetSetting {
  const char* fabric;
  TableFormat format;
};

std::string BudgetSettingName(const BudgetSetting& setting) {
  return setting.fabric[0] == '\0' ? "embedded" : setting.fabric;
}
void PrintTo(const BudgetSetting& setting, std::ostream* out) {
  *out << BudgetSettingName(setting);
}

class MemoryBudgetTest : public testing::TestWithParam<BudgetSetting> {
 protected:
  void SetUp() override {
    options_ = TinyOptions();
    options_.table_format = GetParam().format;
    options_.memory_budget =
        options_.write_buffer_size * static_cast<uint64_t>(options_.max_write_buffer_number) +
        kMetadataMax;
    cache_.reset(NewLRUCache(size_t{1} << 10));
    options_.block_cache = cache_.get();
    options_.fault_injector = std::make_shared<FaultInjector>();
    node_ = NodeServing(GetParam().fabric, &options_);
    db_ = OpenOrDie(options_, "budget");
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, "budget"); }

  void Fill(uint64_t round) {
    Random random(round);
    for (uint64_t i = 0; i < kBudgetKeys; ++i) {
      const uint64_t number = random.Uniform(kBudgetKeys);
      if (random.OneIn(8)) {
        ASSERT_OK(db_->Delete(WriteOptions(), NumberedKey(number)));
        model_.erase(NumberedKey(number));
      } else {
        ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(number), BudgetValue(number, round)));
        model_[NumberedKey(number)] = BudgetValue(number, round);
      }
    }
  }
  std::string Expected(const std::string& key) {
    const auto found = model_.find(key);
    return found == model_.end() ? "(none)" : found->second;
  }
  void ExpectAllThere(uint64_t step) {
    Random random(step);
    for (uint64_t i = 0; i < kBudgetKeys; i += 1 + random.Uniform(2 * step)) {
      ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), Expected(NumberedKey(i)));
    }
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
    iterator->SeekToFirst();
    for (const auto& [key, value] : model_) {
      ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
      ASSERT_EQ(iterator->key().ToString(), key);
      ASSERT_EQ(iterator->value().ToString(), value);
      iterator->Next();
    }
    EXPECT_FALSE(iterator->Valid());
    EXPECT_OK(iterator->status());
  }
  uint64_t Count(Ticker ticker) { return db_->GetStatistics()->Get(ticker); }
  uint64_t MetadataBytes() {
    return FieldOfProperty(db_.get(), "dlsm.memory", "indexes-and-filters");
  }
  // What readers themselves take, and the directories of guards, comes on top.
  uint64_t Tolerated() {
    uint64_t tables = 0;
    for (int level = 0; level < options_.num_levels; ++level) {
      tables += NumberProperty(db_.get(), "dlsm.num-files-at-level" + std::to_string(level));
    }
    return kMetadataMax + 1024 * tables;
  }
  bool ComesDown() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < until) {
      if (MetadataBytes() <= Tolerated()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  Options options_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> db_;
  std::map<std::string, std::string> model_;
};

// Fails if a table whose index was dropped reads wrongly, if nothing is dropped, or if what is
// dropped stays.
TEST_P(MemoryBudgetTest, ReadsStayExactBeyondIt) {
  Fill(1);
  ExpectAllThere(20);
  Fill(2);
  ExpectAllThere(20);
  // What is too much goes ten times a second.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto waiting = [&] {
    return Count(Ticker::kMetadataLoads) == 0 || Count(Ticker::kMetadataEvictions) == 0;
  };
  while (waiting() && std::chrono::steady_clock::now() < until) {
    ExpectAllThere(20);
  }
  EXPECT_GT(Count(Ticker::kMetadataEvictions), 0u);
  EXPECT_GT(Count(Ticker::kMetadataLoads), 0u);
  EXPECT_TRUE(ComesDown()) << MetadataBytes() << " of " << Tolerated();
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ExpectAllThere(20);
}

TEST_P(MemoryBudgetTest, OpensWithoutFetchingAll) {
  Fill(1);
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, "budget");
  // Beyond it: what merges, which have begun, read and write.
  EXPECT_LE(MetadataBytes(), 2 * Tolerated());
  EXPECT_TRUE(ComesDown());
  ExpectAllThere(50);
}

// Fails if readers use what is dropped under them; ThreadSanitizer and AddressSanitizer see more.
TEST_P(MemoryBudgetTest, ManyReadWhileTablesComeAndGo) {
  Fill(1);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    readers.emplace_back([this, thread, &done, &wrong] {
      Random random(thread);
      while (!done.load()) {
        std::vector<std::string> names;
        std::vector<Slice> keys;
        for (int i = 0; i < 16; ++i) names.push_back(NumberedKey(random.Uniform(kBudgetKeys)));
        for (const std::string& name : names) keys.emplace_back(name);
        std::vector<std::string> values;
        const std::vector<Status> statuses = db_->MultiGet(ReadOptions(), keys, &values);
        for (const Status& status : statuses) {
          if (!status.ok() && !status.IsNotFound()) wrong.fetch_add(1);
        }
        const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
        iterator->Seek(names.front());
        for (int i = 0; i < 20 && iterator->Valid(); ++i) iterator->Prev();
        if (!iterator->status().ok()) wrong.fetch_add(1);
      }
    });
  }
  Fill(2);
  done.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(Count(Ticker::kMetadataLoads), 0u);
  ExpectAllThere(20);
}

// Fails if a table whose index cannot be fetched passes for one without the key.
TEST_P(MemoryBudgetTest, SaysWhatItCouldNotFetch) {
  Fill(1);
  ASSERT_OK(db_->Flush(FlushOptions()));
  ASSERT_OK(db_->WaitForBackgroundWork());
  ASSERT_TRUE(ComesDown());
  options_.fault_injector->OnlyPurpose(Purpose::kRead);
  options_.fault_injector->SetProbability(FaultKind::kFail, 0.5);
  uint64_t failed = 0;
  for (uint64_t i = 0; i < kBudgetKeys; i += 37) {
    const std::string key = NumberedKey(i);
    std::string value;
    const Status status = db_->Get(ReadOptions(), key, &value);
    if (status.IsIOError()) {
      ++failed;
    } else {
      ASSERT_EQ(status.ok() ? value : "(none)", Expected(key)) << status.ToString();
    }
  }
  EXPECT_GT(failed, 0u);
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  iterator->SeekToFirst();
  for (const auto& [key, value] : model_) {
    if (!iterator->Valid()) break;
    ASSERT_EQ(iterator->key().ToString(), key);
    iterator->Next();
  }
  EXPECT_TRUE(iterator->Valid() || iterator->status().IsIOError());
  options_.fault_injector->Clear();
  ExpectAllThere(50);
}

// Fails if an iterator stays at the error of an index that could not be fetched once.
TEST_P(MemoryBudgetTest, AnIteratorTriesAgain) {
  Fill(1);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_TRUE(ComesDown());
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  options_.fault_injector->OnlyPurpose(Purpose::kRead);
  uint64_t failed = 0;
  for (uint64_t i = 0; i < kBudgetKeys; i += 501) {
    const std::string key = NumberedKey(i);
    options_.fault_injector->SetProbability(FaultKind::kFail, 1);
    iterator->Seek(key);
    if (!iterator->Valid()) ++failed;
    options_.fault_injector->Clear();
    iterator->Seek(key);
    const auto expected = model_.lower_bound(key);
    ASSERT_EQ(iterator->Valid(), expected != model_.end()) << iterator->status().ToString();
    if (!iterator->Valid()) continue;
    ASSERT_EQ(iterator->key().ToString(), expected->first);
    iterator->Prev();
    ASSERT_OK(iterator->status());
  }
  EXPECT_GT(failed, 0u);
}

// Fails if each of many readers of one table waits for a time-out of its own, one after the other.
TEST_P(MemoryBudgetTest, ManyWaitForOneTimeout) {
  ASSERT_OK(db_->Close());
  options_.operation_timeout_ms = 500;
  db_ = OpenOrDie(options_, "budget");
  Fill(1);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_TRUE(ComesDown());
  options_.fault_injector->OnlyPurpose(Purpose::kRead);
  options_.fault_injector->SetProbability(FaultKind::kDrop, 1);
  constexpr int kReaders = 12;
  uint64_t slow = 0;
  // Of some tables the index is there, of others not.
  for (uint64_t i = 0; i < kBudgetKeys; i += kBudgetKeys / 4) {
    std::vector<std::thread> readers;
    const auto start = std::chrono::steady_clock::now();
    for (int thread = 0; thread < kReaders; ++thread) {
      readers.emplace_back([this, i] {
        std::string value;
        db_->Get(ReadOptions(), NumberedKey(i), &value).PermitUncheckedError();
      });
    }
    for (std::thread& reader : readers) reader.join();
    const auto took = std::chrono::steady_clock::now() - start;
    if (took > std::chrono::milliseconds(500 * kReaders / 2)) ++slow;
  }
  EXPECT_EQ(slow, 0u);
  options_.fault_injector->Clear();
}

// Fails if indexes of tables that are only there for an iterator count as some that could go: those
// that are read would be dropped again and again.
TEST_P(MemoryBudgetTest, WhatAnIteratorHoldsDrivesOutNothing) {
  Fill(1);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_OK(db_->WaitForBackgroundWork());
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) continue;
  // All tables are replaced while as many of their indexes are there as there is room for.
  for (uint64_t i = 0; i < kBudgetKeys; i += 500) {
    ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), "new"));
    model_[NumberedKey(i)] = "new";
  }
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_OK(db_->WaitForBackgroundWork());
  ASSERT_TRUE(ComesDown());
  // In half of the room for those that are read.
  const auto read_some = [this] {
    for (uint64_t table = 0; table < 4; ++table) {
      for (uint64_t i = 0; i < 50; ++i) {
        const std::string key = NumberedKey(table * kBudgetKeys / 4 + i);
        ASSERT_EQ(GetOr(db_.get(), key), Expected(key));
      }
    }
  };
  read_some();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const uint64_t before = Count(Ticker::kMetadataLoads);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < until) read_some();
  // What is too much goes twenty times in two seconds.
  EXPECT_LE(Count(Ticker::kMetadataLoads), before + 10);
}

// Fails if a table's blocks cannot be found again once its index has been dropped and fetched.
TEST_P(MemoryBudgetTest, BlocksOutliveTheIndex) {
  if (GetParam().format != TableFormat::kBlockBased) GTEST_SKIP() << "there are no blocks";
  ASSERT_OK(db_->Close());
  db_.reset();
  cache_.reset(NewLRUCache(size_t{8} << 20));
  options_.block_cache = cache_.get();
  db_ = OpenOrDie(options_, "budget");
  Fill(1);
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  ASSERT_OK(db_->WaitForBackgroundWork());
  const auto read_all = [this] {
    for (uint64_t i = 0; i < kBudgetKeys; i += 7) (void)GetOr(db_.get(), NumberedKey(i));
  };
  read_all();
  options_.fault_injector->OnlyPurpose(Purpose::kRead);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (Count(Ticker::kMetadataLoads) == 0 && std::chrono::steady_clock::now() < until) {
    read_all();
  }
  const uint64_t loads = Count(Ticker::kMetadataLoads);
  ASSERT_GT(loads, 0u);
  const uint64_t misses = Count(Ticker::kBlockCacheMisses);
  while (Count(Ticker::kMetadataLoads) < loads + 4 && std::chrono::steady_clock::now() < until) {
    read_all();
  }
  // A table has dozens of blocks.
  EXPECT_LE(Count(Ticker::kBlockCacheMisses) - misses, 8u);
}

INSTANTIATE_TEST_SUITE_P(All, MemoryBudgetTest,
                         testing::Values(BudgetSetting{"", TableFormat::kByteAddressable},
                                         BudgetSetting{"tcp", TableFormat::kByteAddressable},
                                         BudgetSetting{"shm", TableFormat::kBlockBased}),
                         [](const auto& each) { return BudgetSettingName(each.param); });

TEST(MemoryBudgetOptionsTest, RefusesWhatLeavesNothing) {
  Options options = TinyOptions();
  options.memory_budget = options.write_buffer_size * 4 + 1;
  std::unique_ptr<DB> db;
  const Status status = DB::Open(options, "too-little", &db);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("memory_budget"));
  EXPECT_THAT(status.ToString(), HasSubstr("write_buffer_size"));
}

}  // namespace
}  // namespace dlsm
