// What open databases cost while nobody uses them, counted while virtual time goes by.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/simulation/cluster_testing.h"
#include "dLSM/db.h"
#include "memory_node/memory_node.h"
#include "port/clock.h"
#include "util/rpc/channel/rpc.h"
#include "util/status_testing.h"
#include "util/thread_pool.h"

namespace dlsm::simulation {
namespace {

using std::chrono::seconds;

constexpr size_t kHandles = 40;

class IdleHandlesTest : public testing::Test {
 protected:
  // All in one process.
  void OpenAll() {
    const auto host = cluster_.NewHost();
    Options options = cluster_.OptionsOn(host);
    options.max_background_flushes = 2;
    options.max_background_compactions = 2;
    for (size_t i = 0; i < kHandles; ++i) {
      ASSERT_OK(DB::Open(options, "db" + std::to_string(i), &handles_.emplace_back()));
      ASSERT_OK(handles_.back()->Put({}, "key", "value"));
    }
  }
  void CloseAll() {
    for (const auto& handle : handles_) EXPECT_OK(handle->Close());
    handles_.clear();
  }
  uint64_t calls(Method method) { return cluster_.node().calls(method); }
  uint64_t Calls() {
    uint64_t sum = 0;
    for (size_t method = 0; method < kMethodCount; ++method) {
      sum += calls(static_cast<Method>(method));
    }
    return sum;
  }

  Cluster cluster_{1};
  std::vector<std::unique_ptr<DB>> handles_;
};

// Fails if handles that nobody uses keep threads, call or wake up for more than to keep their
// sessions, keep memory that they do not need, or lose their sessions over it.
TEST_F(IdleHandlesTest, CostNextToNothing) {
  cluster_.Run([this] {
    ASSERT_NO_FATAL_FAILURE(OpenAll());
    port::SleepFor(seconds(20));
    const uint64_t calls_before = Calls();
    const uint64_t runs_before = ThreadPool::OfThisProcess()->counts().runs;
    port::SleepFor(seconds(60));
    // Those of all of them together every 2.5 s, and each one's own every 30 s.
    EXPECT_LE(Calls() - calls_before, 60 / 2 + 3 * kHandles);
    const ThreadPool::Counts counts = ThreadPool::OfThisProcess()->counts();
    EXPECT_LE(counts.runs - runs_before, 60 / 2 + 4 * kHandles);
    EXPECT_LE(counts.threads, 4u);
    EXPECT_LE(cluster_.node().Statistics().used_bytes, kHandles * (uint64_t{600} << 10));
    for (const auto& handle : handles_) ASSERT_OK(handle->Flush({}));
    CloseAll();
  });
}

// Fails if a handle that is used again after a while waits for its next heartbeat: until then it
// would not learn what becomes of its database, nor of room, nor do what reads have made due.
TEST_F(IdleHandlesTest, WakeWhenTheyAreUsed) {
  cluster_.Run([this] {
    ASSERT_NO_FATAL_FAILURE(OpenAll());
    port::SleepFor(seconds(20));
    const uint64_t before = calls(Method::kHeartbeat);
    std::string value;
    ASSERT_OK(handles_.front()->Get({}, "key", &value));
    port::SleepFor(std::chrono::milliseconds(200));
    EXPECT_GE(calls(Method::kHeartbeat), before + 1);
    for (int i = 0; i < 20; ++i) {
      ASSERT_OK(handles_.front()->Get({}, "key", &value));
      port::SleepFor(std::chrono::milliseconds(200));
    }
    EXPECT_GE(calls(Method::kHeartbeat), before + 4) << "as long as it is used";
    CloseAll();
  });
}

// Fails if an idle handle keeps its session though its process has died, because others of the
// machine go on: nobody could open the database.
TEST_F(IdleHandlesTest, EndWithTheirProcess) {
  cluster_.Run([this] {
    const auto dies = cluster_.NewHost();
    std::unique_ptr<DB> left;
    ASSERT_OK(DB::Open(cluster_.OptionsOn(dies), "left", &left));
    ASSERT_NO_FATAL_FAILURE(OpenAll());
    port::SleepFor(seconds(20));
    cluster_.Kill(dies.get());
    port::SleepFor(seconds(20));
    std::unique_ptr<DB> next;
    Options options = cluster_.OptionsOn(cluster_.NewHost());
    options.open_timeout_ms = 100;
    EXPECT_OK(DB::Open(options, "left", &next));
    left->Close().PermitUncheckedError();
    EXPECT_OK(next->Close());
    CloseAll();
  });
}

// Fails if an idle handle whose connection breaks is forgotten: its memory node ends sessions that
// have none after a short time.
TEST_F(IdleHandlesTest, OutliveTheirConnections) {
  cluster_.Run([this] {
    ASSERT_NO_FATAL_FAILURE(OpenAll());
    port::SleepFor(seconds(20));
    cluster_.BreakConnections();
    port::SleepFor(seconds(20));
    for (const auto& handle : handles_) {
      EXPECT_OK(handle->Put({}, "key", "again"));
      EXPECT_OK(handle->Flush({}));
    }
    CloseAll();
  });
}

}  // namespace
}  // namespace dlsm::simulation
