// Quotas of databases at a memory node: whole databases against models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "db/test/test_database_testing.h"
#include "util/random.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

constexpr uint64_t kQuota = uint64_t{8} << 20;

class QuotaTest : public testing::TestWithParam<int> {
 protected:
  Options HandleOptions() {
    Options options = node_.With(TinyOptions(), "tcp");
    options.shards = GetParam();
    for (int i = 1; i < GetParam(); ++i) {
      options.shard_boundaries.push_back(NumberedKey(static_cast<uint64_t>(10000 * i)));
    }
    options.write_stall_timeout_ms = 500;
    return options;
  }
  void SetQuota(const std::string& name, uint64_t bytes) {
    EXPECT_OK(node_.server().node().databases().SetQuota(RpcPeer{1, "test"},
                                                         SetQuotaRequest{name, bytes}));
  }
  uint64_t BytesOf(const std::string& name) {
    uint64_t bytes = 0;
    for (const auto& each : node_.server().node().databases().List().databases) {
      if (each.name.substr(0, each.name.find('#')) == name) bytes += each.bytes;
    }
    return bytes;
  }

  TestNode node_;
};

// Fails if a database takes more than it may, if another one suffers from that, if writers are not
// told why they wait, or if deleting does not help.
TEST_P(QuotaTest, StopsOneDatabaseOnly) {
  SetQuota("limited", kQuota);
  const auto limited = OpenOrDie(HandleOptions(), "limited");
  const auto other = OpenOrDie(HandleOptions(), "limitless");
  std::map<std::string, std::string> model;
  const std::string value(1000, 'v');
  Status refused;
  uint64_t written = 0;
  for (; written < 20000 && refused.ok(); ++written) {
    refused = limited->Put(WriteOptions(), NumberedKey(written), value);
    if (refused.ok()) model[NumberedKey(written)] = value;
    ASSERT_LE(BytesOf("limited"), kQuota + kQuota / 4);
  }
  EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
  EXPECT_THAT(refused.ToString(), HasSubstr("of its quota of 8.0 MB"));
  EXPECT_THAT(refused.ToString(), HasSubstr("dlsm_tool --db=limited --quota=BYTES quota"));
  EXPECT_GT(written, 2000u) << "most of the quota is of use";
  EXPECT_GT(node_.server().node().refused_grants().over_quota, 0u);
  EXPECT_EQ(node_.server().node().refused_grants().full, 0u);
  for (uint64_t i = 0; i < 20000; ++i) {
    ASSERT_OK(other->Put(WriteOptions(), NumberedKey(i), value)) << i;
  }
  ASSERT_OK(other->Flush(FlushOptions()));
  EXPECT_GT(BytesOf("limitless"), 2 * kQuota);
  const auto expect_model = [&] {
    std::string found;
    for (const auto& [key, expected] : model) {
      ASSERT_OK(limited->Get(ReadOptions(), key, &found)) << key;
      ASSERT_EQ(found, expected);
    }
  };
  ASSERT_NO_FATAL_FAILURE(expect_model());

  for (uint64_t i = 0; i < written; i += 10) {
    for (uint64_t j = i; j < i + 9; ++j) {
      ASSERT_OK(limited->Delete(WriteOptions(), NumberedKey(j))) << j;
      model.erase(NumberedKey(j));
    }
  }
  CompactAsRoomAllows(limited.get());
  ASSERT_OK(limited->WaitForBackgroundWork());
  ASSERT_OK(limited->Put(WriteOptions(), NumberedKey(0), "again")) << "deleting makes room";
  model[NumberedKey(0)] = "again";
  ASSERT_NO_FATAL_FAILURE(expect_model());
  EXPECT_LE(BytesOf("limited"), kQuota);

  SetQuota("limited", 0);
  for (uint64_t i = 0; i < 20000; ++i) {
    ASSERT_OK(limited->Put(WriteOptions(), NumberedKey(i), value)) << i;
  }
  ASSERT_OK(limited->Close());
  EXPECT_GT(BytesOf("limited"), 2 * kQuota);
  EXPECT_OK(node_.server().node().databases().CheckInvariants());
}

// Fails if merges come to a stop under a quota that has room for the data, but not for much more.
TEST_P(QuotaTest, OverwritingGoesOn) {
  SetQuota("db", kQuota);
  const auto db = OpenOrDie(HandleOptions(), "db");
  std::map<std::string, std::string> model;
  Random random(5);
  for (int i = 0; i < 40000; ++i) {  // 40 MB, of which 1.5 MB are live.
    const std::string key = NumberedKey(random.Uniform(1500) * 13);
    model[key] = std::to_string(i) + std::string(1000, 'x');
    const Status status = db->Put(WriteOptions(), key, model[key]);
    ASSERT_OK(status) << i;
  }
  std::string found;
  for (const auto& [key, expected] : model) {
    ASSERT_OK(db->Get(ReadOptions(), key, &found));
    ASSERT_EQ(found, expected) << key;
  }
  EXPECT_OK(node_.server().node().databases().CheckInvariants());
}

INSTANTIATE_TEST_SUITE_P(Shards, QuotaTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace dlsm
