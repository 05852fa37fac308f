#include "db/test/follower_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <vector>

#include "db/test/test_database_testing.h"
#include "util/eventually_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

// What CatchUpWith() waits for; none of a test's entries.
constexpr char kMark[] = "~mark";

}  // namespace

Options OwnerOptions() {
  Options options = TinyOptions();
  options.publish_interval_ms = 5;
  return options;
}

Options FollowerOptions() {
  Options options = TinyOptions();
  options.follow_interval_ms = 0;
  return options;
}

std::unique_ptr<DB> FollowOrDie(const Options& options, const std::string& name) {
  std::unique_ptr<DB> db;
  const Status status = DB::OpenFollower(options, name, &db);
  EXPECT_OK(status);
  if (!status.ok()) std::abort();
  return db;
}

void CatchUpWith(DB* owner, DB* follower) {
  static std::atomic<uint64_t> marks{0};
  const std::string mark = std::to_string(++marks);
  ASSERT_OK(owner->Put(WriteOptions(), kMark, mark));
  EXPECT_TRUE(Eventually([&] {
    EXPECT_OK(follower->TryCatchUp());
    return GetOr(follower, kMark) == mark;
  }));
}

void UseShards(Options* options, int shards) {
  options->shards = shards;
  for (int i = 1; i < shards; ++i) {
    options->shard_boundaries.emplace_back(1, static_cast<char>(i * 256 / shards));
  }
}

int NumberOf(DB* db) {
  std::vector<std::string> names;
  std::vector<Slice> keys;
  for (int i = 0; i < Batches::kKeys; ++i) names.push_back(Batches::Key(i));
  keys.assign(names.begin(), names.end());
  std::vector<std::string> values;
  const std::vector<Status> statuses = db->MultiGet(ReadOptions(), keys, &values);
  for (int i = 1; i < Batches::kKeys; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], values[0]) << i;
    EXPECT_EQ(statuses[static_cast<size_t>(i)].ToString(), statuses[0].ToString()) << i;
  }
  if (statuses[0].IsNotFound()) return -1;
  EXPECT_OK(statuses[0]);
  return std::atoi(values[0].c_str());
}

int NumberOf(Iterator* iterator) {
  int number = -1;
  int found = 0;
  int largest_filler = -1;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    if (iterator->key() == Slice(kMark)) continue;
    const int value = std::atoi(iterator->value().ToString().c_str());
    if (iterator->key().size() > 4) {
      largest_filler = std::max(largest_filler, value);
      continue;
    }
    if (found++ == 0) number = value;
    EXPECT_EQ(value, number) << iterator->key().ToString();
  }
  EXPECT_OK(iterator->status());
  EXPECT_TRUE(found == 0 || found == Batches::kKeys) << found;
  EXPECT_LE(largest_filler, number);
  return number;
}

}  // namespace dlsm
