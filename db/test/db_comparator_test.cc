// An order of the application's own in which keys are equal of which the bytes differ, with the
// default filter policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "db/test/test_database_testing.h"
#include "util/named_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr char kAnyCaseName[] = "whatever the case";

std::string Lower(const Slice& key) {
  std::string lower = key.ToString();
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

class WithoutCase final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return Lower(a).compare(Lower(b)); }
  const char* Name() const override { return "test.WithoutCase"; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

using Format = Named<TableFormat>;

class ComparatorTest : public testing::TestWithParam<Format> {
 protected:
  using Model = std::map<std::string, std::string>;  // By lower case.

  void SetUp() override {
    options_ = TinyOptions();
    options_.comparator = &order_;
    options_.value_cache_size = size_t{64} << 10;
    options_.table_format = GetParam();
    db_ = OpenOrDie(options_, kAnyCaseName);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, kAnyCaseName); }

  // One of few keys, mostly in another spelling than the last time.
  std::string SomeKey() {
    std::string key = "key" + std::to_string(random_.Uniform(60)) + "abcdef";
    for (char& c : key) {
      if (random_.OneIn(2)) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return key;
  }

  void WriteOne() {
    const std::string key = SomeKey();
    if (random_.OneIn(4)) {
      ASSERT_OK(db_->Delete(WriteOptions(), key));
      model_.erase(Lower(key));
    } else {
      const std::string value = std::to_string(++written_);
      ASSERT_OK(db_->Put(WriteOptions(), key, value));
      model_[Lower(key)] = value;
    }
  }

  static void CheckOne(const std::string& key, const Status& got, const std::string& value,
                       const Model& model) {
    const auto expected = model.find(Lower(key));
    if (expected == model.end()) {
      ASSERT_TRUE(got.IsNotFound()) << key << ": " << got.ToString() << value;
    } else {
      ASSERT_OK(got);
      ASSERT_EQ(value, expected->second) << key;
    }
  }

  void Check(const ReadOptions& options, const Model& model) {
    std::vector<std::string> keys;
    for (int i = 0; i < 100; ++i) keys.push_back(SomeKey());
    for (const std::string& key : keys) {
      std::string value;
      const Status got = db_->Get(options, key, &value);
      ASSERT_NO_FATAL_FAILURE(CheckOne(key, got, value, model));
    }
    std::vector<std::string> values;
    const std::vector<Status> all = db_->MultiGet(options, {keys.begin(), keys.end()}, &values);
    const std::unique_ptr<GetPipeline> pipeline = db_->NewGetPipeline(options, keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(CheckOne(keys[i], all[i], values[i], model));
      ASSERT_OK(pipeline->Submit(keys[i], i));
    }
    for (GetPipeline::Answer answer; pipeline->Next(&answer);) {
      ASSERT_NO_FATAL_FAILURE(CheckOne(keys[answer.tag], answer.status, answer.value, model));
    }
    for (const std::string& key : keys) {
      const std::unique_ptr<Iterator> at(db_->NewIterator(options));
      at->SeekForPrev(key);
      const auto after = model.upper_bound(Lower(key));
      ASSERT_EQ(at->Valid() ? Lower(at->key()) : "",
                after == model.begin() ? "" : std::prev(after)->first);
    }
    const std::unique_ptr<Iterator> entries(db_->NewIterator(options));
    auto expected = model.begin();
    for (entries->SeekToFirst(); entries->Valid(); entries->Next(), ++expected) {
      ASSERT_NE(expected, model.end());
      ASSERT_EQ(Lower(entries->key()), expected->first);
      ASSERT_EQ(entries->value().ToString(), expected->second);
    }
    ASSERT_OK(entries->status());
    ASSERT_EQ(expected, model.end());
  }

  const WithoutCase order_{};
  Options options_;
  std::unique_ptr<DB> db_;
  Random random_{23};
  uint64_t written_ = 0;
  Model model_;
};

INSTANTIATE_TEST_SUITE_P(Formats, ComparatorTest,
                         testing::Values(Format{"Byte", TableFormat::kByteAddressable},
                                         Format{"Block", TableFormat::kBlockBased}),
                         NameOf<TableFormat>);

// In memtables, tables with several versions of a key, and merged ones: the last write wins,
// however its key is spelled, and a snapshot goes on to see what was there.
TEST_P(ComparatorTest, TheLastSpellingCounts) {
  const Snapshot* snapshot = nullptr;
  Model then;
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE(round);
    for (int i = 0; i < 150; ++i) WriteOne();
    if (round % 5 == 2) {
      if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
      snapshot = db_->GetSnapshot();
      then = model_;
      for (int i = 0; i < 150; ++i) WriteOne();
    }
    if (round % 2 == 1) {
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
    if (round % 7 == 6) {
      ASSERT_OK(db_->CompactRange(nullptr, nullptr));
    }
    ASSERT_NO_FATAL_FAILURE(Check(ReadOptions(), model_));
    if (snapshot == nullptr) continue;
    ReadOptions past;
    past.snapshot = snapshot;
    ASSERT_NO_FATAL_FAILURE(Check(past, then));
  }
  db_->ReleaseSnapshot(snapshot);
}

}  // namespace
}  // namespace dlsm
