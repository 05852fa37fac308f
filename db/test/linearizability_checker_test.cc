#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/test/linearizability_checker_testing.h"
#include "util/random.h"
#include "util/rounds_testing.h"

namespace dlsm {
namespace {

using VerdictOutcome = Verdict::Outcome;

Operation Write(Tick called, Tick returned, std::vector<Access> accesses) {
  return {Operation::Kind::kWrite, 0, "Write", called, returned, std::move(accesses)};
}
Operation Read(Tick called, Tick returned, std::vector<Access> accesses) {
  return {Operation::Kind::kRead, 0, "Read", called, returned, std::move(accesses)};
}
Operation Put(Tick called, Tick returned, uint64_t value) {
  return Write(called, returned, {{0, value}});
}
Operation Get(Tick called, Tick returned, uint64_t value) {
  return Read(called, returned, {{0, value}});
}

void ExpectLinearizable(const History& history) {
  const Verdict verdict = CheckLinearizability(history);
  EXPECT_EQ(verdict.outcome, VerdictOutcome::kLinearizable) << verdict;
}
// `operations` are those of the smallest counterexample.
void ExpectViolation(const History& history, size_t operations) {
  const Verdict verdict = CheckLinearizability(history);
  ASSERT_EQ(verdict.outcome, VerdictOutcome::kViolation);
  EXPECT_EQ(verdict.counterexample.size(), operations) << verdict;
  EXPECT_EQ(CheckLinearizability(verdict.counterexample).outcome, VerdictOutcome::kViolation);
  EXPECT_NE(verdict.explanation.find("unexplained"), std::string::npos);
}

// Fails if what may have happened is taken for an error.
TEST(LinearizabilityCheckerTest, OverlappingOperationsHaveAnyOrder) {
  ExpectLinearizable({});
  ExpectLinearizable({Get(1, 2, kNoValue)});
  ExpectLinearizable({Put(1, 2, 7), Get(3, 4, 7)});
  ExpectLinearizable({Put(1, 4, 7), Get(2, 3, 7)});
  ExpectLinearizable({Put(1, 4, 7), Get(2, 3, kNoValue)});
  ExpectLinearizable({Put(1, 10, 7), Get(2, 3, kNoValue), Get(4, 5, 7)});
  ExpectLinearizable({Put(1, 10, 7), Put(2, 9, 8), Get(11, 12, 7), Get(13, 14, 7)});
  ExpectLinearizable({Put(1, 10, 7), Put(2, 9, 8), Get(11, 12, 8)});
  ExpectLinearizable({Put(1, 2, 7), Put(3, 9, 8), Put(4, 8, kNoValue), Get(5, 6, 7), Get(5, 10, 8),
                      Get(11, 12, kNoValue)});
  // The same tick does not order anything.
  ExpectLinearizable({Put(1, 2, 7), Get(2, 3, kNoValue)});
}

// Fails if a stale read, a lost update, a value from the future, a value that nobody wrote, a
// deleted value that is back, or an order on which two readers disagree, goes unnoticed.
TEST(LinearizabilityCheckerTest, FindsWhatCannotBe) {
  ExpectViolation({Put(1, 2, 7), Put(3, 4, 8), Get(5, 6, 7)}, 3);
  ExpectViolation({Put(1, 2, 7), Get(3, 4, kNoValue)}, 2);
  ExpectViolation({Get(1, 2, 7), Put(3, 4, 7)}, 1);
  ExpectViolation({Get(1, 2, 9)}, 1);
  ExpectViolation({Put(1, 2, 7), Put(3, 4, kNoValue), Get(5, 6, 7)}, 3);
  ExpectViolation({Put(1, 2, 7), Put(3, 4, kNoValue), Get(5, 6, kNoValue), Get(7, 8, 7)}, 3);
  ExpectViolation({Put(1, 10, 7), Get(2, 3, 7), Get(4, 5, kNoValue)}, 3);
  ExpectViolation({Put(1, 10, 7), Put(2, 10, 8), Get(11, 12, 7), Get(13, 14, 8)}, 4);
  ExpectViolation({Put(1, 20, 7), Put(1, 20, 8), Get(2, 3, 7), Get(4, 5, 8), Get(6, 7, 7)}, 5);
}

// Fails if writes that have told what they saw take effect elsewhere, or if a counterexample leaves
// out what such a write saw, and is one by that alone.
TEST(LinearizabilityCheckerTest, WritesTakeEffectWhereTheySawWhatWasThere) {
  const auto add = [](Tick called, Tick returned, uint64_t result) {
    Operation operation = Put(called, returned, result);
    operation.name = "Add";
    operation.saw = {{0, result - 1}};
    return operation;
  };
  ExpectLinearizable({add(1, 2, 1), add(3, 4, 2), Get(5, 6, 2)});
  ExpectLinearizable({add(1, 9, 3), add(2, 8, 1), add(3, 7, 2), Get(4, 10, 1)});
  ExpectLinearizable({Put(1, 9, 5), add(2, 8, 1), add(3, 7, 6), Get(10, 11, 6)});
  // An addition is lost, or comes before what it added to.
  ExpectViolation({add(1, 2, 1), add(3, 4, 1)}, 2);
  ExpectViolation({add(1, 6, 1), add(2, 5, 1), add(3, 4, 2)}, 2);
  ExpectViolation({add(1, 2, 2), add(3, 4, 1)}, 1);
  ExpectViolation({Put(1, 2, 7), add(3, 4, 8), Put(5, 6, 9), add(7, 8, 9)}, 4);
}

// Fails if an unknown outcome is taken for success, for failure, or for something that must have
// happened before the error.
TEST(LinearizabilityCheckerTest, UnknownWritesHappenLaterOrNever) {
  ExpectLinearizable({Put(1, kNever, 7), Get(3, 4, kNoValue)});
  ExpectLinearizable({Put(1, kNever, 7), Get(3, 4, 7)});
  ExpectLinearizable({Put(1, kNever, 7), Get(3, 4, kNoValue), Get(5, 6, 7)});
  ExpectLinearizable({Put(1, kNever, 7), Put(3, 4, 8), Get(5, 6, 8), Get(7, 8, 7)});
  ExpectLinearizable({Put(1, 2, 7), Put(3, kNever, kNoValue), Get(5, 6, 7), Get(7, 8, kNoValue)});
  ExpectViolation({Put(1, kNever, 7), Get(3, 4, 7), Get(5, 6, kNoValue)}, 3);
  ExpectViolation({Get(1, 2, 7), Put(3, kNever, 7)}, 1);
  // It happens at most once.
  ExpectViolation({Put(1, kNever, 7), Get(3, 4, 7), Put(5, 6, 8), Get(7, 8, 7)}, 4);
  // Two of a kind, twice; three times is too often.
  History history = {Put(1, kNever, kNoValue), Put(2, kNever, kNoValue)};
  for (Tick tick = 10; tick < 30; tick += 10) {
    history.push_back(Put(tick, tick + 1, tick));
    history.push_back(Get(tick + 2, tick + 3, tick));
    history.push_back(Get(tick + 4, tick + 5, kNoValue));
  }
  ExpectLinearizable(history);
  history.push_back(Put(50, 51, 9));
  history.push_back(Get(52, 53, kNoValue));
  EXPECT_EQ(CheckLinearizability(history).outcome, VerdictOutcome::kViolation);
}

// Fails if registers are checked each by itself though operations connect them.
TEST(LinearizabilityCheckerTest, SeveralRegistersAtOneMoment) {
  ExpectLinearizable({Write(1, 4, {{0, 7}, {1, 7}}), Read(2, 3, {{0, 7}, {1, 7}})});
  ExpectLinearizable({Write(1, 4, {{0, 7}, {1, 7}}), Read(2, 3, {{1, 0}, {0, 0}})});
  ExpectViolation({Write(1, 4, {{0, 7}, {1, 7}}), Read(2, 3, {{0, 7}, {1, kNoValue}})}, 2);
  ExpectLinearizable({Write(1, 9, {{0, 7}, {1, 7}}), Read(2, 3, {{0, kNoValue}}),
                      Read(4, 5, {{1, 7}}), Read(6, 7, {{0, 7}})});
  // Each register by itself has an order, but the second write is seen without the first.
  const History causes = {Write(1, 2, {{0, 7}}), Write(3, 4, {{1, 8}}),
                          Read(1, 5, {{0, kNoValue}, {1, 8}})};
  ExpectViolation(causes, 3);
  ExpectLinearizable(CutIntoRegisters(causes));
  // Two readers who disagree about the order of two writes.
  const History forks = {Write(1, 9, {{0, 7}}), Write(1, 9, {{1, 8}}),
                         Read(2, 8, {{0, 7}, {1, kNoValue}}), Read(2, 8, {{0, kNoValue}, {1, 8}})};
  ExpectViolation(forks, 4);
  ExpectLinearizable(CutIntoRegisters(forks));
  // An unknown write is seen, covered in one register, and still there in the other.
  ExpectLinearizable({Write(1, kNever, {{0, 7}, {1, 7}}), Write(3, 9, {{0, 8}}),
                      Read(4, 8, {{0, 8}, {1, kNoValue}}), Read(10, 11, {{0, 7}, {1, 7}})});
  ExpectLinearizable(
      {Write(1, kNever, {{0, 7}, {1, 7}}), Write(3, 9, {{0, 8}}), Read(10, 11, {{0, 8}, {1, 7}})});
  ExpectViolation({Write(1, kNever, {{0, 7}, {1, 7}}), Read(10, 11, {{0, 7}, {1, kNoValue}})}, 2);
}

// Fails if a violation drowns in what has nothing to do with it.
TEST(LinearizabilityCheckerTest, TheCounterexampleIsSmallAndReadable) {
  History history;
  for (uint64_t i = 1; i <= 2000; ++i) {
    history.push_back(Put(10 * i, 10 * i + 15, i));
    history.push_back(Get(10 * i + 16, 10 * i + 18, i));
    history.push_back(Write(10 * i, 10 * i + 5, {{5, i}}));
  }
  ExpectLinearizable(history);
  history.push_back(Get(15000, 15003, 1400));
  history.back().thread = 3;
  history.back().name = "MultiGet";
  ExpectViolation(history, 4);
  const std::string text = CheckLinearizability(history).explanation;
  EXPECT_NE(text.find("4 of 4001 operations"), std::string::npos) << text;
  EXPECT_NE(text.find("thread 3  MultiGet  register 0 = 1400  [15000, 15003]  <- unexplained"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("|-|"), std::string::npos) << text;
}

// Fails if a key that is absent too late is shown with all its deletions, or as if it had never
// been deleted.
TEST(LinearizabilityCheckerTest, TheCounterexampleHasTheDeletionsThatMatter) {
  History history;
  for (uint64_t i = 1; i <= 500; ++i) {
    history.push_back(Put(10 * i, 10 * i + 1, i));
    history.push_back(Put(10 * i + 2, 10 * i + 3, kNoValue));
    history.push_back(Get(10 * i + 4, 10 * i + 5, kNoValue));
  }
  ExpectLinearizable(history);
  history.push_back(Put(6000, 6001, 1000));
  history.push_back(Put(6002, 6009, kNoValue));
  history.push_back(Get(6003, 6004, kNoValue));
  history.push_back(Get(6005, 6006, 1000));
  ExpectViolation(history, 4);
}

// Fails if what was given up is called linearizable.
TEST(LinearizabilityCheckerTest, LimitsLeaveItUndecided) {
  const History history = {Put(1, 9, 7), Put(2, 8, 8), Put(3, 7, 9), Get(10, 11, 7)};
  CheckerLimits limits;
  limits.time = std::chrono::nanoseconds(0);
  EXPECT_EQ(CheckLinearizability(history, limits).outcome, VerdictOutcome::kUndecided);
  limits = CheckerLimits();
  limits.configurations = 2;
  const Verdict verdict = CheckLinearizability(history, limits);
  EXPECT_EQ(verdict.outcome, VerdictOutcome::kUndecided);
  EXPECT_NE(verdict.explanation.find("undecided"), std::string::npos);
  History crowd;
  for (uint64_t i = 1; i <= 65; ++i) crowd.push_back(Put(i, 100, i));
  EXPECT_EQ(CheckLinearizability(crowd).outcome, VerdictOutcome::kUndecided);
}

// -------- Against brute force

// Tries every subset of the unknown writes and every order.
bool HasAnOrder(const History& history, std::vector<bool>* done,
                std::map<uint32_t, uint64_t>* registers) {
  Tick first_return = kNever;
  bool all_done = true;
  for (size_t i = 0; i < history.size(); ++i) {
    if ((*done)[i] || history[i].unknown()) continue;
    all_done = false;
    first_return = std::min(first_return, history[i].returned);
  }
  if (all_done) return true;
  for (size_t i = 0; i < history.size(); ++i) {
    const Operation& next = history[i];
    if ((*done)[i] || next.called > first_return) continue;
    const std::map<uint32_t, uint64_t> before = *registers;
    bool fits = true;
    for (const Access& access : next.accesses) {
      uint64_t& value = (*registers)[access.register_index];
      if (next.writes()) {
        value = access.value;
      } else {
        fits &= value == access.value;
      }
    }
    (*done)[i] = true;
    if (fits && HasAnOrder(history, done, registers)) return true;
    (*done)[i] = false;
    *registers = before;
  }
  return false;
}

History RandomHistory(Random* random) {
  const uint64_t registers = 1 + random->Uniform(3);
  const bool distinct = random->OneIn(2);
  const uint64_t unknown = random->OneIn(2) ? 8 : 2;  // One in so many writes.
  History history;
  for (uint64_t i = 1 + random->Uniform(7); i > 0; --i) {
    Operation& operation = history.emplace_back();
    operation.name = "operation";
    operation.kind = random->OneIn(2) ? Operation::Kind::kRead : Operation::Kind::kWrite;
    operation.called = 1 + random->Uniform(12);
    operation.returned = operation.called + 1 + random->Uniform(6);
    if (operation.writes() && random->OneIn(unknown)) operation.returned = kNever;
    const uint64_t which = 1 + random->Uniform((uint64_t{1} << registers) - 1);
    for (uint32_t r = 0; r < registers; ++r) {
      if ((which >> r & 1) == 0) continue;
      const uint64_t value =
          operation.writes() && distinct && !random->OneIn(4) ? 2 + i : random->Uniform(4);
      operation.accesses.push_back({r, value});
    }
  }
  // Reads of what was written are more telling than reads of anything.
  for (Operation& operation : history) {
    if (operation.writes() || random->OneIn(4)) continue;
    for (Access& access : operation.accesses) {
      access.value = history[random->Uniform(history.size())].accesses.front().value;
    }
  }
  return history;
}

// Fails if the checker's short cuts change what it says.
TEST(LinearizabilityCheckerTest, AgreesWithBruteForce) {
  Random random(1);
  size_t linearizable = 0;
  constexpr size_t kHistories = Rounds(50000);
  for (size_t i = 0; i < kHistories; ++i) {
    const History history = RandomHistory(&random);
    std::vector<bool> done(history.size());
    std::map<uint32_t, uint64_t> registers;
    const bool expected = HasAnOrder(history, &done, &registers);
    linearizable += expected;
    const Verdict verdict = CheckLinearizability(history);
    if (verdict.outcome !=
        (expected ? VerdictOutcome::kLinearizable : VerdictOutcome::kViolation)) {
      std::string text;
      for (const Operation& operation : history) {
        text += "[" + std::to_string(operation.called) + ", " + std::to_string(operation.returned) +
                "] " + DescribeAccesses(operation) + "\n";
      }
      FAIL() << "history " << i << " is " << (expected ? "" : "not ") << "linearizable:\n"
             << text << verdict;
    }
    if (expected) continue;
    // What is left of a violation is one.
    done.assign(verdict.counterexample.size(), false);
    registers.clear();
    ASSERT_FALSE(HasAnOrder(verdict.counterexample, &done, &registers)) << verdict;
  }
  EXPECT_GT(linearizable, kHistories / 10);
  EXPECT_LT(linearizable, kHistories - kHistories / 10);
}

// -------- With the recorder

// Fails if the recorder's order is not that of what happened, if a correct register of several
// threads is found wrong, or if thousands of operations are too much.
TEST(LinearizabilityCheckerTest, RealThreadsOnARealRegister) {
  constexpr int kThreads = 6;
  constexpr uint64_t kOperations = 4000;
  HistoryRecorder recorder(kThreads);
  std::atomic<uint64_t> reg{kNoValue};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      HistoryRecorder::Log& log = recorder.LogOf(t);
      Random random(static_cast<uint64_t>(t));
      for (uint64_t i = 1; i <= kOperations; ++i) {
        Operation operation = random.OneIn(2)
                                  ? Get(log.Now(), kNever, 0)
                                  : Put(log.Now(), kNever, i * kThreads + static_cast<uint64_t>(t));
        uint64_t& value = operation.accesses.front().value;
        if (operation.writes()) {
          reg.store(value);
        } else {
          value = reg.load();
        }
        operation.returned = log.Now();
        log.Add(std::move(operation));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  History history = recorder.Collect();
  ASSERT_EQ(history.size(), kThreads * kOperations);
  ExpectLinearizable(history);
  // One read in the middle that is a little behind.
  const auto late = std::ranges::find_if(history, [](const Operation& operation) {
    return !operation.writes() && operation.called > kThreads * kOperations;
  });
  ASSERT_NE(late, history.end());
  late->accesses.front().value = kNoValue;
  EXPECT_EQ(CheckLinearizability(history).outcome, VerdictOutcome::kViolation);
}

}  // namespace
}  // namespace dlsm
