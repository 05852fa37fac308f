#include "db/memtable/memtable_filter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/test/test_database_testing.h"
#include "util/hash.h"

namespace dlsm {
namespace {

uint64_t HashOf(uint64_t number) { return Hash64(std::to_string(number)); }

TEST(MemtableFilterTest, WithoutASizeItIsNotActive) {
  EXPECT_FALSE(MemtableFilter(0).active());
  EXPECT_TRUE(MemtableFilter(1).active());
}

// Fails if a key that was added is missed, or if more than one in fifty of the others passes in a
// memtable of entries of 420 bytes.
TEST(MemtableFilterTest, MissesNothingAndPassesFew) {
  constexpr size_t kBytes = size_t{8} << 20;
  constexpr uint64_t kKeys = kBytes / 420;
  MemtableFilter filter(kBytes);
  for (uint64_t i = 0; i < kKeys; ++i) filter.Add(HashOf(i));
  uint64_t passed = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(filter.MayContain(HashOf(i))) << i;
    passed += filter.MayContain(HashOf(kKeys + i)) ? 1 : 0;
  }
  EXPECT_LT(passed, kKeys / 50);
}

// Fails if threads that set bits of one word lose each other's.
TEST(MemtableFilterTest, NothingIsLostBetweenThreads) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEach = 20'000;
  for (int round = 0; round < 5; ++round) {
    MemtableFilter filter(1);  // One word or two.
    MemtableFilter larger(size_t{2} << 20);
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint64_t i = thread; i < kEach; i += kThreads) {
          filter.Add(HashOf(i));
          larger.Add(HashOf(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (uint64_t i = 0; i < kEach; ++i) {
      ASSERT_TRUE(filter.MayContain(HashOf(i)));
      ASSERT_TRUE(larger.MayContain(HashOf(i)));
    }
  }
}

uint64_t PassedOver(DB* db) {
  std::string text;
  EXPECT_TRUE(db->GetProperty("dlsm.stats", &text));
  const size_t at = text.find("dlsm.memtable.filter.useful");
  return at == std::string::npos ? 0 : std::stoull(text.substr(at + 27));
}

// Fails if memtables are searched for what they do not have, or not searched for what they have.
TEST(MemtableFilterTest, SparesLookupsTheSearch) {
  const std::unique_ptr<DB> db = OpenOrDie(TinyOptions(), "memtable-filter");
  for (int i = 0; i < 100; ++i) ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), "v"));
  const uint64_t before = PassedOver(db.get());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(GetOr(db.get(), NumberedKey(i)), "v");
    EXPECT_EQ(GetOr(db.get(), NumberedKey(1000 + i)), "(none)");
  }
  EXPECT_GT(PassedOver(db.get()), before + 50);
  EXPECT_LE(PassedOver(db.get()), before + 100);
}

// Finds letters equal whatever their case.
class AnyCase final : public Comparator {
 public:
  const char* Name() const override { return "test.AnyCase"; }
  int Compare(const Slice& a, const Slice& b) const override { return Lower(a).compare(Lower(b)); }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

 private:
  static std::string Lower(const Slice& key) {
    std::string lower = key.ToString();
    for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return lower;
  }
};

// Fails if the filter speaks of bytes where the comparator finds different bytes equal.
TEST(MemtableFilterTest, OtherComparatorsDecideWhatIsEqual) {
  static const AnyCase comparator;
  Options options = TinyOptions();
  options.comparator = &comparator;
  const std::unique_ptr<DB> db = OpenOrDie(options, "any-case");
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), "KEY" + std::to_string(i), std::to_string(i)));
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(GetOr(db.get(), "kEy" + std::to_string(i)), std::to_string(i));
  }
}

}  // namespace
}  // namespace dlsm
