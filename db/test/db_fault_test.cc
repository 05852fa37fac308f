// Faults of the network: what fails says so, nothing acknowledged is lost, and the database works
// again once the fault is gone.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/cache.h"
#include "db/test/test_database_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kFaultKeys = 300;

std::string FaultValue(uint64_t i, uint64_t round = 0) {
  return "value" + std::to_string(i) + "/" + std::to_string(round) + std::string(100, '.');
}

struct FaultTestShape {
  const char* name;
  const char* fabric;
  TableFormat format;
};
void PrintTo(const FaultTestShape& shape, std::ostream* out) { *out << shape.name; }

class FaultTest : public testing::TestWithParam<FaultTestShape> {
 protected:
  void SetUp() override {
    const std::string why_not = TestNode::WhyNot(GetParam().fabric);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    options_ = TinyOptions();
    options_.table_format = GetParam().format;
    options_.compaction_place = CompactionPlace::kComputeNode;
    options_.fault_injector = faults_;
    options_.operation_timeout_ms = 5000;
    // The cache would hide the faults.
    cache_.reset(NewLRUCache(0));
    options_.block_cache = cache_.get();
    node_ = NodeServing(GetParam().fabric, &options_);
    name_ = "faults " + std::string(GetParam().name);
    db_ = OpenOrDie(options_, name_);
  }
  void TearDown() override {
    faults_->Clear();
    if (!TestNode::WhyNot(GetParam().fabric).empty()) return;
    if (db_ != nullptr) {
      EXPECT_OK(db_->Close());
      db_.reset();
    }
    EXPECT_OK(DestroyDB(name_, options_));
  }

  void Fill(uint64_t round = 0) {
    for (uint64_t i = 0; i < kFaultKeys; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), FaultValue(i, round)));
    }
  }
  void ExpectAll(uint64_t round = 0) {
    for (uint64_t i = 0; i < kFaultKeys; ++i) {
      ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), FaultValue(i, round)) << i;
    }
  }

  // Fails the first, the second, ... post of `purpose` in `operation`, until it is through
  // untouched.
  void FailEachPost(Purpose purpose, FaultKind kind, const std::function<void(bool)>& operation) {
    faults_->OnlyPurpose(purpose);
    uint64_t n = 1;
    for (;; ++n) {
      SCOPED_TRACE(testing::Message() << "post " << n);
      ASSERT_LT(n, 2000u);
      const uint64_t before = faults_->CountFaults();
      faults_->FailNth(n, kind);
      operation(false);
      const bool touched = faults_->CountFaults() != before;
      faults_->Clear();
      if (testing::Test::HasFailure()) return;
      operation(true);
      if (!touched) break;
    }
    ASSERT_GT(n, 1u) << "nothing was posted";
  }

  void Reopen() {
    ASSERT_OK(db_->Close());
    db_ = OpenOrDie(options_, name_);
  }

  std::shared_ptr<FaultInjector> faults_ = std::make_shared<FaultInjector>();
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<TestNode> node_;
  Options options_;
  std::string name_;
  std::unique_ptr<DB> db_;
};

const FaultKind kKinds[] = {FaultKind::kFail, FaultKind::kDisconnect};

// Fails if a Get that cannot reach its table says anything but an error or the truth, or if the
// next one suffers from it.
TEST_P(FaultTest, Get) {
  Fill();
  ASSERT_OK(db_->Flush(FlushOptions()));
  for (const FaultKind kind : kKinds) {
    FailEachPost(Purpose::kRead, kind, [this](bool healed) {
      std::string value;
      const Status status = db_->Get(ReadOptions(), NumberedKey(17), &value);
      if (healed || status.ok()) {
        ASSERT_OK(status);
        ASSERT_EQ(value, FaultValue(17));
      } else {
        ASSERT_FALSE(status.IsNotFound()) << "a key that is there is not absent";
        ASSERT_FALSE(status.ToString().empty());
      }
    });
  }
}

// The same for keys that are fetched together, with several doorbells.
TEST_P(FaultTest, MultiGet) {
  Fill();
  ASSERT_OK(db_->Flush(FlushOptions()));
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kFaultKeys; i += 6) keys.push_back(NumberedKey(i));
  for (const FaultKind kind : kKinds) {
    FailEachPost(Purpose::kRead, kind, [&](bool healed) {
      std::vector<std::string> values;
      const auto statuses = db_->MultiGet(ReadOptions(), {keys.begin(), keys.end()}, &values);
      for (size_t i = 0; i < keys.size(); ++i) {
        if (healed || statuses[i].ok()) {
          ASSERT_OK(statuses[i]);
          ASSERT_EQ(values[i], FaultValue(6 * i));
        } else {
          ASSERT_FALSE(statuses[i].IsNotFound());
        }
      }
    });
  }
}

// Fails if a scan that is cut off looks like one that has come to the end.
TEST_P(FaultTest, Iterator) {
  Fill();
  ASSERT_OK(db_->Flush(FlushOptions()));
  for (const bool forward : {true, false}) {
    FailEachPost(Purpose::kRead, FaultKind::kFail, [&](bool healed) {
      const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
      uint64_t seen = 0;
      forward ? iterator->SeekToFirst() : iterator->SeekToLast();
      while (iterator->Valid()) {
        const uint64_t i = forward ? seen : kFaultKeys - 1 - seen;
        ASSERT_EQ(iterator->key().ToString(), NumberedKey(i));
        ASSERT_EQ(iterator->value().ToString(), FaultValue(i));
        ++seen;
        forward ? iterator->Next() : iterator->Prev();
      }
      if (healed || iterator->status().ok()) {
        ASSERT_OK(iterator->status());
        ASSERT_EQ(seen, kFaultKeys);
      }
    });
  }
}

// Fails if an iterator reports the error of an earlier move: where all lies in one run, nothing is
// between it and the tables of that run.
TEST_P(FaultTest, AnIteratorForgetsItsErrors) {
  ASSERT_OK(db_->Close());
  ASSERT_OK(DestroyDB(name_, options_));
  options_.compaction_style = CompactionStyle::kLeveled;  // No guards: a run is all there is.
  db_ = OpenOrDie(options_, name_);
  const std::string value(2000, 'v');
  for (uint64_t i = 0; i < kFaultKeys; ++i) {
    ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), value));
  }
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  FailEachPost(Purpose::kRead, FaultKind::kFail, [&](bool healed) {
    iterator->Seek(NumberedKey(100));
    if (healed) {
      ASSERT_OK(iterator->status());
    }
    iterator->SeekToLast();
    if (!healed) return;
    ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
    ASSERT_EQ(iterator->key().ToString(), NumberedKey(kFaultKeys - 1));
    iterator->Prev();
    ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
    ASSERT_OK(iterator->status());
  });
}

// Fails if a flush that fails loses its memtable, is not tried again, or leaves the database stuck.
TEST_P(FaultTest, Flush) {
  for (const FaultKind kind : {FaultKind::kFail, FaultKind::kHalfWrite, FaultKind::kDisconnect}) {
    uint64_t round = 0;
    FailEachPost(Purpose::kFlush, kind, [this, &round](bool healed) {
      if (!healed) Fill(++round);
      ASSERT_OK(db_->Flush(FlushOptions()));
      ExpectAll(round);
    });
    if (HasFailure()) return;
  }
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, name_);
  EXPECT_EQ(GetOr(db_.get(), NumberedKey(3)).substr(0, 6), "value3");
}

// Fails if a merge that fails loses a table, or is never done.
TEST_P(FaultTest, Merge) {
  for (const FaultKind kind : kKinds) {
    uint64_t round = 0;
    FailEachPost(Purpose::kCompaction, kind, [this, &round](bool healed) {
      if (!healed) {
        Fill(++round);
        ASSERT_OK(db_->Flush(FlushOptions()));
        Fill(++round);
      }
      const Status merged = db_->CompactRange(nullptr, nullptr);
      ASSERT_TRUE(merged.ok() || (!healed && merged.IsIOError())) << merged.ToString();
      ASSERT_OK(db_->WaitForBackgroundWork());
      ExpectAll(round);
    });
  }
}

// Fails if waiting for background work waits for ever after a compaction that was asked for failed:
// nothing is due then, so nothing would ever succeed; or if who asked for it is not told.
TEST_P(FaultTest, AFailedCompactRangeIsToldAndNotWaitedFor) {
  options_.level0_file_num_compaction_trigger = 7;
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, name_);
  Fill(1);
  ASSERT_OK(db_->Flush(FlushOptions()));
  Fill(2);
  ASSERT_OK(db_->Flush(FlushOptions()));
  faults_->OnlyPurpose(Purpose::kCompaction);
  faults_->SetProbability(FaultKind::kFail, 1);
  const Status failed = db_->CompactRange(nullptr, nullptr);
  EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
  EXPECT_NE(failed.ToString().find("injected fault"), std::string::npos) << failed.ToString();
  const auto start = Clock::now();
  EXPECT_OK(db_->WaitForBackgroundWork());
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  ExpectAll(2);
}

// Fails if who waits is told of a merge that nobody has asked for, or if that is not tried again.
TEST_P(FaultTest, WhatNobodyHasAskedForMayFail) {
  options_.level0_file_num_compaction_trigger = 7;
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, name_);
  faults_->OnlyPurpose(Purpose::kCompaction);
  faults_->SetProbability(FaultKind::kFail, 1);
  for (uint64_t round = 1; round <= 3; ++round) {
    Fill(round);
    ASSERT_OK(db_->Flush(FlushOptions()));
  }
  const uint64_t before = faults_->CountFaults();
  EXPECT_OK(db_->WaitForBackgroundWork());
  EXPECT_GT(faults_->CountFaults(), before) << "none was tried";
  EXPECT_EQ(db_->GetStatistics()->Get(Ticker::kRetries), 0u);
  faults_->Clear();
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (db_->GetStatistics()->Get(Ticker::kMergesWhileIdle) == 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GT(db_->GetStatistics()->Get(Ticker::kMergesWhileIdle), 0u);
  ExpectAll(3);
}

// Fails if merges that cannot be done keep memtables from being flushed, so that Close loses them.
TEST_P(FaultTest, CloseFlushesThoughMergesFail) {
  faults_->OnlyPurpose(Purpose::kCompaction);
  faults_->SetProbability(FaultKind::kFail, 1);
  for (uint64_t round = 1; round <= 4; ++round) {
    Fill(round);
    ASSERT_OK(db_->Flush(FlushOptions()));
  }
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (db_->GetStatistics()->Get(Ticker::kRetries) < 4 && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(db_->WaitForBackgroundWork().ok()) << "merges are due and fail";
  Fill(5);
  EXPECT_OK(db_->Flush(FlushOptions()));
  Fill(6);
  EXPECT_OK(db_->Close());
  faults_->Clear();
  db_ = OpenOrDie(options_, name_);
  ExpectAll(6);
}

// Fails if flushes that failed some time ago are given as a reason not to try: Close would lose
// everything though the network is well again.
TEST_P(FaultTest, CloseTriesAgainOnceTheFaultIsGone) {
  faults_->OnlyPurpose(Purpose::kFlush);
  faults_->SetProbability(FaultKind::kFail, 1);
  Fill(1);
  EXPECT_FALSE(db_->Flush(FlushOptions()).ok());
  ExpectAll(1);
  faults_->Clear();
  EXPECT_OK(db_->Close());
  db_ = OpenOrDie(options_, name_);
  ExpectAll(1);
}

// Fails if a flipped bit in what was read is returned as a value.
TEST_P(FaultTest, DamagedBytesAreNoValues) {
  Fill();
  ASSERT_OK(db_->Flush(FlushOptions()));
  faults_->OnlyPurpose(Purpose::kRead);
  faults_->SetProbability(FaultKind::kCorrupt, 1);
  ReadOptions verify;
  verify.verify_checksums = true;
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kFaultKeys; ++i) {
    std::string value;
    const Status status = db_->Get(verify, NumberedKey(i), &value);
    EXPECT_TRUE(status.IsCorruption()) << status.ToString();
    keys.push_back(NumberedKey(i));
    db_->Get(ReadOptions(), NumberedKey(i), &value)
        .PermitUncheckedError();  // Anything but a crash.
  }
  std::vector<std::string> values;
  for (const Status& status : db_->MultiGet(verify, {keys.begin(), keys.end()}, &values)) {
    EXPECT_FALSE(status.IsNotFound());
  }
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(verify));
  iterator->SeekToFirst();
  uint64_t seen = 0;
  for (; iterator->Valid(); iterator->Next())
    ASSERT_EQ(iterator->value().ToString(), FaultValue(seen++));
  EXPECT_TRUE(iterator->status().IsCorruption()) << iterator->status().ToString();
  faults_->Clear();
  ExpectAll();
}

// Fails if a merge copies damaged records as if they were good.
TEST_P(FaultTest, MergesRefuseDamagedBytes) {
  Fill(1);
  ASSERT_OK(db_->Flush(FlushOptions()));
  faults_->OnlyPurpose(Purpose::kCompaction);
  faults_->SetProbability(FaultKind::kCorrupt, 1);
  Fill(2);
  EXPECT_FALSE(db_->CompactRange(nullptr, nullptr).ok());
  faults_->Clear();
  ASSERT_OK(db_->WaitForBackgroundWork());
  ExpectAll(2);
}

// Fails if a merge of bytes that pass for records, but are not those written, leaves tables in an
// order that no database can be opened with.
TEST_P(FaultTest, MergesOfAnythingKeepTablesInOrder) {
  for (uint64_t round = 1; round <= 40; ++round) {
    Fill(round);
    ASSERT_OK(db_->Flush(FlushOptions()));
    faults_->OnlyPurpose(Purpose::kCompaction);
    faults_->SetProbability(FaultKind::kMangle, round % 2 == 0 ? 0.05 : 0.5);
    db_->CompactRange(nullptr, nullptr).PermitUncheckedError();  // It may not have noticed.
    faults_->Clear();
    if (round % 10 != 0) continue;
    ASSERT_OK(db_->Close());
    db_ = OpenOrDie(options_, name_);
  }
}

// Fails if a lost request is waited for longer than one operation may take.
TEST_P(FaultTest, LostRequestsTimeOut) {
  options_.operation_timeout_ms = 300;
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, name_);
  Fill();
  ASSERT_OK(db_->Flush(FlushOptions()));
  faults_->OnlyPurpose(Purpose::kRead);
  faults_->FailNth(1, FaultKind::kDrop);
  const auto start = Clock::now();
  std::string value;
  const Status status = db_->Get(ReadOptions(), NumberedKey(1), &value);
  EXPECT_TRUE(status.IsTimedOut()) << status.ToString();
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(300));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  ExpectAll();
}

// Faults of all kinds at random while everything goes on. Fails if anything acknowledged is lost.
TEST_P(FaultTest, NothingAcknowledgedIsLostInAStorm) {
  faults_->OnlyPurpose(std::nullopt);
  faults_->SetProbability(FaultKind::kFail, 0.02);
  faults_->SetProbability(FaultKind::kHalfWrite, 0.01);
  faults_->SetProbability(FaultKind::kDisconnect, 0.01);
  std::vector<uint64_t> rounds(kFaultKeys, 0);
  for (uint64_t round = 1; round <= 30; ++round) {
    for (uint64_t i = 0; i < kFaultKeys; ++i) {
      if (db_->Put(WriteOptions(), NumberedKey(i), FaultValue(i, round)).ok()) rounds[i] = round;
    }
    std::string value;
    const Status status = db_->Get(ReadOptions(), NumberedKey(round), &value);
    EXPECT_FALSE(status.IsNotFound());
    if (status.ok()) {
      EXPECT_EQ(value, FaultValue(round, round));
    }
    if (round % 10 == 0) db_->CompactRange(nullptr, nullptr).PermitUncheckedError();
  }
  faults_->Clear();
  ASSERT_OK(db_->Close());
  db_ = OpenOrDie(options_, name_);
  for (uint64_t i = 0; i < kFaultKeys; ++i) {
    ASSERT_EQ(GetOr(db_.get(), NumberedKey(i)), FaultValue(i, rounds[i]));
  }
}

// Fails if a block that was damaged on its way is kept in the cache: who asks for verification
// would be given it, and merges on the compute node would write it again as if it were right.
TEST_P(FaultTest, WhatWasDamagedOnItsWayIsNotKept) {
  cache_.reset(NewLRUCache(size_t{8} << 20));
  options_.block_cache = cache_.get();
  Reopen();
  Fill();
  ASSERT_OK(db_->Flush(FlushOptions()));
  faults_->OnlyPurpose(Purpose::kRead);
  faults_->SetProbability(FaultKind::kCorrupt, 1);
  const uint64_t before = faults_->CountFaults();
  const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
  for (uint64_t i = 0; i < kFaultKeys; ++i) {
    std::string value;
    db_->Get(ReadOptions(), NumberedKey(i), &value).PermitUncheckedError();
    iterator->Seek(NumberedKey(i));
    iterator->status().PermitUncheckedError();
  }
  ASSERT_GT(faults_->CountFaults(), before);
  faults_->Clear();
  ReadOptions verified;
  verified.verify_checksums = true;
  for (uint64_t i = 0; i < kFaultKeys; ++i) {
    ASSERT_EQ(GetOr(db_.get(), NumberedKey(i), verified), FaultValue(i, 0)) << i;
    iterator->Seek(NumberedKey(i));
    ASSERT_TRUE(iterator->Valid()) << i << ": " << iterator->status().ToString();
    ASSERT_EQ(iterator->value().ToString(), FaultValue(i, 0)) << i;
  }
  ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  Reopen();
  ExpectAll();
}

std::string FaultShapeName(const testing::TestParamInfo<FaultTestShape>& shape) {
  return shape.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    EveryShape, FaultTest,
    testing::Values(FaultTestShape{"Embedded", "", TableFormat::kByteAddressable},
                    FaultTestShape{"EmbeddedBlocks", "", TableFormat::kBlockBased},
                    FaultTestShape{"Shm", "shm", TableFormat::kByteAddressable},
                    FaultTestShape{"Tcp", "tcp", TableFormat::kByteAddressable},
                    FaultTestShape{"Verbs", "verbs", TableFormat::kByteAddressable}),
    FaultShapeName);

}  // namespace
}  // namespace dlsm
