#include "benchmarks/step_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "benchmarks/value_generator.h"

namespace dlsm::bench {
namespace {

StreamDescription Describe(Order order, uint64_t num, uint32_t threads, uint16_t version = 1) {
  StreamDescription description;
  description.order = order;
  description.num = num;
  description.threads = threads;
  description.seed = 42;
  description.version = version;
  return description;
}

// Fails if threads overlap or leave out a key.
TEST(StepStreamTest, SharedOrdersVisitEachKeyOnce) {
  for (const Order order : {Order::kSequential, Order::kUnique}) {
    for (const uint32_t threads : {1u, 2u, 3u, 7u}) {
      const StreamPlan plan(Describe(order, 1000, threads));
      std::multiset<uint64_t> visited;
      for (uint32_t thread = 0; thread < threads; ++thread) {
        StepStream stream(plan, thread);
        for (uint64_t i = plan.PartBegin(thread); i < plan.PartBegin(thread + 1); ++i) {
          visited.insert(stream.Next().key_index);
        }
      }
      EXPECT_EQ(visited.size(), 1000u);
      EXPECT_EQ(std::set<uint64_t>(visited.begin(), visited.end()).size(), 1000u);
    }
  }
}

TEST(StepStreamTest, MoreThreadsThanKeysIsNoProblem) {
  const StreamPlan plan(Describe(Order::kSequential, 2, 5));
  for (uint32_t thread = 0; thread < 5; ++thread) {
    StepStream stream(plan, thread);
    for (int i = 0; i < 10; ++i) EXPECT_LT(stream.Next().key_index, 2u);
  }
}

TEST(StepStreamTest, SameDescriptionSameSteps) {
  StreamDescription description = Describe(Order::kRandom, 5000, 2);
  description.read_percent = 50;
  description.distribution = Distribution::kZipfian;
  const StreamPlan plan(description), again(description);
  StepStream one(plan, 1), same(again, 1), other(plan, 0);
  int differing = 0;
  for (int i = 0; i < 1000; ++i) {
    const Step step = one.Next(), repeated = same.Next(), different = other.Next();
    EXPECT_EQ(step.kind, repeated.kind);
    EXPECT_EQ(step.key_index, repeated.key_index);
    differing += step.key_index != different.key_index ? 1 : 0;
  }
  EXPECT_GT(differing, 500) << "threads must not do the same";
}

TEST(StepStreamTest, ReadShareIsWhatWasAsked) {
  StreamDescription description = Describe(Order::kRandom, 100, 1);
  description.read_percent = 90;
  const StreamPlan plan(description);
  StepStream stream(plan, 0);
  int reads = 0;
  for (int i = 0; i < 100'000; ++i) reads += stream.Next().kind == StepKind::kRead ? 1 : 0;
  EXPECT_NEAR(reads, 90'000, 600);
}

// Fails if replaying gives anything else than writing the steps down one by one.
TEST(WriteHistoryTest, ReplayIsWhatTheStepsLeave) {
  constexpr uint64_t kNum = 300;
  std::map<uint64_t, uint16_t> model;
  WriteHistory history;
  const auto run = [&](StreamDescription description, std::vector<uint64_t> steps) {
    description.version = history.NextVersion();
    const StreamPlan plan(description);
    for (uint32_t thread = 0; thread < steps.size(); ++thread) {
      StepStream stream(plan, thread);
      for (uint64_t i = 0; i < steps[thread]; ++i) {
        const Step step = stream.Next();
        if (step.kind == StepKind::kPut) model[step.key_index] = description.version;
        if (step.kind == StepKind::kDelete) model.erase(step.key_index);
        if (step.kind == StepKind::kDeleteRange) {
          model.erase(model.lower_bound(step.key_index),
                      model.lower_bound(step.key_index + kRangeKeys));
        }
      }
    }
    history.Add(description, std::move(steps));
  };
  StreamDescription deletes = Describe(Order::kRandom, kNum, 2);
  deletes.kind = StepKind::kDelete;
  StreamDescription mixed = Describe(Order::kRandom, kNum, 2);
  mixed.read_percent = 50;
  run(Describe(Order::kUnique, kNum, 2), {150, 150});
  run(deletes, {40, 60});
  StreamDescription ranges = Describe(Order::kRandom, kNum, 2);
  ranges.kind = StepKind::kDeleteRange;
  run(ranges, {1, 0});
  run(mixed, {100, 3});
  run(Describe(Order::kSequential, kNum, 2), {7, 0});

  const std::vector<uint16_t> versions = history.Replay(kNum);
  ASSERT_EQ(versions.size(), kNum);
  for (uint64_t i = 0; i < kNum; ++i) {
    EXPECT_EQ(versions[i], model.contains(i) ? model[i] : 0) << "key " << i;
  }
  EXPECT_GT(std::set<uint16_t>(versions.begin(), versions.end()).size(), 3u) << "a weak test";
  history.Clear();
  EXPECT_EQ(history.NextVersion(), 1u);
}

// Fails if verify could take an old value, or another key's, for the right one.
TEST(ValueGeneratorTest, ValuesTellKeyVersionAndSeed) {
  const ValueGenerator values(1, 400, 0.5), same(1, 400, 0.5), other(2, 400, 0.5);
  int equal = 0;
  for (uint64_t key = 0; key < 1000; ++key) {
    for (uint32_t version = 1; version < 4; ++version) {
      const Slice value = values.Value(key, version);
      EXPECT_EQ(value.size(), 400u);
      EXPECT_EQ(value, same.Value(key, version));
      equal += value == values.Value(key, version + 1) ? 1 : 0;
      equal += value == values.Value(key + 1, version) ? 1 : 0;
      equal += value == other.Value(key, version) ? 1 : 0;
    }
  }
  EXPECT_LE(equal, 1);
}

TEST(ValueGeneratorTest, AnySizeWorks) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{99}, size_t{5} << 20}) {
    const ValueGenerator values(7, bytes, 1);
    EXPECT_EQ(values.Value(3, 1).size(), bytes);
  }
}

}  // namespace
}  // namespace dlsm::bench
