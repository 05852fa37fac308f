// Any configuration must read like a map: formats, fabrics, places and sizes change speed only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dLSM/comparator.h"
#include "dLSM/get_pipeline.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/slice_transform.h"
#include "dLSM/write_batch.h"
#include "db/test/map_source_testing.h"
#include "db/test/model_shapes_testing.h"
#include "db/test/test_database_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

struct InOrder {
  const Comparator* comparator;
  bool operator()(const std::string& a, const std::string& b) const {
    return comparator->Compare(a, b) < 0;
  }
};
using Model = std::map<std::string, std::string, InOrder>;
using Entries = std::vector<std::pair<std::string, std::string>>;

class ModelTest : public testing::TestWithParam<std::tuple<ModelShape, uint64_t>> {
 protected:
  void SetUp() override {
    const std::string why_not = TestNode::WhyNot(shape().fabric);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    options_ = TinyOptions();
    options_.compaction_style = CompactionStyle::kLeveled;  // Shapes of other styles say so.
    // None, one that loses records all the time, one that keeps them all.
    constexpr uint64_t kValueCaches[] = {0, uint64_t{64} << 10, uint64_t{4} << 20};
    options_.value_cache_size = kValueCaches[std::get<1>(GetParam()) % 3];
    shape().change(&options_);
    const uint64_t prefix_bytes = 1 + std::get<1>(GetParam()) % 3;
    options_.prefix_extractor.reset(prefix_bytes == 3 ? NewCappedPrefixTransform(prefix_bytes)
                                                      : NewFixedPrefixTransform(prefix_bytes));
    if (shape().memory_nodes > 1) {
      nodes_.emplace(static_cast<size_t>(shape().memory_nodes), shape().fabric);
      options_ = nodes_->With(options_);
    } else {
      node_ = NodeServing(shape().fabric, &options_);
    }
    name_ = "model " + std::string(shape().name) + std::to_string(std::get<1>(GetParam()));
    model_ = Model(InOrder{options_.comparator});
    db_ = OpenOrDie(options_, name_);
  }
  void TearDown() override {
    ReleaseAll();
    CloseAndDestroy(&db_, options_, name_);
  }

  const ModelShape& shape() const { return std::get<0>(GetParam()); }

  std::string RandomKey() {
    std::string key = RandomShortKey();
    if (!shape().long_keys) return key;
    // Told apart by their first bytes, by their last, or not longer than others.
    const size_t kind = key.size() % 3;
    if (kind == 0) return std::string(200, 'a') + key;
    if (kind == 1) key.append(150, key.size() % 2 == 0 ? '\xff' : 'z').append("tail");
    return key;
  }
  std::string RandomShortKey() {
    // Few distinct keys: overwrites and deletes must collide. Prefixes of each other, too.
    const uint64_t number = random_.Uniform(400);
    switch (number % 4) {
      case 0:
        return std::string(number % 16, 'a');
      case 1:
        return "prefix/" + std::to_string(number);
      case 2:
        return std::string("\0\xff", 2) + static_cast<char>(number) + "tail";
      default:
        return "k" + std::to_string(number * 7919);
    }
  }
  std::string RandomValue() {
    const uint64_t dice = random_.Uniform(100);
    if (dice < 5) return std::string();
    if (dice < 7) return random_.Bytes(20000);
    return std::to_string(++stamp_) + std::string(random_.Uniform(600), 'v');
  }

  // Two bounds that are in order, in every order that a shape may have.
  std::pair<std::string, std::string> RandomRange() {
    std::string begin = RandomKey();
    std::string end = random_.OneIn(3) ? RandomKey() : begin + "5";
    if (Compare(begin, end) > 0) std::swap(begin, end);
    return {std::move(begin), std::move(end)};
  }
  void EraseRange(const std::string& begin, const std::string& end) {
    std::erase_if(model_, [&](const auto& entry) {
      return Compare(begin, entry.first) <= 0 && Compare(entry.first, end) < 0;
    });
  }

  void Ingest() {
    Model entries(InOrder{options_.comparator});
    for (uint64_t i = random_.Uniform(60); i > 0; --i) entries[RandomKey()] = RandomValue();
    MapSource source(entries);
    ASSERT_OK(db_->IngestSorted(&source, nullptr));
    for (const auto& [key, value] : entries) model_[key] = value;
  }

  void Write() {
    if (random_.OneIn(150)) {
      Ingest();
    } else if (random_.OneIn(24)) {
      const auto [begin, end] = RandomRange();
      ASSERT_OK(db_->DeleteRange(WriteOptions(), begin, end));
      EraseRange(begin, end);
    } else if (random_.OneIn(4)) {
      const std::string key = RandomKey();
      ASSERT_OK(db_->Delete(WriteOptions(), key));
      model_.erase(key);
    } else if (random_.OneIn(4)) {
      WriteBatch batch;
      for (uint64_t i = random_.Uniform(12); i > 0; --i) {
        const std::string key = RandomKey();
        if (random_.OneIn(20)) {
          const auto [begin, end] = RandomRange();
          batch.DeleteRange(begin, end);
          EraseRange(begin, end);
        } else if (random_.OneIn(3)) {
          batch.Delete(key);
          model_.erase(key);
        } else {
          batch.Put(key, model_[key] = RandomValue());
        }
      }
      ASSERT_OK(db_->Write(WriteOptions(), &batch));
    } else {
      const std::string key = RandomKey();
      ASSERT_OK(db_->Put(WriteOptions(), key, model_[key] = RandomValue()));
    }
  }

  struct Pinned {
    const Snapshot* snapshot;
    Model model;
  };
  struct Walk {
    std::string lower;
    std::string upper;
    Slice lower_slice;
    Slice upper_slice;
    std::unique_ptr<Iterator> iterator;
    Entries all;  // Within the bounds.
    bool keeps_prefix = false;
    Entries entries;  // Of these, those with the prefix that was sought last.
    size_t at = 0;    // entries.size(): not valid.
  };

  void Pin() {
    if (pinned_.size() >= 4) Unpin(random_.Uniform(pinned_.size()));
    pinned_.push_back(Pinned{db_->GetSnapshot(), model_});
  }
  void Unpin(size_t i) {
    db_->ReleaseSnapshot(pinned_[i].snapshot);
    pinned_.erase(pinned_.begin() + static_cast<ptrdiff_t>(i));
  }
  void ReleaseAll() {
    walks_.clear();
    while (!pinned_.empty()) Unpin(0);
  }

  // A random moment that can be read: now or a snapshot.
  const Model& RandomMoment(ReadOptions* options) {
    options->verify_checksums = random_.OneIn(2);
    options->fill_cache = random_.OneIn(2);
    if (pinned_.empty() || random_.OneIn(2)) return model_;
    const Pinned& pinned = pinned_[random_.Uniform(pinned_.size())];
    options->snapshot = pinned.snapshot;
    return pinned.model;
  }

  void ExpectValue(const Model& model, const std::string& key, const Status& status,
                   const Slice& value) {
    const auto expected = model.find(key);
    if (expected == model.end()) {
      ASSERT_TRUE(status.IsNotFound()) << status.ToString() << " for " << key;
    } else {
      ASSERT_OK(status);
      ASSERT_TRUE(value == Slice(expected->second)) << key;
    }
  }

  void Read() {
    ReadOptions options;
    const Model& model = RandomMoment(&options);
    if (random_.OneIn(3)) {
      std::vector<std::string> keys(1 + random_.Uniform(20));
      for (std::string& key : keys) key = RandomKey();
      const std::vector<Slice> slices(keys.begin(), keys.end());
      std::vector<std::string> values;
      const std::vector<Status> statuses = db_->MultiGet(options, slices, &values);
      ASSERT_EQ(statuses.size(), keys.size());
      for (size_t i = 0; i < keys.size(); ++i) {
        ExpectValue(model, keys[i], statuses[i], values[i]);
      }
      return;
    }
    if (random_.OneIn(4)) {
      const auto pipeline = db_->NewGetPipeline(options, 1 + random_.Uniform(20));
      std::vector<std::string> keys;
      while (keys.size() < pipeline->depth()) {
        keys.push_back(RandomKey());
        ASSERT_OK(pipeline->Submit(keys.back(), keys.size() - 1));
      }
      GetPipeline::Answer answer;
      while (pipeline->Next(&answer)) {
        ExpectValue(model, keys[answer.tag], answer.status, answer.value);
      }
      return;
    }
    const std::string key = RandomKey();
    if (random_.OneIn(2)) {
      std::string value;
      const Status status = db_->Get(options, key, &value);
      ExpectValue(model, key, status, value);
    } else {
      // What was pinned before stays valid until it is reset.
      const Status status = db_->Get(options, key, &pinnable_);
      ExpectValue(model, key, status, pinnable_);
    }
  }

  // Starts an iterator, to be moved now and later while the database changes.
  void StartWalk() {
    if (walks_.size() >= 3) {
      walks_.erase(walks_.begin() + static_cast<ptrdiff_t>(random_.Uniform(walks_.size())));
    }
    auto walk = std::make_unique<Walk>();
    ReadOptions options;
    const Model& model = RandomMoment(&options);
    if (random_.OneIn(3)) {
      walk->lower = RandomKey();
      walk->lower_slice = walk->lower;
      options.iterate_lower_bound = &walk->lower_slice;
    }
    if (random_.OneIn(3)) {
      walk->upper = RandomKey();
      walk->upper_slice = walk->upper;
      options.iterate_upper_bound = &walk->upper_slice;
    }
    // In other orders keys with one prefix do not follow each other.
    walk->keeps_prefix = random_.OneIn(2) && (options_.comparator == BytewiseComparator() ||
                                              options_.comparator == ReverseBytewiseComparator());
    options.prefix_same_as_start = walk->keeps_prefix;
    for (const auto& [key, value] : model) {
      if (options.iterate_lower_bound != nullptr && Compare(key, walk->lower) < 0) continue;
      if (options.iterate_upper_bound != nullptr && Compare(key, walk->upper) >= 0) continue;
      walk->all.emplace_back(key, value);
    }
    walk->entries = walk->all;
    walk->at = walk->entries.size();
    walk->iterator.reset(db_->NewIterator(options));
    ASSERT_FALSE(walk->iterator->Valid());
    walks_.push_back(std::move(walk));
    MoveWalk(walks_.back().get());
  }

  int Compare(const Slice& a, const Slice& b) const { return options_.comparator->Compare(a, b); }

  void MoveWalk(Walk* walk) {
    const Entries& entries = walk->entries;
    for (int move = 0; move < 12; ++move) {
      const uint64_t dice = random_.Uniform(10);
      if (dice >= 3 && walk->at < entries.size()) {
        if (dice < 7) {
          walk->iterator->Next();
          ++walk->at;
        } else {
          walk->iterator->Prev();
          walk->at = walk->at == 0 ? entries.size() : walk->at - 1;
        }
      } else {
        Reposition(walk, dice);
      }
      ASSERT_OK(walk->iterator->status());
      ASSERT_EQ(walk->iterator->Valid(), walk->at < entries.size());
      if (!walk->iterator->Valid()) continue;
      ASSERT_EQ(walk->iterator->key().ToString(), entries[walk->at].first);
      ASSERT_TRUE(walk->iterator->value() == Slice(entries[walk->at].second));
    }
  }

  // Leaves the entries with the prefix of this key.
  void KeepPrefixOf(Walk* walk, const std::string& key) {
    walk->entries = walk->all;
    const SliceTransform& prefixes = *options_.prefix_extractor;
    if (!walk->keeps_prefix || !prefixes.InDomain(key)) return;
    std::erase_if(walk->entries, [&](const auto& entry) {
      return !prefixes.InDomain(entry.first) ||
             prefixes.Transform(entry.first) != prefixes.Transform(key);
    });
  }

  void Reposition(Walk* walk, uint64_t dice) {
    const Entries& entries = walk->entries;
    // Now and then the very bytes that the iterator shows, which must not go while they are sought.
    const bool own = walk->iterator->Valid() && random_.OneIn(3);
    const std::string target = own ? walk->iterator->key().ToString() : RandomKey();
    const auto sought = [&] { return own ? walk->iterator->key() : Slice(target); };
    if (dice % 4 >= 2) {
      KeepPrefixOf(walk, target);
    } else if (!walk->all.empty()) {
      KeepPrefixOf(walk, dice % 4 == 0 ? walk->all.front().first : walk->all.back().first);
    }
    const auto behind = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return Compare(entry.first, target) > 0;
    });
    const auto behind_at = static_cast<size_t>(behind - entries.begin());
    const bool equal = behind_at > 0 && Compare(entries[behind_at - 1].first, target) == 0;
    switch (dice % 4) {
      case 0:
        walk->iterator->SeekToFirst();
        walk->at = 0;
        break;
      case 1:
        walk->iterator->SeekToLast();
        walk->at = entries.empty() ? 0 : entries.size() - 1;
        break;
      case 2:
        walk->iterator->Seek(sought());
        walk->at = equal ? behind_at - 1 : behind_at;
        break;
      default:
        walk->iterator->SeekForPrev(sought());
        walk->at = behind_at == 0 ? entries.size() : behind_at - 1;
    }
  }

  void CompareAll() {
    std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
    auto expected = model_.begin();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++expected) {
      ASSERT_NE(expected, model_.end());
      ASSERT_EQ(iterator->key().ToString(), expected->first);
    }
    ASSERT_OK(iterator->status());
    ASSERT_EQ(expected, model_.end());
    for (const Pinned& pinned : pinned_) {
      ReadOptions options;
      options.snapshot = pinned.snapshot;
      iterator.reset(db_->NewIterator(options));
      auto last = pinned.model.rbegin();
      for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev(), ++last) {
        ASSERT_NE(last, pinned.model.rend());
        ASSERT_EQ(iterator->key().ToString(), last->first);
        ASSERT_TRUE(iterator->value() == Slice(last->second));
      }
      ASSERT_OK(iterator->status());
      ASSERT_EQ(last, pinned.model.rend());
    }
  }

  void Upheaval() {
    switch (random_.Uniform(6)) {
      case 0:
        ASSERT_OK(db_->Flush(FlushOptions()));
        break;
      case 1:
        ASSERT_OK(db_->CompactRange(nullptr, nullptr));
        break;
      case 2: {
        std::string begin = RandomKey();
        std::string end = RandomKey();
        if (Compare(begin, end) > 0) std::swap(begin, end);
        const Slice begin_slice = begin;
        const Slice end_slice = end;
        ASSERT_OK(db_->CompactRange(&begin_slice, &end_slice));
        break;
      }
      case 3:
        ASSERT_OK(db_->WaitForBackgroundWork());
        break;
      case 4:
        ReleaseAll();
        pinnable_.Reset();
        ASSERT_OK(db_->Close());
        db_ = OpenOrDie(options_, name_);
        break;
      default:
        CompareAll();
    }
  }

  Random random_{std::get<1>(GetParam())};
  std::unique_ptr<TestNode> node_;
  std::optional<TestNodes> nodes_;  // Several.
  Options options_;
  std::string name_;
  Model model_{InOrder{BytewiseComparator()}};
  std::unique_ptr<DB> db_;
  std::vector<Pinned> pinned_;
  std::vector<std::unique_ptr<Walk>> walks_;
  PinnableSlice pinnable_;
  uint64_t stamp_ = 0;
};

TEST_P(ModelTest, ReadsLikeAMap) {
  SCOPED_TRACE(testing::Message() << "--seed=" << std::get<1>(GetParam()));
  // Under a sanitizer, which makes a step ten times as long, enough for levels below the first.
  constexpr int kSteps = kUnderSanitizer ? 1000 : 3000;
  for (int step = 0; step < kSteps && !HasFatalFailure(); ++step) {
    const uint64_t dice = random_.Uniform(1000);
    if (dice < 600) {
      Write();
    } else if (dice < 900) {
      Read();
    } else if (dice < 920) {
      Pin();
    } else if (dice < 960) {
      StartWalk();
    } else if (dice < 990) {
      if (!walks_.empty()) MoveWalk(walks_[random_.Uniform(walks_.size())].get());
    } else {
      Upheaval();
    }
  }
  if (!HasFatalFailure()) CompareAll();
  pinnable_.Reset();
}

// DLSM_MODEL_SEEDS=n runs that many seeds; see util/random.h for what they decide.
uint64_t SeedCount() {
  const char* const count = std::getenv("DLSM_MODEL_SEEDS");
  return count == nullptr ? 3 : std::strtoull(count, nullptr, 10);
}

std::string ModelCaseName(const testing::TestParamInfo<std::tuple<ModelShape, uint64_t>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryShape, ModelTest,
                         testing::Combine(testing::ValuesIn(AllModelShapes()),
                                          testing::Range(uint64_t{1}, SeedCount() + 1)),
                         ModelCaseName);

}  // namespace
}  // namespace dlsm
