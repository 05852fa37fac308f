#include "db/merge/merge_numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "util/status_testing.h"

namespace dlsm {
namespace {

using Numbers = std::vector<uint64_t>;

// Fails if the memory node is told of an answer what is not so, or of one that was lost less often
// than until it has heard of it.
TEST(MergeNumbersTest, WhatIsLostIsToldUntilItIsHeard) {
  MergeNumbers numbers;
  EXPECT_EQ(numbers.Answers().next, 1u);
  auto first = std::make_unique<MergeNumbers::Awaited>(&numbers);
  auto second = std::make_unique<MergeNumbers::Awaited>(&numbers);
  MergeNumber number;
  ASSERT_OK(first->Begin(&number));
  EXPECT_EQ(number.own, 1u);
  ASSERT_OK(second->Begin(&number));
  EXPECT_EQ(number.own, 2u);
  EXPECT_EQ(number.answers.next, 3u);
  EXPECT_EQ(number.answers.awaited, (Numbers{1, 2}));
  EXPECT_TRUE(number.answers.lost.empty());
  second.reset();
  const MergeAnswers told = numbers.Answers();
  EXPECT_EQ(told.awaited, Numbers{1});
  EXPECT_EQ(told.lost, Numbers{2});
  first.reset();
  EXPECT_EQ(numbers.Answers().lost, (Numbers{1, 2}));
  numbers.Told(told);
  EXPECT_EQ(numbers.Answers().lost, Numbers{1}) << "of this it was not told";
  {
    MergeNumbers::Awaited third(&numbers);
    ASSERT_OK(third.Begin(&number));
    EXPECT_EQ(number.own, 3u);
    EXPECT_EQ(number.answers.lost, Numbers{1});
    EXPECT_OK(third.Arrived());
  }
  EXPECT_EQ(numbers.Answers().next, 4u);
  EXPECT_EQ(numbers.Answers().lost, Numbers{1});
  EXPECT_TRUE(numbers.Answers().awaited.empty());
}

// Fails if more is told than a message can hold, or if merges do not begin again once the memory
// node has heard of it.
TEST(MergeNumbersTest, WhatIsToldIsBounded) {
  MergeNumbers numbers;
  MergeNumber number;
  std::vector<std::unique_ptr<MergeNumbers::Awaited>> awaited;
  for (size_t i = 0; i < MergeAnswers::kNumbersMax; ++i) {
    MergeNumbers::Awaited lost(&numbers);
    if (i % 2 == 0) {
      ASSERT_OK(lost.Begin(&number));
    } else {
      awaited.push_back(std::make_unique<MergeNumbers::Awaited>(&numbers));
      ASSERT_OK(awaited.back()->Begin(&number));
    }
  }
  const uint64_t next = numbers.Answers().next;
  {
    MergeNumbers::Awaited refused(&numbers);
    const Status status = refused.Begin(&number);
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
  }
  EXPECT_EQ(numbers.Answers().next, next);
  numbers.Told(numbers.Answers());
  MergeNumbers::Awaited more(&numbers);
  EXPECT_OK(more.Begin(&number));
  EXPECT_EQ(number.own, next);
}

// A memory node does not answer, neither merges nor heartbeats. Fails if who waits for merges is
// told that there are too many, which passes, once so many have failed.
TEST(MergeNumbersTest, WhatFailsForLongHasFailed) {
  MergeNumbers numbers;
  MergeNumber number;
  MergeNumbers::Awaited under_way(&numbers);
  ASSERT_OK(under_way.Begin(&number));
  for (size_t i = 1; i < MergeAnswers::kNumbersMax; ++i) {
    ASSERT_OK(MergeNumbers::Awaited(&numbers).Begin(&number));
  }
  EXPECT_TRUE(MergeNumbers::Awaited(&numbers).Begin(&number).IsIOError());
  numbers.Told(numbers.Answers());
  EXPECT_OK(MergeNumbers::Awaited(&numbers).Begin(&number));
}

// Fails if an answer is taken which the memory node has been told, or is about to be told, that
// nobody waits for: what it names may be somebody else's by then. Or if more is asked for, or what
// has been told is told again.
TEST(MergeNumbersTest, WhatIsGivenUpIsLostWhateverComes) {
  MergeNumbers numbers;
  MergeNumber number;
  {
    MergeNumbers::Awaited arrives(&numbers);
    MergeNumbers::Awaited does_not(&numbers);
    ASSERT_OK(arrives.Begin(&number));
    ASSERT_OK(does_not.Begin(&number));
    numbers.GiveUp();
    const MergeAnswers told = numbers.Answers();
    EXPECT_TRUE(told.awaited.empty());
    EXPECT_EQ(told.lost, (Numbers{1, 2}));
    EXPECT_TRUE(arrives.Arrived().IsAborted());
    EXPECT_EQ(numbers.Answers().lost, (Numbers{1, 2}));
    numbers.Told(told);
  }
  EXPECT_TRUE(numbers.Answers().lost.empty());
  MergeNumbers::Awaited more(&numbers);
  EXPECT_TRUE(more.Begin(&number).IsAborted());
  EXPECT_EQ(numbers.Answers().next, 3u);
}

}  // namespace
}  // namespace dlsm
