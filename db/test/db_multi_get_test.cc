// Keys that are looked for together: the answers of single gets, in as many round trips as one key
// takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/filter_policy.h"
#include "dLSM/get_pipeline.h"
#include "dLSM/pinnable_slice.h"
#include "db/test/test_database_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/random.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kMultiGetKeys = 4000;
constexpr char kMultiGetName[] = "multi get";

struct Answers {
  std::vector<Status> statuses;
  std::vector<std::string> values;
};

Answers GetAll(DB* db, const std::vector<std::string>& keys) {
  Answers answers;
  answers.statuses =
      db->MultiGet(ReadOptions(), std::vector<Slice>(keys.begin(), keys.end()), &answers.values);
  return answers;
}

std::vector<Status> PinAll(DB* db, const std::vector<std::string>& keys,
                           std::vector<PinnableSlice>* values) {
  std::vector<Status> statuses(keys.size());
  values->resize(keys.size());
  const std::vector<Slice> slices(keys.begin(), keys.end());
  db->MultiGet(ReadOptions(), keys.size(), slices.data(), values->data(), statuses.data());
  return statuses;
}

struct MultiGetShape {
  const char* fabric;  // "": the embedded memory node.
  uint64_t rtt_ns = 0;
};

std::string MultiGetShapeName(const MultiGetShape& shape) {
  if (shape.rtt_ns > 0) return "Simulated";
  return shape.fabric[0] == '\0' ? "Embedded" : shape.fabric;
}
void PrintTo(const MultiGetShape& shape, std::ostream* out) { *out << MultiGetShapeName(shape); }

class MultiGetTest : public testing::TestWithParam<MultiGetShape> {
 protected:
  void SetUp() override {
    options_ = TinyOptions();
    options_.simulated_rtt_ns = GetParam().rtt_ns;
    if (GetParam().fabric[0] != '\0') {
      node_ = std::make_unique<TestNode>(GetParam().fabric);
      options_ = node_->With(options_, GetParam().fabric);
    }
    db_ = OpenOrDie(options_, kMultiGetName);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kMultiGetName); }

  // Two thirds of the keys, some of them overwritten or deleted, in runs that overlap and in the
  // memtable.
  void Fill() {
    for (int round = 0; round < 4; ++round) {
      for (uint64_t i = 0; i < kMultiGetKeys; ++i) {
        if (i % 3 == 0 || (round > 0 && !random_.OneIn(4))) continue;
        const std::string key = NumberedKey(i);
        if (round > 0 && random_.OneIn(10)) {
          ASSERT_OK(db_->Delete(WriteOptions(), key));
          model_.erase(key);
        } else {
          model_[key] = NumberedValue(i + 10 * static_cast<uint64_t>(round), 300);
          ASSERT_OK(db_->Put(WriteOptions(), key, model_[key]));
        }
      }
      if (round < 3) {
        ASSERT_OK(db_->Flush(FlushOptions()));
      }
    }
  }

  Options options_;
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<DB> db_;
  std::map<std::string, std::string> model_;
  Random random_{301};
};

// Fails if a key gets another one's answer, wherever it lies: in a memtable, in place, in the first
// or last bytes of what came with any of several doorbells.
TEST_P(MultiGetTest, AnswersAsSingleGets) {
  Fill();
  for (const size_t count : {1, 2, 15, 16, 17, 31, 33, 64, 100, 400, 1000}) {
    for (int round = 0; round < 10; ++round) {
      std::vector<std::string> keys(count);
      for (std::string& key : keys) key = NumberedKey(random_.Uniform(kMultiGetKeys));
      if (count > 1) keys[random_.Uniform(count)] = keys[0];  // The same one twice.
      const Answers answers = GetAll(db_.get(), keys);
      ASSERT_EQ(answers.statuses.size(), count);
      std::vector<PinnableSlice> pinned;
      const std::vector<Status> of_pinned = PinAll(db_.get(), keys, &pinned);
      for (size_t i = 0; i < count; ++i) {
        SCOPED_TRACE(testing::Message() << keys[i] << ", " << i << " of " << count);
        const auto found = model_.find(keys[i]);
        if (found == model_.end()) {
          ASSERT_TRUE(answers.statuses[i].IsNotFound()) << answers.statuses[i].ToString();
          ASSERT_TRUE(of_pinned[i].IsNotFound()) << of_pinned[i].ToString();
          ASSERT_TRUE(pinned[i].empty() && !pinned[i].IsPinned());
        } else {
          ASSERT_OK(answers.statuses[i]);
          ASSERT_EQ(answers.values[i], found->second);
          ASSERT_OK(of_pinned[i]);
          ASSERT_EQ(pinned[i].ToString(), found->second);
        }
      }
    }
  }
}

// Fails if a value is copied that lies where it can be pinned, or if what is pinned is freed, and
// so written over, while it is.
TEST_P(MultiGetTest, PinnedValuesStayWhatTheyWere) {
  Fill();
  std::vector<std::string> keys;
  for (const auto& [key, value] : model_) {
    if (random_.OneIn(10)) keys.push_back(key);
  }
  std::vector<PinnableSlice> pinned;
  for (const Status& status : PinAll(db_.get(), keys, &pinned)) ASSERT_OK(status);
  const auto in_place = std::ranges::count_if(pinned, &PinnableSlice::IsPinned);
  const bool mapped = GetParam().rtt_ns == 0 && std::string_view(GetParam().fabric) != "tcp";
  EXPECT_EQ(in_place == std::ssize(keys), mapped) << in_place << " of " << keys.size();
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kMultiGetKeys; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), NumberedKey(i), std::string(300, '!')));
    }
    ASSERT_OK(db_->Flush(FlushOptions()));
    ASSERT_OK(db_->CompactRange(nullptr, nullptr));
  }
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(pinned[i].ToString(), model_[keys[i]]);
}

INSTANTIATE_TEST_SUITE_P(EveryFabric, MultiGetTest,
                         testing::Values(MultiGetShape{""}, MultiGetShape{"", 2000},
                                         MultiGetShape{"shm"}, MultiGetShape{"tcp"}),
                         [](const auto& shape) { return MultiGetShapeName(shape.param); });

// Every key in tables of one run.
void PutAllAndCompact(DB* db) {
  for (uint64_t i = 0; i < kMultiGetKeys; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 300)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
}

// The options of a database that has been made so and closed; each of the nodes has some tables.
Options FillAcross(TestNodes* nodes) {
  Options options = TinyOptions();
  options.placement = TablePlacement::kPowerOfD;
  options.write_buffer_size = size_t{256} << 10;
  std::unique_ptr<DB> db = OpenOrDie(nodes->With(options), kMultiGetName);
  PutAllAndCompact(db.get());
  EXPECT_OK(db->Close());
  for (size_t node = 0; node < nodes->size(); ++node) EXPECT_GT((*nodes)[node].used_bytes(), 0u);
  return options;
}

// Fails if a memory node hears of its keys only when another has answered, or of some of its keys
// only when others have arrived.
TEST(MultiGetRoundTripsTest, AllOverlap) {
  constexpr milliseconds kRoundTrip{200};
  for (const size_t count : {1, 3}) {
    SCOPED_TRACE(testing::Message() << count << " memory nodes");
    TestNodes nodes(count, "shm");
    Options far_away = FillAcross(&nodes);
    ASSERT_FALSE(HasFailure());
    far_away.simulated_rtt_ns = static_cast<uint64_t>(std::chrono::nanoseconds(kRoundTrip).count());
    std::unique_ptr<DB> db = OpenOrDie(nodes.With(far_away), kMultiGetName);
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < kMultiGetKeys; i += 20) keys.push_back(NumberedKey(i));
    // The first time, queue pairs are made. The best of several: others use this machine, too.
    std::chrono::nanoseconds best = std::chrono::hours(1);
    for (int round = 0; round < 4; ++round) {
      const auto start = std::chrono::steady_clock::now();
      const Answers answers = GetAll(db.get(), keys);
      const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
      EXPECT_GE(took, kRoundTrip);
      best = std::min(best, took);
      for (size_t i = 0; i < keys.size(); ++i) {
        ASSERT_OK(answers.statuses[i]);
        ASSERT_EQ(answers.values[i], NumberedValue(20 * i, 300));
      }
    }
    EXPECT_LT(best, 2 * kRoundTrip);
    CloseAndDestroy(&db, nodes.With(far_away), kMultiGetName);
  }
}

// How often reads have been handed to a memory node.
uint64_t ReadDoorbells(DB* db) {
  std::string text;
  EXPECT_TRUE(db->GetProperty("dlsm.wire", &text));
  std::istringstream lines(text);
  std::string purpose;
  uint64_t round_trips = 0, work_requests = 0, doorbells = 0;
  for (std::string rest; lines >> purpose >> round_trips >> work_requests >> doorbells;) {
    if (purpose == PurposeName(Purpose::kRead)) return doorbells;
    std::getline(lines, rest);
  }
  ADD_FAILURE() << "no reads in " << text;
  return 0;
}

// Fails if the first records are not under way while further keys are looked for, or if each record
// has a doorbell of its own.
TEST(MultiGetDoorbellsTest, AsManyAsAreWorthIt) {
  Options options = TinyOptions();
  options.simulated_rtt_ns = 2000;
  std::unique_ptr<DB> db = OpenOrDie(options, kMultiGetName);
  ASSERT_NO_FATAL_FAILURE(PutAllAndCompact(db.get()));
  // In the simulation 16 reads are worth a doorbell.
  for (const auto& [count, doorbells] :
       {std::pair<uint64_t, uint64_t>{1, 1}, {16, 1}, {17, 2}, {64, 4}, {100, 7}}) {
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < count; ++i) keys.push_back(NumberedKey(i * (kMultiGetKeys / count)));
    GetAll(db.get(), keys);  // Loads what indexes are missing.
    const uint64_t before = ReadDoorbells(db.get());
    for (const Status& status : GetAll(db.get(), keys).statuses) ASSERT_OK(status);
    EXPECT_EQ(ReadDoorbells(db.get()) - before, doorbells) << count << " keys";
  }
  CloseAndDestroy(&db, options, kMultiGetName);
}

// A filter in the user's own hands that knows every key.
class ExactFilter final : public FilterPolicy {
 public:
  const char* Name() const override { return "test.exact"; }
  void CreateFilter(const Slice* keys, int n, std::string* filter) const override {
    for (int i = 0; i < n; ++i) filter->append(keys[i].ToString()).push_back(',');
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return filter.ToStringView().find(key.ToString() + ",") != std::string_view::npos;
  }
};

// Fails if tables that were not read thanks to their filters are counted by some reads only.
TEST(MultiGetCountersTest, FiltersCountAsForSingleGets) {
  const ExactFilter filter;
  Options options = TinyOptions();
  options.filter_policy = &filter;
  std::unique_ptr<DB> db = OpenOrDie(options, kMultiGetName);
  ASSERT_NO_FATAL_FAILURE(PutAllAndCompact(db.get()));
  std::vector<std::string> keys;
  for (uint64_t i = 1; i + 1 < kMultiGetKeys; i += 40) keys.push_back(NumberedKey(i) + "absent");
  const auto useful = [&] { return db->GetStatistics()->Get(Ticker::kFilterUseful); };
  const uint64_t before = useful();
  for (const std::string& key : keys) EXPECT_EQ(GetOr(db.get(), key), "(none)");
  const uint64_t by_gets = useful() - before;
  EXPECT_GT(by_gets, 0u);
  for (const Status& status : GetAll(db.get(), keys).statuses) EXPECT_TRUE(status.IsNotFound());
  EXPECT_EQ(useful() - before, 2 * by_gets);
  const auto pipeline = db->NewGetPipeline(ReadOptions(), keys.size());
  for (const std::string& key : keys) ASSERT_OK(pipeline->Submit(key, 0));
  for (GetPipeline::Answer answer; pipeline->Next(&answer);) {
    EXPECT_TRUE(answer.status.IsNotFound());
  }
  EXPECT_EQ(useful() - before, 3 * by_gets);
  CloseAndDestroy(&db, options, kMultiGetName);
}

// Fails if what is fetched by MultiGet is not part of what the handle may use.
TEST(MultiGetBudgetTest, BuffersCount) {
  Options options = TinyOptions();
  options.memory_budget = uint64_t{1} << 30;
  options.fault_injector = std::make_shared<FaultInjector>();
  options.fault_injector->OnlyPurpose(Purpose::kRead);
  const auto node = NodeServing("tcp", &options);
  std::unique_ptr<DB> db = OpenOrDie(options, kMultiGetName);
  ASSERT_NO_FATAL_FAILURE(PutAllAndCompact(db.get()));
  const auto buffers = [&] { return FieldOfProperty(db.get(), "dlsm.memory", "buffers"); };
  const uint64_t before = buffers();
  options.fault_injector->SetDelay(milliseconds(500));
  options.fault_injector->SetProbability(FaultKind::kDelay, 1);
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 64; ++i) keys.push_back(NumberedKey(i));
  std::thread reader([&] { GetAll(db.get(), keys); });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (buffers() < before + 64 * 300 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_GE(buffers(), before + 64 * 300);
  reader.join();
  options.fault_injector->Clear();
  EXPECT_EQ(buffers(), before);
  CloseAndDestroy(&db, options, kMultiGetName);
}

// Fails if the silence of one memory node costs keys that lie at another.
TEST(MultiGetFaultTest, SilenceCostsOneNodesKeysOnly) {
  TestNodes nodes(2, "shm");
  Options options = FillAcross(&nodes);
  ASSERT_FALSE(HasFailure());
  const auto faults = std::make_shared<FaultInjector>();
  options.fault_injector = faults;
  options.operation_timeout_ms = 2000;
  std::unique_ptr<DB> db = OpenOrDie(nodes.With(options), kMultiGetName);
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kMultiGetKeys; i += 20) keys.push_back(NumberedKey(i));
  for (const Status& status : GetAll(db.get(), keys).statuses) ASSERT_OK(status);
  faults->OnlyPurpose(Purpose::kRead);
  // The node of the first key does not answer, until its time is up. Only then the other one is
  // waited for.
  faults->FailNth(1, FaultKind::kDrop);
  const Answers answers = GetAll(db.get(), keys);
  faults->Clear();
  size_t lost = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (answers.statuses[i].ok()) {
      EXPECT_EQ(answers.values[i], NumberedValue(20 * i, 300));
    } else {
      EXPECT_TRUE(answers.statuses[i].IsTimedOut()) << answers.statuses[i].ToString();
      ++lost;
    }
  }
  EXPECT_FALSE(answers.statuses[0].ok());
  EXPECT_LT(lost, keys.size());
  CloseAndDestroy(&db, nodes.With(options), kMultiGetName);
}

// Indexes do not all fit, so lookups load them between the doorbells of one MultiGet. Fails if an
// index that cannot be loaded, which closes the queue pair, takes keys of other tables with it that
// were under way, or if these get other bytes than theirs.
TEST(MultiGetFaultTest, WhatWasUnderWayIsReadAgain) {
  constexpr uint64_t kMany = 60'000;
  constexpr uint64_t kIndexesMax = uint64_t{64} << 10;  // A sixth of what there are.
  const auto value_of = [](uint64_t i) { return "value" + std::to_string(i); };
  Options options = TinyOptions();
  options.compaction_place = CompactionPlace::kComputeNode;
  options.memory_budget =
      options.write_buffer_size * static_cast<uint64_t>(options.max_write_buffer_number) +
      kIndexesMax;
  const auto faults = std::make_shared<FaultInjector>();
  options.fault_injector = faults;
  std::unique_ptr<TestNode> node = NodeServing("tcp", &options);
  std::unique_ptr<DB> db = OpenOrDie(options, kMultiGetName);
  for (uint64_t i = 0; i < kMany; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), value_of(i)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->CompactRange(nullptr, nullptr));
  faults->OnlyPurpose(Purpose::kRead);
  Random random(301);
  uint64_t spared = 0;
  // Over tcp 128 reads are worth a doorbell. With some ten indexes before it, and as many behind
  // it.
  for (uint64_t n = 130; n < 155; ++n) {
    SCOPED_TRACE(testing::Message() << "read " << n);
    // What is too much goes ten times a second.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (FieldOfProperty(db.get(), "dlsm.memory", "indexes-and-filters") > 2 * kIndexesMax) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::sleep_for(milliseconds(10));
    }
    // In order: so tables are come upon one after the other.
    std::vector<uint64_t> numbers(600);
    for (uint64_t& number : numbers) number = random.Uniform(kMany);
    std::ranges::sort(numbers);
    std::vector<std::string> keys;
    for (const uint64_t number : numbers) keys.push_back(NumberedKey(number));
    faults->FailNth(n, FaultKind::kDisconnect);
    const uint64_t faults_before = faults->CountFaults();
    const uint64_t posts_before = faults->CountPosts();
    const uint64_t loads_before = db->GetStatistics()->Get(Ticker::kMetadataLoads);
    const Answers answers = GetAll(db.get(), keys);
    const bool failed = faults->CountFaults() > faults_before;
    faults->Clear();
    size_t errors = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (answers.statuses[i].ok()) {
        ASSERT_EQ(answers.values[i], value_of(numbers[i])) << keys[i];
      } else {
        ASSERT_FALSE(answers.statuses[i].IsNotFound()) << keys[i];
        ++errors;
      }
    }
    ASSERT_EQ(failed, errors > 0);
    if (!failed || errors == keys.size()) continue;  // It was a record, or came before any.
    ++spared;
    EXPECT_LT(errors, 20u);
    const uint64_t loads = db->GetStatistics()->Get(Ticker::kMetadataLoads) - loads_before;
    EXPECT_GE(faults->CountPosts() - posts_before, keys.size() + loads + 128);
  }
  EXPECT_GT(spared, 0u);
  CloseAndDestroy(&db, options, kMultiGetName);
}

// There is no memory to hold the buffer of reads. Fails if they are under way then: they would land
// in memory that is somebody else's by that time.
TEST(MultiGetFaultTest, WhatCannotBeHeldIsNotPosted) {
  Options options = TinyOptions();
  const auto faults = std::make_shared<FaultInjector>();
  options.fault_injector = faults;
  const auto node = NodeServing("tcp", &options);
  std::unique_ptr<DB> db = OpenOrDie(options, kMultiGetName);
  const std::vector<std::string> keys = {NumberedKey(1), NumberedKey(2), NumberedKey(3)};
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), keys[i - 1], NumberedValue(i, 300)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  // There is memory then for what it asks for.
  ASSERT_EQ(GetOr(db.get(), keys[0]), NumberedValue(1, 300));
  faults->OnlyPurpose(Purpose::kRead);
  const uint64_t posts_before = faults->CountPosts();
  {
    const port::FailingAllocations failing(1);
    const Answers refused = GetAll(db.get(), keys);
    for (const Status& status : refused.statuses) EXPECT_TRUE(status.IsIOError());
    EXPECT_EQ(failing.failed(), 1u);
  }
  EXPECT_EQ(faults->CountPosts(), posts_before);
  const Answers answers = GetAll(db.get(), keys);
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_OK(answers.statuses[i - 1]);
    EXPECT_EQ(answers.values[i - 1], NumberedValue(i, 300));
  }
  EXPECT_GT(faults->CountPosts(), posts_before);
  CloseAndDestroy(&db, options, kMultiGetName);
}

}  // namespace
}  // namespace dlsm
