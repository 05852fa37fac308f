#include "util/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <vector>

namespace dlsm {
namespace {

Deadline Soon() { return Deadline::In(std::chrono::seconds(60)); }

TEST(ThreadPoolTest, RunsEveryTask) {
  std::atomic<int> runs{0};
  ThreadPool pool("test", 4, 1000);
  for (int i = 0; i < 1000; ++i) {
    while (!pool.Submit([&] { ++runs; })) std::this_thread::yield();
  }
  ASSERT_TRUE(pool.WaitUntilIdle(Soon()));
  EXPECT_EQ(runs, 1000);
}

TEST(ThreadPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    ThreadPool pool("test", 1, 100);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(pool.Submit([&order, i] { order.push_back(i); }));
    }
  }  // Shutdown runs what waits.
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// Fails if the queue grows without bound, or WaitUntilIdle ignores its deadline.
TEST(ThreadPoolTest, TheQueueIsBounded) {
  std::latch started(1);
  std::latch release(1);
  ThreadPool pool("test", 1, 2);
  ASSERT_TRUE(pool.Submit([&] {
    started.count_down();
    release.wait();
  }));
  started.wait();
  EXPECT_TRUE(pool.Submit([] {}));
  EXPECT_TRUE(pool.Submit([] {}));
  EXPECT_FALSE(pool.Submit([] {}));
  EXPECT_FALSE(pool.WaitUntilIdle(Deadline::In(std::chrono::milliseconds(10))));
  release.count_down();
  EXPECT_TRUE(pool.WaitUntilIdle(Soon()));
  EXPECT_TRUE(pool.Submit([] {}));
}

TEST(ThreadPoolTest, RefusesTasksAfterShutdown) {
  ThreadPool pool("test", 2, 10);
  pool.Shutdown();
  EXPECT_FALSE(pool.Submit([] {}));
  pool.Shutdown();  // Twice is harmless.
}

TEST(ThreadPoolTest, TasksMaySubmitTasks) {
  std::atomic<int> runs{0};
  ThreadPool pool("test", 1, 10);
  ASSERT_TRUE(pool.Submit([&] {
    ++runs;
    EXPECT_TRUE(pool.Submit([&] { ++runs; }));
  }));
  ASSERT_TRUE(pool.WaitUntilIdle(Soon()));
  EXPECT_EQ(runs, 2);
}

// Fails if what a task holds lives on after it is called done.
TEST(ThreadPoolTest, TasksAreDestroyedBeforeThePoolIsIdle) {
  ThreadPool pool("test", 1, 10);
  auto held = std::make_shared<int>(0);
  ASSERT_TRUE(pool.Submit([held] {}));
  ASSERT_TRUE(pool.WaitUntilIdle(Soon()));
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ThreadPoolTest, ThreadsHaveNames) {
  std::string name(16, '\0');
  {
    ThreadPool pool("dlsm-flush", 1, 1);
    ASSERT_TRUE(pool.Submit([&] { pthread_getname_np(pthread_self(), name.data(), name.size()); }));
  }
  EXPECT_STREQ(name.c_str(), "dlsm-flush-0");
}

}  // namespace
}  // namespace dlsm
