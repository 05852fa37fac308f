// Many databases that are open at once in a process, and that nobody uses. What they cost as time
// goes by is counted in virtual time (benchmarks/simulation/idle_handles_test.cc).
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "db/test/test_database_testing.h"
#include "util/eventually_testing.h"
#include "util/thread_pool.h"
#include "util/threads_testing.h"

namespace dlsm {
namespace {

class DbIdleTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr size_t kHandles = 50;

  DbIdleTest() {
    const std::string fabric = GetParam();
    options_.create_if_missing = true;
    options_.embedded_memory_bytes = TinyOptions().embedded_memory_bytes;
    options_.log = LogLevel::kNone;  // All of them together would fill the memory node.
    if (fabric == "embedded") return;
    node_ = std::make_unique<TestNode>(TestNode::Serving(fabric));
    options_ = node_->With(options_, fabric);
  }
  ~DbIdleTest() override {
    for (size_t i = 0; i < handles_.size(); ++i) CloseAndDestroy(&handles_[i], options_, Name(i));
  }
  static std::string Name(size_t i) { return "idle-" + std::to_string(i); }

  std::unique_ptr<TestNode> node_;
  Options options_;  // Memtables of the default size.
  std::vector<std::unique_ptr<DB>> handles_;
};

// Fails if handles have threads of their own, here or at the memory node, or take memory there
// before they need it.
TEST_P(DbIdleTest, HandlesShareThreads) {
  handles_.push_back(OpenOrDie(options_, Name(0)));
  const size_t with_one = ThreadsOfProcess();
  const uint64_t used_by_one = FieldOfProperty(handles_[0].get(), "dlsm.memory-node", "used");
  for (size_t i = 1; i < kHandles; ++i) handles_.push_back(OpenOrDie(options_, Name(i)));
  for (const auto& handle : handles_) {
    ASSERT_OK(handle->Put({}, "key", "value"));
    ASSERT_OK(handle->Flush({}));
  }
  // As many as work at once for a moment, be it on a busy machine, and no more.
  EXPECT_TRUE(Eventually([&] { return ThreadsOfProcess() < with_one + kHandles / 2; }))
      << ThreadsOfProcess() << " and with one handle " << with_one;
  EXPECT_LT(ThreadPool::OfThisProcess()->counts().threads, kHandles / 2);
  const uint64_t used = FieldOfProperty(handles_[0].get(), "dlsm.memory-node", "used");
  EXPECT_LE(used - used_by_one, kHandles * (uint64_t{1} << 20));
}

INSTANTIATE_TEST_SUITE_P(Fabrics, DbIdleTest, testing::Values("embedded", "shm", "tcp"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace dlsm
