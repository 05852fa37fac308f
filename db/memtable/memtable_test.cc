#include "db/memtable/memtable.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "db/test/allocating_order_testing.h"
#include "db/test/bytewise_order_testing.h"
#include "port/failing_allocations_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"
#include "util/watchdog_testing.h"

namespace dlsm {
namespace {

std::string PaddedNumber(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof(text), "%016llu", static_cast<unsigned long long>(number));
  return text;
}

// So that filters are neither empty nor full.
constexpr size_t kMemtableBytes = size_t{4} << 20;

LookupResult Lookup(const Memtable& memtable, Sequencer* sequencer, const Slice& key,
                    SequenceNumber sequence) {
  LookupResult result;
  memtable.Get(LookupKey(key, sequence), sequencer, &result);
  return result;
}

struct KeyShape {
  const char* name;
  const Comparator* comparator;
  const char* prefix_guess;
  std::string (*key)(uint64_t random);
};

void PrintTo(const KeyShape& shape, std::ostream* out) { *out << shape.name; }

std::string Decimal(uint64_t random) { return PaddedNumber(random % 5000); }
std::string Binary(uint64_t random) {
  std::string key(random % 24, '\0');
  for (char& byte : key)
    byte = static_cast<char>((random = random * 6364136223846793005u + 1) >> 61);
  return key;
}
std::string FarApart(uint64_t random) {
  return (random % 2 == 0 ? "aaaaaaaaaaaaaaaaaaaa" : "zz") + PaddedNumber(random % 999);
}
// Their digests are the largest there are, as those of entries that are not there.
std::string Largest(uint64_t random) {
  std::string key(random % 40, '\xff');
  if (random % 3 == 0) key += PaddedNumber(random % 200);
  return key;
}

class MemtableModelTest : public testing::TestWithParam<KeyShape> {};

// Whatever the keys and the guess of their prefix, a memtable reads like a sorted map.
TEST_P(MemtableModelTest, ReadsLikeAMap) {
  const InternalKeyComparator comparator(GetParam().comparator);
  Sequencer sequencer(0);
  Memtable memtable(comparator, 0, GetParam().prefix_guess, kMemtableBytes);
  const auto before = [&comparator](const std::string& a, const std::string& b) {
    return comparator.Compare(a, b) < 0;
  };
  std::map<std::string, std::string, decltype(before)> model(before);
  Random random(301);
  for (SequenceNumber sequence = 1; sequence <= 20000; ++sequence) {
    const std::string key = GetParam().key(random.Next());
    const std::string value = std::to_string(sequence);
    const ValueType type = random.OneIn(5) ? ValueType::kDeletion : ValueType::kValue;
    EXPECT_TRUE(memtable.Add(sequence, type, key, type == ValueType::kValue ? value : "", false));
    std::string internal_key;
    AppendInternalKey(&internal_key, key, sequence, type);
    model[internal_key] = type == ValueType::kValue ? value : "";
  }

  const std::unique_ptr<Iterator> iterator = memtable.NewIterator();
  iterator->SeekToFirst();
  for (const auto& [key, value] : model) {
    ASSERT_TRUE(iterator->Valid());
    ASSERT_EQ(iterator->key().ToString(), key);
    ASSERT_EQ(iterator->value().ToString(), value);
    iterator->Next();
  }
  EXPECT_FALSE(iterator->Valid());
  iterator->SeekToLast();
  for (auto at = model.rbegin(); at != model.rend(); ++at) {
    ASSERT_TRUE(iterator->Valid());
    ASSERT_EQ(iterator->key().ToString(), at->first);
    iterator->Prev();
  }
  EXPECT_FALSE(iterator->Valid());

  for (int i = 0; i < 5000; ++i) {
    const std::string key = GetParam().key(random.Next());
    const SequenceNumber sequence = random.Uniform(21000);
    const LookupKey target(key, sequence);
    const auto expected = model.lower_bound(target.internal_key().ToString());
    iterator->Seek(target.internal_key());
    ASSERT_EQ(iterator->Valid(), expected != model.end());
    if (expected != model.end()) {
      ASSERT_EQ(iterator->key().ToString(), expected->first);
    }

    const LookupResult found = Lookup(memtable, &sequencer, key, sequence);
    const bool present = expected != model.end() && ExtractUserKey(expected->first) == Slice(key);
    ASSERT_EQ(found.state != LookupState::kAbsent, present);
    if (present) {
      const bool value = TrailerType(ExtractTrailer(expected->first)) == ValueType::kValue;
      ASSERT_EQ(found.state, value ? LookupState::kFound : LookupState::kDeleted);
      ASSERT_EQ(found.value.ToString(), expected->second);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryShape, MemtableModelTest,
    testing::Values(KeyShape{"decimal", BytewiseComparator(), "", Decimal},
                    KeyShape{"decimal_guessed", BytewiseComparator(), "000000000000", Decimal},
                    KeyShape{"decimal_misguessed", BytewiseComparator(), "00000000000023", Decimal},
                    KeyShape{"binary", BytewiseComparator(), "", Binary},
                    KeyShape{"far_apart", BytewiseComparator(), "aaaaaaaaaa", FarApart},
                    KeyShape{"largest", BytewiseComparator(), "", Largest},
                    KeyShape{"reverse", ReverseBytewiseComparator(), "", Decimal}),
    [](const auto& shape) { return std::string(shape.param.name); });

// A reader that misses an entry whose write has ended, sees one out of order, or sees half of one
// breaks this; so does a lost insert.
TEST(MemtableTest, ReadersSeeEveryCompletedWriteOfManyWriters) {
  constexpr int kWriters = 4;
  constexpr uint64_t kEach = 8000;
  Sequencer sequencer(0);
  Memtable memtable(Bytewise(), 0, "", kMemtableBytes);
  std::atomic<uint64_t> completed[kWriters] = {};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      Random random(static_cast<uint64_t>(writer) + 1);
      for (uint64_t i = 0; i < kEach; ++i) {
        const Sequencer::Write write(sequencer, 1);
        // Bit-reversed: inserts all over the tree.
        const uint64_t number = (i * 0x9e3779b97f4a7c15u) >> 40;
        EXPECT_TRUE(memtable.Add(write.first(), ValueType::kValue,
                                 std::to_string(writer) + PaddedNumber(number),
                                 std::to_string(number), false));
        completed[writer].store(i + 1, std::memory_order_release);
      }
    });
  }
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&, reader] {
      Random random(static_cast<uint64_t>(reader) + 77);
      while (!done.load(std::memory_order_acquire)) {
        const auto writer = random.Uniform(kWriters);
        const uint64_t count = completed[writer].load(std::memory_order_acquire);
        if (count == 0) continue;
        const uint64_t number = (random.Uniform(count) * 0x9e3779b97f4a7c15u) >> 40;
        const LookupResult result =
            Lookup(memtable, &sequencer, std::to_string(writer) + PaddedNumber(number),
                   kSequenceNumberMax);
        ASSERT_EQ(result.state, LookupState::kFound);
        ASSERT_EQ(result.value.ToString(), std::to_string(number));
      }
    });
  }
  threads.emplace_back([&] {
    while (!done.load(std::memory_order_acquire)) {
      uint64_t before[kWriters];
      for (int i = 0; i < kWriters; ++i) before[i] = completed[i].load(std::memory_order_acquire);
      uint64_t seen[kWriters] = {};
      const std::unique_ptr<Iterator> iterator = memtable.NewIterator();
      std::string last;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        ASSERT_TRUE(last.empty() || Bytewise().Compare(last, iterator->key()) < 0);
        last = iterator->key().ToString();
        ++seen[last[0] - '0'];
      }
      for (int i = 0; i < kWriters; ++i) ASSERT_GE(seen[i], before[i]);
    }
  });
  for (int i = 0; i < kWriters; ++i) threads[static_cast<size_t>(i)].join();
  done.store(true, std::memory_order_release);
  for (size_t i = kWriters; i < threads.size(); ++i) threads[i].join();
}

// If Get showed an entry of a batch before the batch is complete, two keys of one batch could be
// seen in different states.
TEST(MemtableTest, BatchAppearsAtOnce) {
  Sequencer sequencer(0);
  Memtable memtable(Bytewise(), 0, "", kMemtableBytes);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int round = 1; round <= 4000; ++round) {
      const Sequencer::Write write(sequencer, 3);
      for (uint64_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(memtable.Add(write.first() + i, ValueType::kValue,
                                 std::string(1, static_cast<char>('a' + i)), std::to_string(round),
                                 true));
      }
    }
    done.store(true, std::memory_order_release);
  });
  const auto read = [&](const char* key) {
    const LookupResult result = Lookup(memtable, &sequencer, key, kSequenceNumberMax);
    return result.state == LookupState::kAbsent ? 0 : std::stoi(result.value.ToString());
  };
  while (!done.load(std::memory_order_acquire)) {
    // Written in the order a, b, c: whoever sees round n of `a` sees at least that of `c`.
    const int first = read("a");
    const int last = read("c");
    ASSERT_GE(last, first);
    const int middle = read("b");
    ASSERT_GE(middle, last);
  }
  writer.join();
}

// A snapshot that is settled while one of its writes is under way would change afterwards.
TEST(SequencerTest, SettledMeansNothingIsStillToCome) {
  Sequencer sequencer(0);
  Memtable memtable(Bytewise(), 0, "", kMemtableBytes);
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i) {
    writers.emplace_back([&, i] {
      for (int n = 0; n < 3000; ++n) {
        const Sequencer::Write write(sequencer, 1);
        if (n % 64 == 0) std::this_thread::yield();
        EXPECT_TRUE(memtable.Add(write.first(), ValueType::kValue,
                                 PaddedNumber(static_cast<uint64_t>(n)), std::to_string(i), false));
      }
    });
  }
  std::thread reader([&] {
    while (!done.load(std::memory_order_acquire)) {
      const SequenceNumber snapshot = sequencer.Now().next - 1;
      sequencer.WaitSettled(snapshot);
      SequenceNumber count = 0;
      const std::unique_ptr<Iterator> iterator = memtable.NewIterator();
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        count += TrailerSequence(ExtractTrailer(iterator->key())) <= snapshot ? 1 : 0;
      }
      ASSERT_EQ(count, snapshot);  // Every number up to the snapshot is one entry.
    }
  });
  for (std::thread& writer : writers) writer.join();
  done.store(true, std::memory_order_release);
  reader.join();
}

// Later numbers never get the epoch of an older memtable.
TEST(SequencerTest, SwitchDividesNumbersByEpoch) {
  Sequencer sequencer(41);
  {
    const Sequencer::Write write(sequencer, 2);
    EXPECT_EQ(write.first(), 42u);
    EXPECT_EQ(write.epoch(), MemtableEpoch{0});
    EXPECT_EQ(sequencer.OpenBatchOf(43), 42u);
    EXPECT_EQ(sequencer.OpenBatchOf(44), 0u);
  }
  EXPECT_EQ(sequencer.OpenBatchOf(43), 0u);
  EXPECT_EQ(sequencer.Switch(), 44u);
  const Sequencer::Write write(sequencer, 1);
  EXPECT_EQ(write.first(), 44u);
  EXPECT_EQ(write.epoch(), MemtableEpoch{1});
}

TEST(SequencerTest, EpochsWrapAround) {
  Sequencer sequencer(0);
  for (int i = 0; i < 256; ++i) (void)sequencer.Switch();
  EXPECT_EQ(sequencer.Now().epoch, MemtableEpoch{0});
  EXPECT_EQ(sequencer.Now().next, 1u);
}

// Adds entries until an allocation fails: the first, that `step` later, and so on. Fails if a node
// stays locked then, an entry is lost, or the one that failed cannot be added any more.
void AddUntilAllocationsFail(const InternalKeyComparator& comparator, uint64_t step) {
  constexpr SequenceNumber kEntries = 2500;
  const Watchdog watchdog(std::chrono::seconds(300));
  bool failed = true;
  for (uint64_t n = 1; failed; n += step) {
    SCOPED_TRACE(testing::Message() << "allocation " << n);
    Sequencer sequencer(0);
    Memtable memtable(comparator, 0, "", kMemtableBytes);
    SequenceNumber sequence = 1;
    const auto add = [&memtable, &sequence] {
      // Some in order, some anywhere.
      const uint64_t number = sequence % 3 == 0 ? sequence : sequence * 7919 % 100003;
      const bool added = memtable.Add(sequence, ValueType::kValue, "key" + PaddedNumber(number),
                                      PaddedNumber(sequence), false);
      if (added) ++sequence;
      return added;
    };
    {
      const port::FailingAllocations failing(n);
      while (sequence <= kEntries && add()) {
      }
      failed = failing.failed() > 0;
    }
    EXPECT_EQ(failed, sequence <= kEntries);
    const auto count = [&memtable] {
      SequenceNumber entries = 0;
      const std::unique_ptr<Iterator> iterator = memtable.NewIterator();
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++entries;
      return entries;
    };
    ASSERT_EQ(count(), sequence - 1);
    while (sequence <= kEntries) ASSERT_TRUE(add());
    ASSERT_EQ(count(), kEntries);
    for (sequence = 1; sequence <= kEntries; sequence += 7) {
      const uint64_t number = sequence % 3 == 0 ? sequence : sequence * 7919 % 100003;
      ASSERT_EQ(
          Lookup(memtable, &sequencer, "key" + PaddedNumber(number), sequence).value.ToString(),
          PaddedNumber(sequence));
    }
  }
}

// Of a record, a leaf, an inner node, a root, the prefix. Under a sanitizer, where each takes long,
// every third.
TEST(MemtableTest, AnyAllocationMayFail) {
  AddUntilAllocationsFail(Bytewise(), kUnderSanitizer ? 3 : 1);
}

// Those of a comparator, too, of which there are thirty thousand: of two keys in a leaf, in a node
// above it, or where that is to know of a new one.
TEST(MemtableTest, AnyComparisonMayLackMemory) {
  const AllocatingOrder order{};
  AddUntilAllocationsFail(InternalKeyComparator(&order), kUnderSanitizer ? 997 : 29);
}

// Fails if what a batch had added before it was given up is found by anybody, or hides what is
// older.
TEST(MemtableTest, AWithdrawnBatchIsNeverSeen) {
  constexpr uint64_t kKeys = 400;
  Sequencer sequencer(0);
  Memtable memtable(Bytewise(), 0, "", kMemtableBytes);
  std::map<std::string, std::string> model;
  const auto put_all = [&](uint64_t step) {
    for (uint64_t i = 0; i < kKeys; i += step) {
      const Sequencer::Write write(sequencer, 1);
      model[PaddedNumber(i)] = std::to_string(write.first());
      EXPECT_TRUE(memtable.Add(write.first(), ValueType::kValue, PaddedNumber(i),
                               model[PaddedNumber(i)], false));
    }
  };
  const auto expect_model = [&] {
    for (uint64_t i = 0; i < kKeys; ++i) {
      const LookupResult result = Lookup(memtable, &sequencer, PaddedNumber(i), kSequenceNumberMax);
      const auto expected = model.find(PaddedNumber(i));
      ASSERT_EQ(result.state == LookupState::kFound, expected != model.end()) << i;
      if (expected != model.end()) {
        ASSERT_EQ(result.value.ToString(), expected->second);
      }
    }
    const std::unique_ptr<Iterator> iterator = memtable.NewIterator();
    std::string newest;  // Key of the entry before.
    auto expected = model.begin();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      const std::string key = ExtractUserKey(iterator->key()).ToString();
      if (key == newest) continue;
      newest = key;
      ASSERT_NE(expected, model.end());
      ASSERT_EQ(key, expected->first);
      ASSERT_EQ(iterator->value().ToString(), expected->second);
      ++expected;
    }
    EXPECT_EQ(expected, model.end());
    iterator->Seek(LookupKey(PaddedNumber(1), kSequenceNumberMax).internal_key());
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(ExtractUserKey(iterator->key()), Slice(model.upper_bound(PaddedNumber(0))->first));
    iterator->SeekToLast();
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(ExtractUserKey(iterator->key()), Slice(model.rbegin()->first));
    size_t steps = 0;
    for (; iterator->Valid(); iterator->Prev()) ++steps;
    EXPECT_GE(steps, model.size());
  };
  for (int round = 0; round < 3; ++round) {
    put_all(4);
    {
      const uint32_t count = 2 * kKeys;
      const Sequencer::Write batch(sequencer, count);
      for (uint32_t i = 0; i < count; ++i) {  // Each key twice.
        EXPECT_TRUE(memtable.Add(batch.first() + i,
                                 i % 5 == 0 ? ValueType::kDeletion : ValueType::kValue,
                                 PaddedNumber(i % kKeys), "", true));
      }
      memtable.Withdraw(batch.first(), batch.first() + count - 1);
    }
    ASSERT_NO_FATAL_FAILURE(expect_model());
    put_all(3);
    ASSERT_NO_FATAL_FAILURE(expect_model());
  }
}

// The same for who reads meanwhile.
TEST(MemtableTest, ReadersPassOverBatchesThatAreBeingWithdrawn) {
  Sequencer sequencer(0);
  Memtable memtable(Bytewise(), 0, "", kMemtableBytes);
  for (uint64_t i = 0; i < 3; ++i) {
    const Sequencer::Write write(sequencer, 1);
    EXPECT_TRUE(memtable.Add(write.first(), ValueType::kValue, PaddedNumber(i), "good", false));
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      for (uint64_t i = 0; !stop.load(); ++i) {
        const LookupResult result =
            Lookup(memtable, &sequencer, PaddedNumber(i % 3), kSequenceNumberMax);
        ASSERT_EQ(result.state, LookupState::kFound);
        ASSERT_EQ(result.value, Slice("good"));
      }
    });
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  for (int round = 0; std::chrono::steady_clock::now() < until; ++round) {
    constexpr uint32_t kEntries = 6;
    const Sequencer::Write write(sequencer, kEntries);
    const bool withdrawn = round % 4 != 0;
    for (uint32_t i = 0; i < kEntries; ++i) {
      EXPECT_TRUE(memtable.Add(write.first() + i, ValueType::kValue, PaddedNumber(i % 3),
                               withdrawn ? "bad" : "good", true));
    }
    if (withdrawn) memtable.Withdraw(write.first(), write.first() + kEntries - 1);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace dlsm
