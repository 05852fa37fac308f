#include "db/tree/level.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "db/test/bytewise_order_testing.h"
#include "db/tree/level_testing.h"
#include "db/tree/version.h"
#include "util/random.h"

namespace dlsm {
namespace {

using Numbers = std::vector<uint64_t>;

Numbers Candidates(const Level& level, const Slice& user_key,
                   SequenceNumber sequence = kSequenceNumberMax) {
  Numbers numbers;
  const LookupKey key(user_key, sequence);
  const Version version(Bytewise(), {level});
  version.ForEachCandidate(key, [&numbers](const Table& table, bool) {
    numbers.push_back(table.number());
    return true;
  });
  return numbers;
}

// Fails if a flush's tables do not go in front of those that are there, or lose their own order.
TEST(LevelTest, PutsAddedTablesInFrontWhereTheyOverlap) {
  const Level first = Level(kNewestFirst).With(Bytewise(), {}, MakeFakeTables({{1, "a", "m"}}));
  const Level level =
      first.With(Bytewise(), {}, MakeFakeTables({{3, "b", "z", 30, 30}, {2, "a", "c", 20, 20}}));
  EXPECT_EQ(NumbersOf(level.sentinel().tables), (Numbers{3, 2, 1}));
  EXPECT_EQ(NumbersOf(first.sentinel().tables), Numbers{1}) << "a level is immutable";
}

// Fails if a merge's tables are not sorted in among those that stay.
TEST(LevelTest, SortsAddedTablesInWhereTheyAreDisjoint) {
  Level level = Level(kByKey).With(Bytewise(), {},
                                   MakeFakeTables({{1, "a", "b"}, {2, "g", "h"}, {3, "x", "y"}}));
  level = level.With(Bytewise(), {2}, MakeFakeTables({{5, "f", "h"}, {4, "c", "d"}}));
  EXPECT_EQ(NumbersOf(level.AllTables()), (Numbers{1, 4, 5, 3}));
  EXPECT_OK(level.CheckInvariants(Bytewise()));
}

// Fails if a table is looked for, put into or taken from a guard other than its own. The guard's
// key itself belongs to the guard.
TEST(LevelTest, KeepsEachTableInItsGuard) {
  Level level = MakeLevel({{"", kNewestFirst, {{1, "a", "c"}}},
                           {"g", kNewestFirst, {{2, "g", "k"}}},
                           {"p", kNewestFirst, {{3, "q", "z"}}}});
  level =
      level.With(Bytewise(), {3},
                 MakeFakeTables({{7, "p", "r", 9, 9}, {6, "h", "i", 9, 9}, {5, "b", "f", 9, 9}}));
  EXPECT_OK(level.CheckInvariants(Bytewise()));
  EXPECT_EQ(NumbersOf(level.sentinel().tables), (Numbers{5, 1}));
  EXPECT_EQ(NumbersOf(level.guards()[0].tables), (Numbers{6, 2}));
  EXPECT_EQ(NumbersOf(level.guards()[1].tables), Numbers{7});
  EXPECT_EQ(&level.GuardFor(Bytewise(), ""), &level.sentinel());
  EXPECT_EQ(&level.GuardFor(Bytewise(), "fzzz"), &level.sentinel());
  EXPECT_EQ(&level.GuardFor(Bytewise(), "g"), &level.guards()[0]);
  EXPECT_EQ(&level.GuardFor(Bytewise(), "ozzz"), &level.guards()[0]);
  EXPECT_EQ(&level.GuardFor(Bytewise(), "p"), &level.guards()[1]);
  EXPECT_EQ(&level.GuardFor(Bytewise(), "zzzz"), &level.guards()[1]);
  EXPECT_EQ(Candidates(level, "h"), (Numbers{6, 2}));
  EXPECT_EQ(Candidates(level, "b"), (Numbers{5, 1}));
  EXPECT_EQ(Candidates(level, "p"), Numbers{7});
  EXPECT_EQ(level.table_count(), 5u);
  EXPECT_EQ(level.bytes(), 5u * 64);
}

// Fails if a lookup visits tables in an order other than newest first, or ones that cannot hold the
// key, or goes on after it was told to stop.
TEST(LevelTest, VisitsOverlappingTablesNewestFirst) {
  const Level level = Level(kNewestFirst)
                          .With(Bytewise(), {},
                                MakeFakeTables({{4, "k", "z", 40, 40},
                                                {3, "a", "j", 30, 30},
                                                {2, "a", "k", 20, 20},
                                                {1, "k", "k", 10, 10}}));
  EXPECT_EQ(Candidates(level, "k"), (Numbers{4, 2})) << "2 has a newer version than 1";
  EXPECT_EQ(Candidates(level, "k", 15), (Numbers{4, 1}));
  EXPECT_EQ(Candidates(level, "j"), (Numbers{3, 2}));
  EXPECT_EQ(Candidates(level, "zz"), Numbers{});
  int visited = 0;
  const LookupKey key("k", kSequenceNumberMax);
  Version(Bytewise(), {level}).ForEachCandidate(key, [&visited](const Table&, bool) {
    ++visited;
    return false;
  });
  EXPECT_EQ(visited, 1);
}

// Fails if, of two tables that share a user key, a lookup takes the one without the newest version
// that it may see.
TEST(LevelTest, FindsTheTableOfTheVisibleVersion) {
  const Level level = Level(kByKey).With(
      Bytewise(), {},
      MakeFakeTables({{1, "a", "k", 99, 20}, {2, "k", "k", 19, 8}, {3, "k", "z", 7, 1}}));
  EXPECT_OK(level.CheckInvariants(Bytewise()));
  EXPECT_EQ(Candidates(level, "k"), Numbers{1});
  EXPECT_EQ(Candidates(level, "k", 20), Numbers{1});
  EXPECT_EQ(Candidates(level, "k", 19), Numbers{2});
  EXPECT_EQ(Candidates(level, "k", 8), Numbers{2});
  EXPECT_EQ(Candidates(level, "k", 7), Numbers{3});
  EXPECT_EQ(Candidates(level, "k", 1), Numbers{3});
  EXPECT_EQ(Candidates(level, "0"), Numbers{}) << "before the first table";
  EXPECT_EQ(Candidates(level, "zz"), Numbers{}) << "behind the last table";
}

// Fails if a lookup between two tables names one of them.
TEST(LevelTest, HasNoCandidateInAGap) {
  const Level level =
      Level(kByKey).With(Bytewise(), {}, MakeFakeTables({{1, "b", "d"}, {2, "g", "k"}}));
  EXPECT_EQ(Candidates(level, "e"), Numbers{});
  EXPECT_EQ(Candidates(level, "d"), Numbers{1});
  EXPECT_EQ(Candidates(level, "g"), Numbers{2});
}

// Fails if a bound of a range is not inclusive, or a missing one not unbounded.
TEST(LevelTest, OverlapIncludesBothEnds) {
  const Level level = Level(kByKey).With(
      Bytewise(), {}, MakeFakeTables({{1, "b", "d"}, {2, "g", "k"}, {3, "m", "m"}}));
  const auto overlapping = [&level](const Slice* begin, const Slice* end) {
    return NumbersOf(level.Overlapping(Bytewise(), begin, end));
  };
  const Slice d = "d";
  const Slice e = "e";
  const Slice f = "f";
  const Slice g = "g";
  const Slice m = "m";
  EXPECT_EQ(overlapping(nullptr, nullptr), (Numbers{1, 2, 3}));
  EXPECT_EQ(overlapping(&d, &g), (Numbers{1, 2}));
  EXPECT_EQ(overlapping(&e, &f), Numbers{});
  EXPECT_EQ(overlapping(nullptr, &d), Numbers{1});
  EXPECT_EQ(overlapping(&m, nullptr), Numbers{3});
  EXPECT_EQ(overlapping(&g, &d), Numbers{}) << "an empty range";
}

// Fails if one of the invariants that the header names goes unchecked.
TEST(LevelTest, InvariantsNameEachViolation) {
  struct Case {
    const char* name;
    std::vector<GuardSketch> guards;
    bool ok;
  };
  const std::vector<Case> cases = {
      {"empty", {{"", kByKey, {}}}, true},
      {"ends in reverse", {{"", kByKey, {{1, "m", "a"}}}}, false},
      {"versions in reverse", {{"", kByKey, {{1, "k", "k", 3, 9}}}}, false},
      {"overlap by key", {{"", kByKey, {{1, "a", "m"}, {2, "k", "z"}}}}, false},
      {"out of order", {{"", kByKey, {{1, "k", "m"}, {2, "a", "b"}}}}, false},
      {"same internal key", {{"", kByKey, {{1, "a", "k", 1, 5}, {2, "k", "z", 5, 1}}}}, false},
      {"shared user key", {{"", kByKey, {{1, "a", "k", 1, 5}, {2, "k", "z", 4, 1}}}}, true},
      {"overlap in a run", {{"", kNewestFirst, {{1, "a", "m", 9, 9}, {2, "k", "z", 3, 3}}}}, true},
      {"before the guard", {{"", kByKey, {}}, {"g", kByKey, {{1, "f", "h"}}}}, false},
      {"into the next guard",
       {{"", kByKey, {}}, {"g", kByKey, {{1, "g", "p"}}}, {"p", kByKey, {}}},
       false},
      {"sentinel into a guard", {{"", kByKey, {{1, "a", "g"}}}, {"g", kByKey, {}}}, false},
      {"guards in reverse", {{"", kByKey, {}}, {"p", kByKey, {}}, {"g", kByKey, {}}}, false},
      {"guards twice", {{"", kByKey, {}}, {"g", kByKey, {}}, {"g", kByKey, {}}}, false},
      {"up to the guard", {{"", kByKey, {{1, "a", "fz"}}}, {"g", kByKey, {{2, "g", "z"}}}}, true},
  };
  for (const Case& test : cases) {
    const Status status = MakeLevel(test.guards).CheckInvariants(Bytewise());
    EXPECT_EQ(status.ok(), test.ok) << test.name << ": " << status.ToString();
    EXPECT_TRUE(status.ok() || status.IsCorruption()) << test.name;
  }
}

// Fails if a run whose older tables lie in front goes unnoticed: lookups would return old versions.
TEST(LevelTest, InvariantsNameOldTablesInFront) {
  const Level wrong = MakeLevel({{"", kNewestFirst, {{1, "a", "m", 5, 9}, {2, "k", "z", 15, 12}}}});
  EXPECT_TRUE(wrong.CheckInvariants(Bytewise()).IsCorruption());
  const Level apart = MakeLevel({{"", kNewestFirst, {{1, "a", "c", 5, 9}, {2, "k", "z", 15, 12}}}});
  EXPECT_OK(apart.CheckInvariants(Bytewise())) << "no key is in both";
  // Of one memtable: sequence numbers are mixed, versions of the key at the seam are not.
  const Level split = MakeLevel({{"", kNewestFirst, {{1, "a", "k", 5, 9}, {2, "k", "z", 8, 12}}}});
  EXPECT_OK(split.CheckInvariants(Bytewise()));
}

// Whatever is added and removed, lookups find what a plain list of tables says.
TEST(LevelTest, AgreesWithAListOfTables) {
  Random random(17);
  for (int round = 0; round < 50; ++round) {
    std::vector<FakeTable> tables;  // Disjoint, ascending.
    uint64_t number = 1;
    for (char c = 'a'; c <= 'z'; ++c) {
      if (random.OneIn(3)) continue;
      tables.push_back({number++, std::string(1, c) + "1", std::string(1, c) + "5"});
    }
    Level level(kByKey);
    std::vector<TableRef> added;
    for (const FakeTable& table : tables) added.push_back(MakeFakeTable(table));
    for (size_t i = added.size(); i > 1; --i) std::swap(added[i - 1], added[random.Uniform(i)]);
    level = level.With(Bytewise(), {}, added);
    Numbers removed;
    for (const FakeTable& table : tables) {
      if (random.OneIn(4)) removed.push_back(table.number);
    }
    level = level.With(Bytewise(), removed, {});
    ASSERT_OK(level.CheckInvariants(Bytewise()));
    for (char c = 'a'; c <= 'z'; ++c) {
      for (char digit = '0'; digit <= '6'; ++digit) {
        const std::string key{c, digit};
        Numbers expected;
        for (const FakeTable& table : tables) {
          const bool gone = std::binary_search(removed.begin(), removed.end(), table.number);
          if (!gone && table.smallest <= key && key <= table.largest)
            expected.push_back(table.number);
        }
        ASSERT_EQ(Candidates(level, key), expected) << key;
      }
    }
  }
}

// Fails if the output of a merge in place lands in front of what has come since, or behind what it
// is newer than.
TEST(LevelTest, OutputInPlaceStaysWhereItsInputsWere) {
  Level level = Level(kNewestFirst)
                    .With(Bytewise(), {},
                          MakeFakeTables({{4, "a", "z", 40, 40},
                                          {3, "a", "z", 30, 30},
                                          {2, "a", "z", 20, 20},
                                          {1, "a", "z", 10, 10}}));
  level =
      level.With(Bytewise(), {2, 3}, MakeFakeTables({{5, "a", "k", 30, 20}, {6, "m", "z", 30, 20}}),
                 /*in_place=*/true);
  EXPECT_EQ(NumbersOf(level.AllTables()), (Numbers{4, 5, 6, 1}));
  EXPECT_OK(level.CheckInvariants(Bytewise()));
}

// Fails if a guard gets tables that are not its own, changes their order, or is made where it
// divides one.
TEST(LevelTest, AGuardTakesTheTablesBehindIt) {
  const Level level = Level(kNewestFirst)
                          .With(Bytewise(), {},
                                MakeFakeTables({{4, "p", "z", 40, 40},
                                                {3, "a", "m", 30, 30},
                                                {2, "n", "q", 20, 20},
                                                {1, "b", "c", 10, 10}}));
  EXPECT_TRUE(level.DividesTable(Bytewise(), "b1"));
  EXPECT_TRUE(level.DividesTable(Bytewise(), "m")) << "the last key";
  EXPECT_FALSE(level.DividesTable(Bytewise(), "a")) << "the first key";
  ASSERT_FALSE(level.DividesTable(Bytewise(), "n"));
  const Level with = level.WithGuard(Bytewise(), "n");
  EXPECT_TRUE(with.HasGuard(Bytewise(), "n"));
  EXPECT_FALSE(with.HasGuard(Bytewise(), "m"));
  EXPECT_EQ(NumbersOf(with.sentinel().tables), (Numbers{3, 1}));
  EXPECT_EQ(NumbersOf(with.guards().at(0).tables), (Numbers{4, 2}));
  EXPECT_OK(with.CheckInvariants(Bytewise()));
  EXPECT_EQ(with.WithGuard(Bytewise(), "n").guards().size(), 1u);
  EXPECT_EQ(Candidates(with, "p"), (Numbers{4, 2}));
}

}  // namespace
}  // namespace dlsm
