// dLSM behind the benchmark's interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench_index.h"
#include "benchmarks/engine.h"
#include "benchmarks/map_engine_testing.h"
#include "db/test/test_database_testing.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

// Two of the keys are another compute node's. Fails if not the first error is returned, if a value
// is lost, or, where all have to be looked at (DLSM_CHECK_STATUSES), if a later Status is not.
TEST(DlsmEngineTest, MultiGetLooksAtEveryStatus) {
  EngineOptions options;
  options.db = "db";
  options.write_buffer_size = size_t{1} << 20;
  options.embedded_memory_bytes = uint64_t{256} << 20;
  options.compute_boundaries = {"m"};
  const std::unique_ptr<Engine> engine = NewDlsmEngine(options);
  ASSERT_OK(engine->Open(/*create=*/true));
  {
    const std::unique_ptr<Session> session = engine->NewSession();
    ASSERT_OK(session->Put("a", "1"));
    std::vector<std::optional<Slice>> values;
    for (int i = 0; i < 2; ++i) {
      const Status status = session->MultiGet({"x", "a", "b", "y"}, &values);
      EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
      EXPECT_THAT(status.ToString(), HasSubstr("\"x\""));
    }
    ASSERT_EQ(values.size(), 4u);
    ASSERT_TRUE(values[1].has_value());
    EXPECT_EQ(values[1]->ToString(), "1");
    EXPECT_FALSE(values[2].has_value());
    EXPECT_OK(session->MultiGet({"a"}, &values));
  }
  EXPECT_OK(engine->Close());
  EXPECT_OK(engine->Destroy());
}

// One of two memory nodes has another schedule than the other one. Fails if both have one in common
// after a testing phase, which sets them alike; or if those that have one do not have it again.
TEST(DlsmEngineTest, SchedulesThatCannotComeBackAreNotChanged) {
  const std::string kName = "memory_node_merge_scheduler";
  const TestNodes nodes(2, "tcp");
  const Options at_both = nodes.With(TinyOptions());
  EngineOptions options;
  options.db = "db";
  options.write_buffer_size = size_t{1} << 20;
  options.memory_nodes = at_both.memory_nodes;
  options.fabric = at_both.fabric;
  options.shard_boundaries = {"m"};
  const std::unique_ptr<Engine> engine = NewDlsmEngine(options);
  ASSERT_OK(engine->Open(/*create=*/true));
  const auto other = OpenOrDie(nodes.With(TinyOptions(), 1), "other");
  const auto schedules = [&engine] { return engine->Stats(); };

  ASSERT_OK(other->SetOptions({{kName, "single"}}));
  const Status refused = engine->ScheduleMergesSustainably(true);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("single and greedy"));
  EXPECT_THAT(schedules(), HasSubstr(kName + " single"));
  EXPECT_THAT(schedules(), HasSubstr(kName + " greedy"));
  EXPECT_THAT(schedules(), Not(HasSubstr(kName + " fair")));

  ASSERT_OK(other->SetOptions({{kName, "greedy"}}));
  ASSERT_OK(engine->ScheduleMergesSustainably(true));
  EXPECT_THAT(schedules(), HasSubstr(kName + " fair"));
  EXPECT_THAT(schedules(), Not(HasSubstr(kName + " greedy")));
  ASSERT_OK(engine->ScheduleMergesSustainably(false));
  EXPECT_THAT(schedules(), HasSubstr(kName + " greedy"));
  EXPECT_THAT(schedules(), Not(HasSubstr(kName + " fair")));
  EXPECT_OK(engine->Close());
  EXPECT_OK(engine->Destroy());
}

// Fails if an index, which each way keeps by other means, misses a record or returns one too many.
TEST(DlsmEngineTest, BothWaysOfAnIndexFindWhatAMapFinds) {
  MapEngine map_engine;
  const std::unique_ptr<Session> map = map_engine.NewSession();
  for (const size_t upkeep : {1, 2}) {
    EngineOptions options;
    options.db = "db";
    options.write_buffer_size = size_t{1} << 20;
    options.embedded_memory_bytes = uint64_t{256} << 20;
    options.secondary_index = upkeep;
    const std::unique_ptr<Engine> engine = NewDlsmEngine(options);
    ASSERT_OK(engine->Open(/*create=*/true));
    std::unique_ptr<Session> session = engine->NewSession();
    Random random(7);
    for (int i = 0; i < 3000; ++i) {
      const std::string key = "key" + std::to_string(random.Uniform(500));
      const std::string value = std::to_string(i);
      for (Session* const store : {map.get(), session.get()}) {
        ASSERT_OK(i % 5 == 0 ? store->Delete(key) : store->Put(key, value));
      }
    }
    for (int i = 0; i < 30; ++i) {
      const IndexKeyRange range = RandomIndexRange(random, 20, 500);
      std::vector<std::string> expected;
      std::vector<std::string> found;
      ASSERT_OK(map->QueryIndex(range.begin, range.end, &expected));
      ASSERT_OK(session->QueryIndex(range.begin, range.end, &found));
      EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
    }
    session.reset();
    EXPECT_OK(engine->Close());
    EXPECT_OK(engine->Destroy());
  }
}

}  // namespace
}  // namespace dlsm::bench
