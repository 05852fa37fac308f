// What an application sees when the host of its memory node, or the network to it, fails in the
// middle of its work: databases over RDMA between two machines. Run by
// script/softroce/two-hosts-test; skipped where there is no other host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/test/test_database_testing.h"
#include "db/test/two_hosts_testing.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// Shorter than the fabric tries again for (2.1 s by default).
constexpr milliseconds kShortCut{1000};
// Longer than that and than an operation, shorter than the lease (10 s).
constexpr milliseconds kLongCut{4500};
// Longer than the fabric tries again for.
constexpr milliseconds kLateMax{4000};
// Longer than lease and grace.
constexpr milliseconds kCutBeyondTheLease{13'000};
// Until the network is whole, TCP waits up to twice as long as it was broken.
constexpr seconds kRecoveryMax{30};

class TwoHostsTest : public testing::TestWithParam<Load> {
 protected:
  void SetUp() override {
    const std::string why_not = OtherHost::WhyNot();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    host_.Order("start");
    options_.create_if_missing = true;
    options_.memory_nodes = OtherHost::Address();
    options_.fabric = "verbs";
    options_.rpc_transport = TransportOf(GetParam());
    options_.open_timeout_ms = 20'000;
    options_.operation_timeout_ms = 4000;
    options_.write_stall_timeout_ms = 4000;
    options_.write_buffer_size = size_t{1} << 20;
    options_.max_file_size = size_t{1} << 20;
    // Merges come when the tests ask for them.
    options_.level0_file_num_compaction_trigger = 1000;
    options_.level0_stop_writes_trigger = 2000;
    if (GetParam() == Load::kMergeHere) {
      options_.compaction_place = CompactionPlace::kComputeNode;
    }
    ASSERT_NO_FATAL_FAILURE(OpenNew());
    busy_ = std::make_unique<BusyThreads>(GetParam(), db_.get(), model_.get(), &times_);
    busy_->AwaitMiddle();
  }

  void TearDown() override {
    if (!OtherHost::WhyNot().empty()) return;
    busy_.reset();
    link_.Heal();
    if (db_ != nullptr) EndWithoutLeaks();
  }

  // Each transport of calls sees each fault.
  static const char* TransportOf(Load load) {
    switch (load) {
      case Load::kRead:
        return "ring";
      case Load::kMergeThere:
        return "verbs";
      default:
        return "tcp";
    }
  }

  // A new database with all keys, flushed.
  void OpenNew() {
    ASSERT_OK(DB::Open(options_, "db", &db_));
    model_ = std::make_unique<AcknowledgedModel>();
    for (uint32_t number = 0; number < AcknowledgedModel::kKeys; ++number) {
      Status status = model_->Put(db_.get(), number);
      // A machine with much else to do may flush more slowly than writers wait.
      for (int i = 0; i < 10 && status.IsBusy(); ++i) status = model_->Put(db_.get(), number);
      ASSERT_OK(status);
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
    model_->NoteFlushed();
  }

  // Tries each kind of call once, or until it fails.
  void TryEverything() {
    DB& db = *db_;
    // First, when this thread has no queue pair yet: it must not wait for one at each table.
    (void)times_.Time("Iterator", CallTimes::kPointCallMax, [&] {
      const std::unique_ptr<Iterator> iterator(db.NewIterator(ReadOptions()));
      iterator->SeekToFirst();
      while (iterator->Valid()) iterator->Next();
      return iterator->status();
    });
    (void)times_.Time("Get", CallTimes::kPointCallMax, [&] { return model_->Get(&db, 17); });
    (void)times_.Time("MultiGet", CallTimes::kPointCallMax, [&] {
      std::vector<std::string> keys, values;
      for (uint32_t i = 0; i < 64; ++i) keys.push_back(AcknowledgedModel::Key(300 * i));
      const std::vector<Slice> slices(keys.begin(), keys.end());
      Status first;
      for (const Status& status : db.MultiGet(ReadOptions(), slices, &values)) {
        EXPECT_FALSE(status.IsNotFound());
        if (first.ok()) first = status;
      }
      return first;
    });
    (void)times_.Time("Put", CallTimes::kPointCallMax, [&] { return model_->Put(&db, 17); });
    (void)times_.Time("Flush", CallTimes::kLongCallMax, [&] { return db.Flush(FlushOptions()); });
    (void)times_.Time("CompactRange", CallTimes::kLongCallMax,
                      [&] { return db.CompactRange(nullptr, nullptr); });
    (void)times_.Time("WaitForBackgroundWork", CallTimes::kLongCallMax,
                      [&] { return db.WaitForBackgroundWork(); });
    (void)times_.Time("GetProperty", CallTimes::kPointCallMax, [&] {
      std::string value;
      EXPECT_TRUE(db.GetProperty("dlsm.memory-node", &value));
      return Status::OK();
    });
  }

  Status Close() {
    busy_.reset();
    Status status = times_.Time("Close", CallTimes::kLongCallMax, [&] { return db_->Close(); });
    db_.reset();
    return status;
  }

  // Both ends' queue pairs must be gone after a database has been closed.
  void EndWithoutLeaks() {
    EXPECT_OK(Close());
    EXPECT_EQ(Link::QueuePairs(), 0);
    const auto give_up = Clock::now() + kRecoveryMax;
    int left = host_.QueuePairs();
    while (left > 0 && Clock::now() < give_up) left = host_.QueuePairs();
    EXPECT_EQ(left, 0) << "the memory node keeps queue pairs of a client that is gone";
    Report("end");
  }

  // What was seen since the last time.
  void Report(const std::string& what) {
    times_.ExpectHelpfulErrors();
    times_.Print(std::string(LoadName(GetParam())) + ", " + what);
    times_.Clear();
  }

  // Until a call of the threads has failed, or so long.
  void AwaitErrors(milliseconds most) {
    const auto start = Clock::now();
    while (times_.errors() == 0 && Clock::now() - start < most) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    if (times_.errors() > 0) std::printf("first error after %lld ms\n", MillisecondsSince(start));
  }

  // Whether the handle works again before long; false if it must be opened again.
  bool Recovers() {
    const auto start = Clock::now();
    Status status;
    do {
      status = model_->Get(db_.get(), 4711);
      if (status.ok()) status = db_->Flush(FlushOptions());
      if (status.ok()) {
        std::printf("works again after %lld ms\n", MillisecondsSince(start));
        return true;
      }
      if (status.ToString().find("open the database again") != std::string::npos) break;
      std::this_thread::sleep_for(milliseconds(50));
    } while (Clock::now() - start < kRecoveryMax);
    std::printf("must be opened again, after %lld ms: %s\n", MillisecondsSince(start),
                status.ToString().c_str());
    EXPECT_THAT(status.ToString(), HasSubstr("open the database again"));
    return false;
  }

  static long long MillisecondsSince(Clock::time_point start) {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - start).count();
  }

  // The memory is lost, and with it the database: a new one must work.
  void StartAnew() {
    OpenNew();
    model_->ExpectAll(db_.get());
  }

  // What was flushed before the handle was lost is there.
  void OpenAgain() {
    Close().PermitUncheckedError();
    model_->ForgetUnflushed();
    ASSERT_OK(DB::Open(options_, "db", &db_));
    model_->ExpectAll(db_.get());
  }

  OtherHost host_;
  Link link_;
  Options options_;
  CallTimes times_;
  std::unique_ptr<AcknowledgedModel> model_;
  std::unique_ptr<DB> db_;
  std::unique_ptr<BusyThreads> busy_;
};

// For what one or two loads are enough for.
class TwoHostsWritesTest : public TwoHostsTest {};
class TwoHostsLeaseTest : public TwoHostsTest {};
class TwoHostsStaleTest : public TwoHostsTest {};

// Fails if a call hangs, claims success for what cannot be, or does not say what has happened, when
// the Server is killed and stays dead.
TEST_P(TwoHostsTest, TheServerIsKilled) {
  host_.Order("kill");
  AwaitErrors(kRecoveryMax);
  TryEverything();
  Close().PermitUncheckedError();
  EXPECT_EQ(Link::QueuePairs(), 0);
  Options impatient = options_;
  impatient.open_timeout_ms = 2000;
  const Status opened = times_.Time("Open", CallTimes::kPointCallMax,
                                    [&] { return DB::Open(impatient, "db", &db_); });
  EXPECT_FALSE(opened.ok());
  Report("server killed");
  host_.Order("start");
  StartAnew();
}

// Fails if memory of a Server that was started again is taken for that which has been lost.
TEST_P(TwoHostsTest, TheServerIsKilledAndStartedAgain) {
  host_.Order("restart");
  AwaitErrors(kRecoveryMax);
  TryEverything();
  EXPECT_FALSE(Recovers());
  Close().PermitUncheckedError();
  Report("server started again");
  StartAnew();
}

// Fails if packets that are lost for less than the fabric tries again are more than a delay.
TEST_P(TwoHostsTest, ShortSilence) {
  link_.Silence();
  std::this_thread::sleep_for(kShortCut);
  link_.Heal();
  std::this_thread::sleep_for(2 * kShortCut);
  EXPECT_EQ(times_.errors(), 0u);
  busy_->Stop();
  EXPECT_OK(db_->Flush(FlushOptions()));
  Report("1 s of silence");
  model_->ExpectAll(db_.get());
}

// Fails if a network that fails for longer leaves more behind than errors: the handle must work
// again, and all that was acknowledged be there.
TEST_P(TwoHostsTest, LongCut) {
  if (GetParam() == Load::kRead || GetParam() == Load::kMergeHere) {
    link_.Down();
  } else {
    link_.Silence();
  }
  const auto start = Clock::now();
  AwaitErrors(kLongCut);
  std::this_thread::sleep_for(kLongCut - (Clock::now() - start));
  link_.Heal();
  const bool recovered = Recovers();
  busy_->Stop();
  Report("4.5 s cut");
  if (!recovered) return OpenAgain();
  model_->ExpectAll(db_.get());
  EXPECT_OK(Close());
  ASSERT_OK(DB::Open(options_, "db", &db_));
  model_->ExpectAll(db_.get());
}

// Fails if a packet of a queue pair that has been given up lands on top of what a later one has
// written, or in a buffer that is used again: what this host sends arrives late and in any order,
// so queue pairs fail while much of what they sent is still on its way.
TEST_P(TwoHostsWritesTest, LatePackets) {
  link_.DelayUpTo(kLateMax);
  std::this_thread::sleep_for(kLongCut);
  link_.Heal();
  const bool recovered = Recovers();
  busy_->Stop();
  Report("packets up to 4 s late");
  if (!recovered) return OpenAgain();
  model_->ExpectAll(db_.get());
}

// Fails if a handle whose lease ran out meanwhile goes on, or if what it had flushed is lost.
TEST_P(TwoHostsLeaseTest, CutBeyondTheLease) {
  link_.Silence();
  const auto start = Clock::now();
  TryEverything();
  Report("in the cut");
  std::this_thread::sleep_for(kCutBeyondTheLease - (Clock::now() - start));
  link_.Heal();
  EXPECT_FALSE(Recovers());
  busy_->Stop();
  Report("13 s cut");
  OpenAgain();
}

// Fails if a handle whose session has ended, and that has not noticed yet, takes what the next
// handle has written in the place of its tables for its own.
TEST_P(TwoHostsStaleTest, ALostHandleReadsNoGarbage) {
  link_.Silence();
  std::this_thread::sleep_for(kCutBeyondTheLease);
  link_.Heal();
  busy_->Stop();
  std::unique_ptr<DB> next;
  ASSERT_OK(DB::Open(options_, "db", &next));
  for (int round = 0; round < 2; ++round) {
    for (uint32_t number = 0; number < AcknowledgedModel::kKeys; ++number) {
      ASSERT_OK(next->Put(WriteOptions(), AcknowledgedModel::Key(number), std::string(407, 'n')));
    }
    ASSERT_OK(next->CompactRange(nullptr, nullptr));
    ASSERT_OK(next->WaitForBackgroundWork());
  }
  uint64_t read = 0;
  for (uint32_t number = 0; number < AcknowledgedModel::kKeys && !HasFailure(); ++number) {
    if (model_->Get(db_.get(), number).ok()) ++read;
  }
  std::printf("the old handle has read %llu values\n", static_cast<unsigned long long>(read));
  Close().PermitUncheckedError();
  db_ = std::move(next);
}

std::string NameOfLoad(const testing::TestParamInfo<Load>& load) { return LoadName(load.param); }

INSTANTIATE_TEST_SUITE_P(UnderLoad, TwoHostsTest,
                         testing::Values(Load::kFill, Load::kRead, Load::kMergeThere,
                                         Load::kMergeHere),
                         NameOfLoad);
INSTANTIATE_TEST_SUITE_P(UnderLoad, TwoHostsWritesTest,
                         testing::Values(Load::kFill, Load::kMergeHere), NameOfLoad);
INSTANTIATE_TEST_SUITE_P(UnderLoad, TwoHostsLeaseTest, testing::Values(Load::kFill), NameOfLoad);

INSTANTIATE_TEST_SUITE_P(UnderLoad, TwoHostsStaleTest, testing::Values(Load::kRead), NameOfLoad);

}  // namespace
}  // namespace dlsm
