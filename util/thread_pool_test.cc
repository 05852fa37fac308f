#include "util/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "port/thread_sanitizer.h"
#include "util/eventually_testing.h"
#include "util/numa.h"
#include "util/numa_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;
using Clock = ThreadPool::Clock;
using Task = ThreadPool::Task;

constexpr auto kNever = Clock::time_point::max();
constexpr size_t kAtOnce = 8;

// Runs of many tasks that wait until they are let go.
class Held {
 public:
  Clock::time_point Run() {
    const int now = ++running_;
    int most = most_;
    while (most < now && !most_.compare_exchange_weak(most, now)) {
    }
    ++begun_;
    while (!released_) std::this_thread::sleep_for(milliseconds(1));
    --running_;
    return kNever;
  }
  void Release() { released_ = true; }
  int running() const { return running_; }
  int begun() const { return begun_; }
  int most() const { return most_; }

 private:
  std::atomic<int> running_{0};
  std::atomic<int> begun_{0};
  std::atomic<int> most_{0};
  std::atomic<bool> released_{false};
};

class ThreadPoolTest : public testing::Test {
 protected:
  using Tasks = std::vector<std::unique_ptr<Task>>;

  std::unique_ptr<Task> Hold(Held* held, const std::shared_ptr<ThreadPool::Group>& group = nullptr,
                             size_t runs_max = 1) {
    return std::make_unique<Task>(
        &pool_, runs_max, [held] { return held->Run(); }, group);
  }

  ThreadPool pool_{{.workers_at_once = kAtOnce, .idle_max = milliseconds(20)}};
};

// Fails if a task runs before it is woken, or does not when it is.
TEST_F(ThreadPoolTest, RunsWhatIsWoken) {
  std::atomic<int> runs{0};
  Task task(&pool_, 1, [&runs] {
    ++runs;
    return kNever;
  });
  EXPECT_EQ(runs, 0);
  for (int i = 1; i < 100; ++i) {
    task.Wake();
    ASSERT_TRUE(Eventually([&] { return runs == i; }));
  }
}

// Fails if what happened during a run, and was told, is not looked at by another one.
TEST_F(ThreadPoolTest, WhoIsWokenDuringItsRunRunsAgain) {
  std::atomic<int> told{0};
  std::atomic<int> seen{0};
  Task task(&pool_, 1, [&] {
    const int now = told;
    std::this_thread::yield();
    seen = now;
    return kNever;
  });
  for (int i = 1; i <= 2000; ++i) {
    told = i;
    task.Wake();
  }
  EXPECT_TRUE(Eventually([&] { return seen == 2000; }));
}

// Fails if a task has more runs at once than it may, or fewer than there is work for.
TEST_F(ThreadPoolTest, RunsSideBySideUpToALimit) {
  Held held;
  std::unique_ptr<Task> task = Hold(&held, nullptr, /*runs_max=*/3);
  for (int i = 1; i <= 3; ++i) {
    task->Wake();
    ASSERT_TRUE(Eventually([&] { return held.running() == i; }));
  }
  task->Wake();
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(held.begun(), 3);
  held.Release();
  EXPECT_TRUE(Eventually([&] { return held.begun() == 4; })) << "the last one is not forgotten";
  EXPECT_EQ(held.most(), 3);
}

// Fails if a time is missed, if a later one takes the place of an earlier one, or if a run that was
// woken in between is followed by the one that it came before.
TEST_F(ThreadPoolTest, RunsAtTheTimeThatWasAskedFor) {
  std::atomic<int> runs{0};
  Clock::time_point asked;
  std::atomic<bool> early{false};
  Task task(&pool_, 1, [&] {
    if (Clock::now() < asked) early = true;
    asked = Clock::now() + milliseconds(2);
    return ++runs < 10 ? asked : kNever;
  });
  task.Wake();
  EXPECT_TRUE(Eventually([&] { return runs == 10; }));
  EXPECT_FALSE(early);
  std::atomic<int> other_runs{0};
  Task other(&pool_, 1,
             [&] { return ++other_runs == 1 ? Clock::now() + milliseconds(50) : kNever; });
  other.Wake();
  ASSERT_TRUE(Eventually([&] { return other_runs == 1; }));
  other.Wake();
  ASSERT_TRUE(Eventually([&] { return other_runs == 2; }));
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(other_runs, 2);
}

// Fails if work waits for other work, of which each piece may wait for any other.
TEST_F(ThreadPoolTest, HasAThreadForEachRunThatThereMayBe) {
  constexpr int kTasks = 3 * static_cast<int>(kAtOnce);
  Held held;
  Tasks tasks;
  for (int i = 0; i < kTasks; ++i) tasks.push_back(Hold(&held));
  for (const auto& task : tasks) task->Wake();
  EXPECT_TRUE(Eventually([&] { return held.running() == kTasks; }));
  EXPECT_EQ(pool_.counts().threads, kTasks + 1u);
  held.Release();
  // Fails if threads stay that nobody needs.
  EXPECT_TRUE(Eventually([this] { return pool_.counts().threads == 2; }));
  std::atomic<bool> run{false};
  Task one_more(&pool_, 1, [&run] {
    run = true;
    return kNever;
  });
  one_more.Wake();
  EXPECT_TRUE(Eventually([&run] { return run.load(); })) << "with the thread that is left";
}

// Fails if many tasks that are due now and then, and take no time, need more than a few threads.
TEST_F(ThreadPoolTest, ManyShortRunsShareAThread) {
  constexpr int kTasks = 500;
  std::atomic<int> runs{0};
  Tasks tasks;
  const Clock::time_point start = Clock::now() + milliseconds(5);
  for (int i = 0; i < kTasks; ++i) {
    tasks.push_back(std::make_unique<Task>(&pool_, 1, [&runs, start, round = 0]() mutable {
      ++runs;
      return ++round < 4 ? start + round * milliseconds(30) : kNever;
    }));
  }
  for (const auto& task : tasks) task->Wake();
  ASSERT_TRUE(Eventually([&] { return runs >= kTasks; }));
  ASSERT_TRUE(Eventually([&] { return runs == 4 * kTasks; }));
  // On a machine that is busy some wait for long enough that threads are added.
  EXPECT_LE(pool_.counts().threads, kTasks / 5);
  EXPECT_EQ(pool_.counts().runs, 4u * kTasks);
}

// Fails if a task whose run takes its time keeps others that are due as well waiting.
TEST_F(ThreadPoolTest, WhatIsDueDoesNotWaitForARunThatTakesLong) {
  Held held;
  const Clock::time_point start = Clock::now() + milliseconds(5);
  std::atomic<int> runs{0};
  Tasks tasks;
  for (int i = 0; i < 10; ++i) {
    tasks.push_back(std::make_unique<Task>(&pool_, 1, [&, i, round = 0]() mutable {
      if (++round == 1) return start;
      if (i < 2) return held.Run();
      ++runs;
      return kNever;
    }));
  }
  for (const auto& task : tasks) task->Wake();
  EXPECT_TRUE(Eventually([&] { return runs == 8 && held.running() == 2; }));
  held.Release();
}

// Fails if a group takes more threads than it may, if others wait for it, or if those of its tasks
// that had to wait are forgotten.
TEST_F(ThreadPoolTest, AGroupHasALimit) {
  constexpr int kTasks = 6;
  Held held;
  const std::shared_ptr<ThreadPool::Group> group = pool_.GroupOf("a memory node", 2);
  EXPECT_EQ(pool_.GroupOf("a memory node", 5), group);
  EXPECT_NE(pool_.GroupOf("another one", 5), group);
  Tasks tasks;
  for (int i = 0; i < kTasks; ++i) tasks.push_back(Hold(&held, group));
  for (const auto& task : tasks) task->Wake();
  ASSERT_TRUE(Eventually([&] { return held.running() == 2; }));
  std::atomic<bool> run{false};
  Task other(&pool_, 1, [&run] {
    run = true;
    return kNever;
  });
  other.Wake();
  EXPECT_TRUE(Eventually([&run] { return run.load(); }));
  EXPECT_EQ(held.begun(), 2);
  tasks.pop_back();  // One that waits is let go of.
  held.Release();
  EXPECT_TRUE(Eventually([&] { return held.begun() == kTasks - 1; }));
  EXPECT_EQ(held.most(), 2);
}

// Fails if a run is under way, or begins, once its task was stopped.
TEST_F(ThreadPoolTest, StopsBetweenRuns) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<bool> stopped{false};
    std::atomic<bool> late{false};
    Task task(&pool_, 2, [&] {
      std::this_thread::yield();
      if (stopped) late = true;
      return Clock::now();
    });
    task.Wake();
    task.Wake();
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    task.Stop();
    stopped = true;
    EXPECT_TRUE(task.stopping());
    task.Wake();
    std::this_thread::yield();
    task.Stop();
    EXPECT_FALSE(late);
  }
  EXPECT_EQ(pool_.counts().tasks, 0u);
}

// Fails if handles do not share threads, or keep them when they are gone.
TEST(ThreadPoolOfThisProcessTest, IsThereWhileSomebodyHasIt) {
  std::shared_ptr<ThreadPool> pool = ThreadPool::OfThisProcess();
  EXPECT_EQ(ThreadPool::OfThisProcess(), pool);
  const std::weak_ptr<ThreadPool> gone = pool;
  pool.reset();
  EXPECT_TRUE(gone.expired());
  EXPECT_NE(ThreadPool::OfThisProcess(), nullptr);
}

// Fails if a process that was forked is given the pool of its parent, whose threads it has not got.
TEST(ThreadPoolOfThisProcessTest, AForkedProcessHasItsOwn) {
#ifdef DLSM_THREAD_SANITIZER
  GTEST_SKIP() << "it follows no child that makes threads";
#endif
  const auto runs_a_task = [](ThreadPool* pool) {
    std::atomic<bool> run{false};
    Task task(pool, 1, [&run] {
      run = true;
      return kNever;
    });
    task.Wake();
    return Eventually([&run] { return run.load(); });
  };
  const std::shared_ptr<ThreadPool> pool = ThreadPool::OfThisProcess();
  // Its threads are there. A thread that is just being made may hold locks of a sanitizer, which
  // the child would wait for in vain.
  ASSERT_TRUE(runs_a_task(pool.get()));
  const pid_t child = fork();
  if (child == 0) {
    const std::shared_ptr<ThreadPool> own = ThreadPool::OfThisProcess();
    _exit(own != pool && runs_a_task(own.get()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Fails if a thread of a pool that is on a node runs elsewhere, or if a thread that its task makes
// does. Fails if callers that ask for one node get two pools, or callers for two nodes one.
TEST(ThreadPoolOnNodeTest, AllItsThreadsAreThere) {
  constexpr int kProcessor = 0;
  FakeNuma machine{{0, {}}, {1, {.processor = kProcessor}}};
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(kProcessor, &only);
  cpu_set_t here;
  CPU_ZERO(&here);
  ASSERT_EQ(::sched_getaffinity(0, sizeof(here), &here), 0);
  if (!CPU_ISSET(kProcessor, &here)) GTEST_SKIP() << "this process may not use that processor";
  const std::shared_ptr<ThreadPool> on_node = ThreadPool::OfThisProcess(1);
  EXPECT_EQ(ThreadPool::OfThisProcess(1), on_node);
  const std::shared_ptr<ThreadPool> on_none = ThreadPool::OfThisProcess();
  EXPECT_NE(on_none, on_node);
  EXPECT_NE(ThreadPool::OfThisProcess(0), on_node);

  std::atomic<int> strays{0};
  std::atomic<int> runs{0};
  const auto look = [&only, &strays] {
    cpu_set_t may;
    CPU_ZERO(&may);
    if (::sched_getaffinity(0, sizeof(may), &may) != 0 || !CPU_EQUAL(&may, &only)) ++strays;
  };
  Held held;
  {
    // Several at once, so that the dispatcher makes workers.
    const auto run = [&] {
      look();
      std::thread(look).join();
      ++runs;
      return held.Run();
    };
    Task task(on_node.get(), 3, run);
    for (int i = 0; i < 3; ++i) {
      task.Wake();
      EXPECT_TRUE(Eventually([&] { return held.running() > i; }));
    }
    EXPECT_EQ(machine.ThreadsOn(1).size(), on_node->counts().threads);
    EXPECT_EQ(NumaUseOf(1).threads, on_node->counts().threads);
    held.Release();
    Task elsewhere(on_none.get(), 1, [&here] {
      cpu_set_t may;
      CPU_ZERO(&may);
      EXPECT_EQ(::sched_getaffinity(0, sizeof(may), &may), 0);
      EXPECT_TRUE(CPU_EQUAL(&may, &here));
      return kNever;
    });
    elsewhere.Wake();
    EXPECT_TRUE(Eventually([&] { return on_none->counts().runs > 0; }));
  }
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(strays, 0);
}

// Fails if a pool whose threads cannot be kept on a node does no work.
TEST(ThreadPoolOnNodeTest, WorksWhereItsThreadsMayNotBe) {
  FakeNuma machine{{1, {}}};
  machine.running_fails_with = EINVAL;
  ThreadPool::Config config;
  config.numa_node = 1;
  ThreadPool pool(config);
  std::atomic<bool> ran{false};
  Task task(&pool, 1, [&ran] {
    ran = true;
    return kNever;
  });
  task.Wake();
  EXPECT_TRUE(Eventually([&ran] { return ran.load(); }));
  EXPECT_EQ(NumaUseOf(1).threads, 0u);
}

}  // namespace
}  // namespace dlsm
