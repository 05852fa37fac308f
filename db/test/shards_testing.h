// What tests of databases with several shards share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "db/test/test_database_testing.h"

namespace dlsm {

// Shards [.., key1000), [key1000, key2000), [key2000, ..) of NumberedKey(); shards 0 and 2 on the
// first memory node, shard 1 on the second.
class ShardsTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 3000;

  void SetUp() override {
    options_ = TinyOptions();
    options_.fabric = "tcp";
    options_.memory_nodes = first_.address() + "," + second_.address();
    options_.shard_boundaries = {NumberedKey(1000), NumberedKey(2000)};
    options_.write_buffer_size = 128 << 10;
    options_.operation_timeout_ms = 3000;
    options_.open_timeout_ms = 3000;
    options_.write_stall_timeout_ms = 1000;
  }

  Options NoShardOptions() const {
    Options options = options_;
    options.shard_boundaries.clear();
    return options;
  }
  Status TryOpen(const Options& options, const std::string& name = "divided") {
    std::unique_ptr<DB> db;
    return DB::Open(options, name, &db);
  }
  static void Fill(DB* db, uint64_t from = 0, uint64_t to = kKeys) {
    for (uint64_t i = from; i < to; ++i) {
      ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), ValueOf(i)));
    }
  }
  static std::string ValueOf(uint64_t i) { return std::to_string(i) + std::string(100, '.'); }
  static void ExpectFilled(DB* db) {
    for (uint64_t i = 0; i < kKeys; i += 7) EXPECT_EQ(GetOr(db, NumberedKey(i)), ValueOf(i));
    const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
    uint64_t i = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++i) {
      ASSERT_EQ(iterator->key().ToString(), NumberedKey(i));
    }
    EXPECT_EQ(i, kKeys);
    EXPECT_OK(iterator->status());
  }
  static bool Says(const Status& status, const std::string& what) {
    return status.ToString().find(what) != std::string::npos;
  }
  static std::string Text(DB* db, const std::string& property) {
    std::string text;
    EXPECT_TRUE(db->GetProperty(property, &text)) << property;
    return text;
  }
  static uint64_t DatabasesAt(TestNode& node) {
    return node.server().node().Statistics().databases;
  }

  TestNode first_;
  TestNode second_;
  Options options_;
};

}  // namespace dlsm
