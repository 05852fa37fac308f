// One database, divided among compute nodes: handles that own a range each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/get_pipeline.h"
#include "dLSM/write_batch.h"
#include "db/nodes/compute_range.h"
#include "db/test/follower_testing.h"
#include "db/test/test_database_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

class ComputeRangeTest : public testing::TestWithParam<int> {
 protected:
  Options HandleOptions(uint32_t compute_node) {
    Options options = node_.With(TinyOptions(), "tcp");
    options.compute_boundaries = {NumberedKey(1000), NumberedKey(2000)};
    options.compute_node_id = compute_node;
    options.shards = GetParam();
    return options;
  }
  static void ExpectPipelineSaysWhose(DB* db, const std::string& own, const std::string& other) {
    const auto pipeline = db->NewGetPipeline(ReadOptions(), 2);
    const Status refused = pipeline->Submit(other, 1);
    EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
    EXPECT_EQ(pipeline->outstanding(), 0u);
    ASSERT_OK(pipeline->Submit(own, 2));
    GetPipeline::Answer answer;
    ASSERT_TRUE(pipeline->Next(&answer));
    EXPECT_OK(answer.status);
  }

  TestNode node_;
};

// Fails if a range is not what its boundaries say, if a handle takes another's keys, or if it does
// not say whose they are.
TEST_P(ComputeRangeTest, ReadsLikeAMapInParts) {
  std::vector<std::unique_ptr<DB>> handles;
  std::vector<std::map<std::string, std::string>> models(3);
  for (uint32_t i = 0; i < 3; ++i) handles.push_back(OpenOrDie(HandleOptions(i), "db"));
  Random random(3);
  for (int step = 0; step < 20000; ++step) {
    const uint64_t number = random.Uniform(3000);
    const size_t owner = number / 1000;
    const size_t asked = random.Uniform(3);
    const std::string value = std::to_string(step);
    Status status;
    if (random.OneIn(3)) {
      WriteBatch batch;
      batch.Put(NumberedKey(asked * 1000), value);
      batch.Put(NumberedKey(number), value);
      status = handles[asked]->Write(WriteOptions(), &batch);
      if (asked == owner) models[asked][NumberedKey(asked * 1000)] = value;
    } else {
      status = handles[asked]->Put(WriteOptions(), NumberedKey(number), value);
    }
    if (asked == owner) {
      ASSERT_OK(status);
      models[owner][NumberedKey(number)] = value;
      continue;
    }
    ASSERT_TRUE(status.IsInvalidArgument());
    ASSERT_THAT(status.ToString(), HasSubstr("belongs to compute node " + std::to_string(owner)));
    std::string found;
    ASSERT_TRUE(
        handles[asked]->Get(ReadOptions(), NumberedKey(number), &found).IsInvalidArgument());
    ASSERT_TRUE(handles[asked]->Delete(WriteOptions(), NumberedKey(number)).IsInvalidArgument());
  }
  for (size_t i = 0; i < 3; ++i) {
    const std::unique_ptr<Iterator> all(handles[i]->NewIterator(ReadOptions()));
    auto expected = models[i].begin();
    for (all->SeekToFirst(); all->Valid(); all->Next(), ++expected) {
      ASSERT_NE(expected, models[i].end());
      ASSERT_EQ(all->key().ToString(), expected->first);
      ASSERT_EQ(all->value().ToString(), expected->second);
    }
    ASSERT_EQ(expected, models[i].end());
    const std::string other = NumberedKey((i + 1) % 3 * 1000);
    const std::string own = models[i].begin()->first;
    std::vector<std::string> values;
    const auto statuses = handles[i]->MultiGet(ReadOptions(), {own, other}, &values);
    EXPECT_OK(statuses[0]);
    EXPECT_TRUE(statuses[1].IsInvalidArgument()) << statuses[1].ToString();
    ExpectPipelineSaysWhose(handles[i].get(), own, other);
  }
}

// Fails if ranges share an owner, or the take-over of one concerns another.
TEST_P(ComputeRangeTest, EachRangeHasItsOwner) {
  const auto first = OpenOrDie(HandleOptions(0), "db");
  const auto second = OpenOrDie(HandleOptions(1), "db");
  ASSERT_OK(first->Put(WriteOptions(), NumberedKey(1), "v"));
  ASSERT_OK(first->Flush(FlushOptions()));
  Options taking = HandleOptions(0);
  taking.take_over = true;
  const auto heir = OpenOrDie(taking, "db");
  std::string value;
  EXPECT_OK(heir->Get(ReadOptions(), NumberedKey(1), &value));
  EXPECT_TRUE(first->Close().IsIOError());
  EXPECT_OK(second->Put(WriteOptions(), NumberedKey(1001), "v"));
  EXPECT_OK(second->Close());
}

// Fails if a follower of a range says that another compute node's key is not there.
TEST_P(ComputeRangeTest, FollowersSayWhoseAKeyIs) {
  Options publishing = HandleOptions(2);
  publishing.publish_interval_ms = 5;
  const auto owner = OpenOrDie(publishing, "db");
  ASSERT_OK(owner->Put(WriteOptions(), NumberedKey(2001), "v"));
  const auto follower = FollowOrDie(HandleOptions(2), "db");
  CatchUpWith(owner.get(), follower.get());
  std::vector<std::string> values;
  const std::string there = NumberedKey(2001);
  const std::string missing = NumberedKey(2002);
  const std::string others = NumberedKey(1001);
  const auto statuses = follower->MultiGet(ReadOptions(), {there, missing, others}, &values);
  EXPECT_OK(statuses[0]);
  EXPECT_TRUE(statuses[1].IsNotFound()) << statuses[1].ToString();
  EXPECT_TRUE(statuses[2].IsInvalidArgument()) << statuses[2].ToString();
  EXPECT_THAT(statuses[2].ToString(), HasSubstr("belongs to compute node 1"));
  std::string value;
  EXPECT_OK(follower->Get(ReadOptions(), there, &value));
  EXPECT_TRUE(follower->Get(ReadOptions(), others, &value).IsInvalidArgument());
  ExpectPipelineSaysWhose(follower.get(), there, others);
}

// Fails if a range is followed by other boundaries than it was made with: a key between the two,
// which another compute node has written, would not be found, as if nobody had.
TEST_P(ComputeRangeTest, FollowersNeedTheBoundariesThatARangeWasMadeWith) {
  Options publishing = HandleOptions(1);
  publishing.publish_interval_ms = 5;
  const auto owner = OpenOrDie(publishing, "db");
  Options other = HandleOptions(1);
  other.compute_boundaries = {NumberedKey(1000), NumberedKey(2500)};
  std::unique_ptr<DB> follower;
  const Status refused = DB::OpenFollower(other, "db", &follower);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr(NumberedKey(2000)));
  EXPECT_THAT(refused.ToString(), HasSubstr(NumberedKey(2500)));
  EXPECT_EQ(follower, nullptr);
  EXPECT_OK(FollowOrDie(HandleOptions(1), "db")->Close());
}

// Fails if a database is opened by other boundaries than it was made with.
TEST_P(ComputeRangeTest, BoundariesStay) {
  OpenOrDie(HandleOptions(1), "db").reset();
  Options other = HandleOptions(1);
  other.compute_boundaries = {NumberedKey(1000), NumberedKey(2500)};
  std::unique_ptr<DB> db;
  const Status refused = DB::Open(other, "db", &db);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_THAT(refused.ToString(), HasSubstr(NumberedKey(2000)));
  EXPECT_THAT(refused.ToString(), HasSubstr(NumberedKey(2500)));
  OpenOrDie(HandleOptions(1), "db").reset();
  EXPECT_OK(DestroyDB("db", HandleOptions(1)));
  EXPECT_EQ(node_.used_bytes(), 0u);
  OpenOrDie(other, "db").reset();
}

INSTANTIATE_TEST_SUITE_P(Shards, ComputeRangeTest, testing::Values(1, 2));

// Fails if nonsense is taken.
TEST(ComputeRangeOptionsTest, EachBadOptionIsNamed) {
  Options options;
  options.compute_boundaries = {"b", "a"};
  EXPECT_THAT(CheckComputeBoundaries(options).ToString(), HasSubstr("\"a\" does not come after"));
  options.compute_boundaries = {"a", "a"};
  EXPECT_TRUE(CheckComputeBoundaries(options).IsInvalidArgument());
  options.compute_boundaries = {"a", "b"};
  EXPECT_OK(CheckComputeBoundaries(options));
  options.compute_node_id = 3;
  EXPECT_THAT(CheckComputeBoundaries(options).ToString(), HasSubstr("compute nodes 0 to 2"));
}

// Fails if the config's compute nodes are not compared, or the owner's address is not told.
TEST(ComputeRangeOptionsTest, TheConfigNamesTheOwner) {
  const std::string path = testing::TempDir() + "/compute_range.conf";
  std::ofstream(path) << "alpha:1 beta:2\nmemory\n";
  Options options;
  options.config = path;
  options.compute_boundaries = {"a", "b"};
  EXPECT_THAT(CheckComputeBoundaries(options).ToString(), HasSubstr("names 2"));
  options.compute_boundaries = {"m"};
  ASSERT_OK(CheckComputeBoundaries(options));
  const ComputeRange range(options);
  EXPECT_OK(range.Check("l"));
  EXPECT_THAT(range.Check("m").ToString(), HasSubstr("compute node 1 (beta:2)"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace dlsm
