// Writers, readers, flushes and merges at once, with buffers so small that memtables are switched
// hundreds of times. Every value is a counter of its only writer, so order can be checked.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/test/test_database_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

constexpr int kConcurrentWriters = 3;
constexpr int kKeysOfWriter = 6;  // Of each writer.
constexpr auto kDuration = std::chrono::milliseconds(1500);
constexpr size_t kCountedValueBytes = 300;

struct ConcurrencyShape {
  const char* name;
  const char* fabric;
  CompactionPlace place;
  CompactionStyle style = CompactionStyle::kLeveled;
  bool divided = false;  // So that every batch, and almost every walk, crosses shards.
};
void PrintTo(const ConcurrencyShape& shape, std::ostream* out) { *out << shape.name; }

std::string KeyOfWriter(int writer, int key) {
  return "writer" + std::to_string(writer) + "/key" + std::to_string(key);
}
std::string CountedValue(uint64_t counter) {
  std::string value = std::to_string(counter) + ":";
  value.resize(kCountedValueBytes, '.');
  return value;
}
uint64_t CounterOf(const Slice& value) { return std::stoull(value.ToString()); }

class ConcurrencyTest : public testing::TestWithParam<ConcurrencyShape> {
 protected:
  void SetUp() override {
    const std::string why_not = TestNode::WhyNot(GetParam().fabric);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    options_ = TinyOptions();
    options_.compaction_place = GetParam().place;
    options_.compaction_style = GetParam().style;
    if (GetParam().divided) {
      options_.shard_boundaries = {KeyOfWriter(0, 3), KeyOfWriter(1, 2), KeyOfWriter(2, 0),
                                   KeyOfWriter(2, 5)};
      options_.write_buffer_size = 128 << 10;
    }
    node_ = NodeServing(GetParam().fabric, &options_);
    name_ = "concurrency " + std::string(GetParam().name);
    db_ = OpenOrDie(options_, name_);
  }
  void TearDown() override { CloseAndDestroy(&db_, options_, name_); }

  // Runs `body` in a thread of its own, again and again until the time is over.
  void Repeat(std::function<void()> body) {
    threads_.emplace_back([this, body = std::move(body)] {
      while (!stop_.load(std::memory_order_relaxed) && !HasFailure()) body();
    });
  }
  void RunFor(std::chrono::milliseconds duration) {
    Repeat([this] {
      ASSERT_OK(db_->Flush(FlushOptions()));
      ASSERT_OK(db_->CompactRange(nullptr, nullptr));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
    std::this_thread::sleep_for(duration);
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    EXPECT_GT(db_->GetStatistics()->Get(Ticker::kFlushes), 3u) << "memtables were switched";
  }

  std::unique_ptr<TestNode> node_;
  Options options_;
  std::string name_;
  std::unique_ptr<DB> db_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
};

using Counters = std::array<std::atomic<uint64_t>, kKeysOfWriter>;

// Fails if a read returns a value older than one that was acknowledged before it began, or than one
// that the same thread has read before; or one that nobody has begun to write.
TEST_P(ConcurrencyTest, KeysNeverGoBackwards) {
  std::array<Counters, kConcurrentWriters> acknowledged{};
  std::array<Counters, kConcurrentWriters> begun{};
  for (int w = 0; w < kConcurrentWriters; ++w) {
    auto random = std::make_shared<Random>(static_cast<uint64_t>(w));
    Repeat([&, w, random] {
      const auto k = static_cast<size_t>(random->Uniform(kKeysOfWriter));
      const uint64_t counter = begun[static_cast<size_t>(w)][k].load() + 1;
      begun[static_cast<size_t>(w)][k] = counter;
      ASSERT_OK(
          db_->Put(WriteOptions(), KeyOfWriter(w, static_cast<int>(k)), CountedValue(counter)));
      acknowledged[static_cast<size_t>(w)][k] = counter;
    });
  }
  for (int r = 0; r < 3; ++r) {
    auto random = std::make_shared<Random>(static_cast<uint64_t>(100 + r));
    auto seen =
        std::make_shared<std::array<std::array<uint64_t, kKeysOfWriter>, kConcurrentWriters>>();
    Repeat([&, random, seen] {
      const auto w = static_cast<size_t>(random->Uniform(kConcurrentWriters));
      const auto k = static_cast<size_t>(random->Uniform(kKeysOfWriter));
      const std::string key = KeyOfWriter(static_cast<int>(w), static_cast<int>(k));
      const uint64_t at_least = std::max(acknowledged[w][k].load(), (*seen)[w][k]);
      uint64_t found = 0;
      Status status;
      std::string value;
      switch (random->Uniform(5)) {
        case 0: {
          PinnableSlice pinned;
          status = db_->Get(ReadOptions(), key, &pinned);
          value = pinned.ToString();
          break;
        }
        case 1: {
          std::vector<std::string> values;
          status = db_->MultiGet(ReadOptions(), {key}, &values)[0];
          value = values[0];
          break;
        }
        case 2: {
          const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
          iterator->Seek(key);
          status = iterator->status();
          if (iterator->Valid() && iterator->key() == Slice(key)) {
            value = iterator->value().ToString();
          } else if (status.ok()) {
            status = Status::NotFound(key);
          }
          break;
        }
        case 3: {
          ReadOptions options;
          options.snapshot = db_->GetSnapshot();
          status = db_->Get(options, key, &value);
          db_->ReleaseSnapshot(options.snapshot);
          break;
        }
        default:
          status = db_->Get(ReadOptions(), key, &value);
      }
      if (!status.IsNotFound()) {
        ASSERT_OK(status);
        ASSERT_EQ(value.size(), kCountedValueBytes);
        found = CounterOf(value);
      }
      ASSERT_GE(found, at_least) << key;
      ASSERT_LE(found, begun[w][k].load()) << key;
      (*seen)[w][k] = found;
    });
  }
  RunFor(kDuration);
  for (size_t w = 0; w < kConcurrentWriters; ++w) {
    for (size_t k = 0; k < kKeysOfWriter; ++k) {
      const std::string value =
          GetOr(db_.get(), KeyOfWriter(static_cast<int>(w), static_cast<int>(k)));
      EXPECT_EQ(value, acknowledged[w][k] == 0 ? "(none)" : CountedValue(acknowledged[w][k]));
    }
  }
}

// Each batch writes one counter to all keys of its writer, or deletes all and then writes some.
// Fails if any way of reading sees a part of a batch.
TEST_P(ConcurrencyTest, BatchesAppearAtOnce) {
  for (int w = 0; w < kConcurrentWriters; ++w) {
    auto counter = std::make_shared<uint64_t>(0);
    Repeat([this, w, counter] {
      WriteBatch batch;
      ++*counter;
      for (int k = 0; k < kKeysOfWriter; ++k) {
        if (*counter % 5 == 0) batch.Delete(KeyOfWriter(w, k));
        batch.Put(KeyOfWriter(w, k), CountedValue(*counter));
      }
      ASSERT_OK(db_->Write(WriteOptions(), &batch));
    });
  }
  const auto check_equal = [](const std::vector<uint64_t>& counters) {
    for (const uint64_t counter : counters) ASSERT_EQ(counter, counters[0]) << "a torn batch";
  };
  const auto random = std::make_shared<Random>(7);
  Repeat([this, random, check_equal] {  // MultiGet.
    const int w = static_cast<int>(random->Uniform(kConcurrentWriters));
    std::vector<std::string> keys;
    for (int k = 0; k < kKeysOfWriter; ++k) keys.push_back(KeyOfWriter(w, k));
    std::vector<std::string> values;
    std::vector<uint64_t> counters;
    const auto statuses = db_->MultiGet(ReadOptions(), {keys.begin(), keys.end()}, &values);
    for (size_t k = 0; k < kKeysOfWriter; ++k) {
      if (!statuses[k].IsNotFound()) {
        ASSERT_OK(statuses[k]);
      }
      counters.push_back(statuses[k].ok() ? CounterOf(values[k]) : 0);
    }
    check_equal(counters);
  });
  auto forward = std::make_shared<bool>(false);
  Repeat([this, forward, check_equal] {  // Iterators, over the batches of all writers.
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
    std::array<std::vector<uint64_t>, kConcurrentWriters> counters;
    *forward = !*forward;
    *forward ? iterator->SeekToFirst() : iterator->SeekToLast();
    while (iterator->Valid()) {
      const auto w = static_cast<size_t>(iterator->key()[6] - '0');
      counters[w].push_back(CounterOf(iterator->value()));
      *forward ? iterator->Next() : iterator->Prev();
    }
    ASSERT_OK(iterator->status());
    for (const std::vector<uint64_t>& of_writer : counters) {
      ASSERT_TRUE(of_writer.empty() || of_writer.size() == kKeysOfWriter) << "a torn batch";
      check_equal(of_writer);
    }
  });
  const auto order = std::make_shared<Random>(8);
  Repeat([this, order] {  // One key after another: what was seen once stays.
    const int w = static_cast<int>(order->Uniform(kConcurrentWriters));
    uint64_t newest = 0;
    for (int i = 0; i < 4; ++i) {
      std::string value;
      const Status status = db_->Get(
          ReadOptions(), KeyOfWriter(w, static_cast<int>(order->Uniform(kKeysOfWriter))), &value);
      if (status.IsNotFound()) {
        ASSERT_EQ(newest, 0u) << "a part of a batch was seen before the rest";
        continue;
      }
      ASSERT_OK(status);
      ASSERT_GE(CounterOf(value), newest) << "a part of a batch was seen before the rest";
      newest = CounterOf(value);
    }
  });
  RunFor(kDuration);
}

// Fails if a snapshot lacks what was acknowledged before it, has what was begun after it, or
// changes while it lives, whatever flushes and merges do.
TEST_P(ConcurrencyTest, SnapshotsAreExactAndStay) {
  std::array<std::atomic<uint64_t>, kConcurrentWriters> acknowledged{};
  std::array<std::atomic<uint64_t>, kConcurrentWriters> begun{};
  for (size_t w = 0; w < kConcurrentWriters; ++w) {
    auto random = std::make_shared<Random>(w);
    Repeat([&, w, random] {
      const uint64_t counter = ++begun[w];
      // All writes of a writer have one order: the key that holds the largest counter tells how far
      // the snapshot goes.
      const int key = static_cast<int>(counter % kKeysOfWriter);
      if (random->OneIn(10)) {
        WriteBatch batch;
        batch.Delete(KeyOfWriter(static_cast<int>(w), key));
        batch.Put(KeyOfWriter(static_cast<int>(w), key), CountedValue(counter));
        ASSERT_OK(db_->Write(WriteOptions(), &batch));
      } else {
        ASSERT_OK(
            db_->Put(WriteOptions(), KeyOfWriter(static_cast<int>(w), key), CountedValue(counter)));
      }
      acknowledged[w] = counter;
    });
  }
  for (int r = 0; r < 2; ++r) {
    Repeat([&] {
      std::array<uint64_t, kConcurrentWriters> before{};
      std::array<uint64_t, kConcurrentWriters> after{};
      for (size_t w = 0; w < kConcurrentWriters; ++w) before[w] = acknowledged[w];
      ReadOptions options;
      options.snapshot = db_->GetSnapshot();
      for (size_t w = 0; w < kConcurrentWriters; ++w) after[w] = begun[w];
      std::array<std::array<uint64_t, kKeysOfWriter>, kConcurrentWriters> first{};
      for (int round = 0; round < 3; ++round) {
        for (size_t w = 0; w < kConcurrentWriters; ++w) {
          uint64_t largest = 0;
          for (size_t k = 0; k < kKeysOfWriter; ++k) {
            const std::string key = KeyOfWriter(static_cast<int>(w), static_cast<int>(k));
            std::string value;
            const Status status = db_->Get(options, key, &value);
            if (!status.IsNotFound()) {
              ASSERT_OK(status);
            }
            const uint64_t counter = status.ok() ? CounterOf(value) : 0;
            if (round == 0) first[w][k] = counter;
            ASSERT_EQ(counter, first[w][k]) << "the snapshot has changed";
            largest = std::max(largest, counter);
          }
          ASSERT_GE(largest, before[w]);
          ASSERT_LE(largest, after[w]);
          // Exactly the writes up to the largest: each key has the last of its own among them.
          for (size_t k = 0; k < kKeysOfWriter; ++k) {
            uint64_t expected = largest - largest % kKeysOfWriter + k;
            if (expected > largest)
              expected = expected < kKeysOfWriter ? 0 : expected - kKeysOfWriter;
            ASSERT_EQ(first[w][k], expected) << "writer " << w << " key " << k;
          }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      db_->ReleaseSnapshot(options.snapshot);
    });
  }
  RunFor(kDuration);
}

// Iterators and pinned values stay readable while what they point into leaves the tree. Fails under
// a sanitizer, or by a changed byte.
TEST_P(ConcurrencyTest, PinnedBytesStay) {
  for (int w = 0; w < kConcurrentWriters; ++w) {
    auto random = std::make_shared<Random>(static_cast<uint64_t>(w));
    auto counter = std::make_shared<uint64_t>(0);
    Repeat([this, w, random, counter] {
      const int key = static_cast<int>(random->Uniform(kKeysOfWriter));
      if (random->OneIn(5)) {
        ASSERT_OK(db_->Delete(WriteOptions(), KeyOfWriter(w, key)));
      } else {
        ASSERT_OK(db_->Put(WriteOptions(), KeyOfWriter(w, key), CountedValue(++*counter)));
      }
    });
  }
  for (int r = 0; r < 2; ++r) {
    auto random = std::make_shared<Random>(static_cast<uint64_t>(50 + r));
    Repeat([this, random] {
      PinnableSlice pinned;
      const std::string key = KeyOfWriter(static_cast<int>(random->Uniform(kConcurrentWriters)),
                                          static_cast<int>(random->Uniform(kKeysOfWriter)));
      const bool found = db_->Get(ReadOptions(), key, &pinned).ok();
      const std::string copy = pinned.ToString();
      const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
      std::vector<std::string> entries;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        entries.push_back(iterator->key().ToString() + iterator->value().ToString());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(random->Uniform(30)));
      size_t i = entries.size();
      for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
        ASSERT_GT(i, 0u);
        ASSERT_EQ(iterator->key().ToString() + iterator->value().ToString(), entries[--i]);
      }
      ASSERT_EQ(i, 0u);
      ASSERT_OK(iterator->status());
      if (found) {
        ASSERT_TRUE(pinned == Slice(copy));
      }
    });
  }
  RunFor(kDuration);
}

std::string ConcurrencyShapeName(const testing::TestParamInfo<ConcurrencyShape>& shape) {
  return shape.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    EveryShape, ConcurrencyTest,
    testing::Values(
        ConcurrencyShape{"Embedded", "", CompactionPlace::kMemoryNode},
        ConcurrencyShape{"EmbeddedMergedHere", "", CompactionPlace::kComputeNode},
        ConcurrencyShape{"Shm", "shm", CompactionPlace::kMemoryNode},
        ConcurrencyShape{"Tcp", "tcp", CompactionPlace::kMemoryNode},
        ConcurrencyShape{"TcpMergedHere", "tcp", CompactionPlace::kComputeNode},
        ConcurrencyShape{"Verbs", "verbs", CompactionPlace::kMemoryNode},
        ConcurrencyShape{"VerbsMergedHere", "verbs", CompactionPlace::kComputeNode},
        ConcurrencyShape{"Guards", "", CompactionPlace::kMemoryNode, CompactionStyle::kGuards},
        ConcurrencyShape{"TcpTiered", "tcp", CompactionPlace::kMemoryNode,
                         CompactionStyle::kTiered},
        ConcurrencyShape{"Shards", "", CompactionPlace::kMemoryNode, CompactionStyle::kLeveled,
                         /*divided=*/true},
        ConcurrencyShape{"TcpShardsGuards", "tcp", CompactionPlace::kMemoryNode,
                         CompactionStyle::kGuards, /*divided=*/true}),
    ConcurrencyShapeName);

}  // namespace
}  // namespace dlsm
