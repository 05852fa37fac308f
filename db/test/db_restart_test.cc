// A memory node that is killed and started again at the same address: its memory is lost, and
// whoever had a database there must be told that, whatever the fabric.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "dLSM/cache.h"
#include "db/test/test_database_testing.h"

namespace dlsm {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

constexpr uint64_t kRestartKeys = 2000;

class RestartTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string why_not = TestNode::WhyNot(GetParam());
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    node_ = std::make_unique<TestNode>(GetParam());
    options_ = node_->With(TinyOptions(), GetParam());
    options_.operation_timeout_ms = 2000;
    options_.write_stall_timeout_ms = 2000;
    // It would answer where the memory node is to be asked.
    cache_.reset(NewLRUCache(0));
    options_.block_cache = cache_.get();
  }

  // A value that was written, or an error.
  void ExpectNoGarbage(DB* db) {
    for (uint64_t i = 0; i < kRestartKeys; i += 50) {
      std::string value;
      const Status status = db->Get(ReadOptions(), NumberedKey(i), &value);
      EXPECT_FALSE(status.IsNotFound()) << i;
      EXPECT_FALSE(status.IsCorruption()) << i << ": " << status.ToString();
      if (status.ok()) {
        ASSERT_EQ(value, NumberedValue(i, 200));
      }
    }
  }

  std::unique_ptr<TestNode> node_;
  std::unique_ptr<Cache> cache_;
  Options options_;
};

// Fails if a handle goes on as if nothing had happened, takes what another database has written at
// the same place for its own, does not say that the memory is lost, or cannot be opened again.
TEST_P(RestartTest, IsLostMemory) {
  auto db = OpenOrDie(options_, "db");
  for (uint64_t i = 0; i < kRestartKeys; ++i) {
    ASSERT_OK(db->Put(WriteOptions(), NumberedKey(i), NumberedValue(i, 200)));
  }
  ASSERT_OK(db->Flush(FlushOptions()));
  ASSERT_OK(db->WaitForBackgroundWork());
  ExpectNoGarbage(db.get());
  node_->Restart();
  // The same places of the new memory belong to another database.
  auto other = OpenOrDie(options_, "other");
  for (uint64_t i = 0; i < kRestartKeys; ++i) {
    ASSERT_OK(other->Put(WriteOptions(), NumberedKey(i), "of the other" + std::to_string(i)));
  }
  ASSERT_OK(other->Flush(FlushOptions()));
  ExpectNoGarbage(db.get());
  // The heartbeat hears it, at the latest.
  std::string error;
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (error.find("memory is lost") == std::string::npos && Clock::now() < deadline) {
    db->Put(WriteOptions(), "more", "v").PermitUncheckedError();
    error = db->Flush(FlushOptions()).ToString();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(error, HasSubstr("memory is lost"));
  EXPECT_THAT(error, HasSubstr("open the database again"));
  ExpectNoGarbage(db.get());
  EXPECT_FALSE(db->Close().ok());
  db = OpenOrDie(options_, "db");
  EXPECT_EQ(GetOr(db.get(), NumberedKey(1)), "(none)");
  ASSERT_OK(db->Put(WriteOptions(), "new", "v"));
  ASSERT_OK(db->Flush(FlushOptions()));
  EXPECT_EQ(GetOr(db.get(), "new"), "v");
  EXPECT_OK(db->Close());
  for (uint64_t i = 0; i < kRestartKeys; ++i) {
    ASSERT_EQ(GetOr(other.get(), NumberedKey(i)), "of the other" + std::to_string(i));
  }
  EXPECT_OK(other->Close());
}

INSTANTIATE_TEST_SUITE_P(EveryFabric, RestartTest, testing::Values("shm", "tcp", "verbs"),
                         [](const auto& fabric) { return std::string(fabric.param); });

}  // namespace
}  // namespace dlsm
