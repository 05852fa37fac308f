#include "benchmarks/simulation/simulated_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "port/clock.h"
#include "port/mutex.h"
#include "port/scheduler.h"
#include "port/thread.h"
#include "util/thread_number.h"

namespace dlsm::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SimulatedScheduler::Config ConfigOf(uint64_t seed) {
  SimulatedScheduler::Config config;
  config.seed = seed;
  config.switch_one_in = 2;
  return config;
}

void FailBecause(const std::string& why) { FAIL() << why; }

// Who came when, of two threads that take turns as the scheduler likes.
std::string Interleaving(uint64_t seed, uint64_t* trace) {
  std::string order;
  SimulatedScheduler scheduler(ConfigOf(seed), FailBecause);
  scheduler.Run([&order] {
    std::vector<port::Thread> threads;
    for (const char name : {'a', 'b'}) {
      threads.emplace_back([&order, name] {
        for (int i = 0; i < 10; ++i) {
          order += name;
          port::InterleavingPoint();
        }
      });
    }
    for (port::Thread& thread : threads) thread.join();
  });
  *trace = scheduler.trace();
  return order;
}

// A thread gives its number back while it still has the turn: otherwise who gets it next, and with
// it the queue pairs it stands for, depended on the machine.
TEST(SimulatedSchedulerTest, NumbersOfThreadsAreFreeWhenTheyHaveLeft) {
  SimulatedScheduler scheduler(ConfigOf(1), FailBecause);
  scheduler.Run([] {
    ThreadNumber::Current();
    for (int i = 0; i < 300; ++i) {
      uint32_t first = 0;
      uint32_t second = 0;
      port::Thread earlier([&first] { first = ThreadNumber::Current(); });
      port::SleepFor(seconds(1));  // In which it leaves.
      port::Thread later([&second] { second = ThreadNumber::Current(); });
      later.join();
      earlier.join();
      ASSERT_EQ(first, second) << "the number was still taken, in round " << i;
    }
  });
}

// Where the next object comes to lie depends on what threads that have gone gave back, and programs
// may look at addresses: two views of a database at one address are taken for one. Fails if others
// run while a thread that has left is not yet gone.
TEST(SimulatedSchedulerTest, ThreadsThatHaveLeftAreGone) {
  SimulatedScheduler scheduler(ConfigOf(1), FailBecause);
  scheduler.Run([&scheduler] {
    for (int i = 0; i < 5; ++i) {
      std::atomic<bool> at_its_end = false;
      const port::Scheduler::ThreadId id = scheduler.NewThread();
      std::thread slow([&] {
        scheduler.Enter(id);
        scheduler.Leave();
        std::this_thread::sleep_for(milliseconds(20));
        at_its_end = true;
      });
      scheduler.Join(id);
      EXPECT_TRUE(at_its_end) << "in round " << i;
      slow.join();
    }
  });
}

// Fails if a seed does not repeat, or if seeds do not differ.
TEST(SimulatedSchedulerTest, ASeedIsAnInterleaving) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint64_t trace = 0;
    uint64_t again = 0;
    const std::string order = Interleaving(seed, &trace);
    EXPECT_EQ(order, Interleaving(seed, &again)) << seed;
    EXPECT_EQ(trace, again) << seed;
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 15u);
}

// Fails if time passes by itself, or if it does not jump: hours would take hours.
TEST(SimulatedSchedulerTest, SleepingTakesNoTime) {
  const auto began = std::chrono::steady_clock::now();
  SimulatedScheduler scheduler(ConfigOf(1), FailBecause);
  std::vector<int> woken;
  scheduler.Run([&woken] {
    port::Thread late([&woken] {
      port::SleepFor(seconds(3000));
      woken.push_back(3000);
    });
    port::SleepFor(seconds(2000));
    woken.push_back(2000);
    late.join();
  });
  EXPECT_EQ(woken, (std::vector<int>{2000, 3000}));
  EXPECT_GE(scheduler.elapsed(), seconds(3000));
  EXPECT_LT(scheduler.elapsed(), seconds(3001));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(100));
}

// Fails if a wait misses a signal or its end.
TEST(SimulatedSchedulerTest, WaitsEndBySignalOrTime) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimulatedScheduler scheduler(ConfigOf(seed), FailBecause);
    scheduler.Run([] {
      port::Mutex mutex;
      port::CondVar changed(mutex);
      bool ready = false;
      port::Thread signaller([&] {
        const port::MutexLock lock(mutex);
        ready = true;
        changed.Signal();
      });
      {
        const port::MutexLock lock(mutex);
        while (!ready) changed.Wait();
        const auto until = port::Clock::now() + seconds(7);
        while (changed.WaitUntil(until)) {
        }
        EXPECT_GE(port::Clock::now(), until);
      }
      signaller.join();
    });
  }
}

// Fails if the interleavings that the seeds draw do not include the one that loses an update.
TEST(SimulatedSchedulerTest, FindsALostUpdate) {
  int lost = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    int count = 0;
    SimulatedScheduler scheduler(ConfigOf(seed), FailBecause);
    scheduler.Run([&count] {
      const auto increment = [&count] {
        const int before = count;
        port::InterleavingPoint();
        count = before + 1;
      };
      port::Thread other(increment);
      increment();
      other.join();
    });
    if (count == 1) ++lost;
  }
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 50);
}

// Fails if what a thread's locals do at its end is not the scheduler's to order: nobody else may
// run meanwhile, and who joins waits for it.
TEST(SimulatedSchedulerTest, AThreadEndsWithItsLocals) {
  static int farewells;
  struct Farewell {
    ~Farewell() {
      port::SleepFor(seconds(1));
      ++farewells;
    }
  };
  farewells = 0;
  SimulatedScheduler scheduler(ConfigOf(1), FailBecause);
  scheduler.Run([] {
    port::Thread thread([] {
      static thread_local Farewell farewell;
      static_cast<void>(farewell);
    });
    thread.join();
    EXPECT_EQ(farewells, 1);
  });
}

void Tell(const std::string& why) {
  std::fprintf(stderr, "%s", why.c_str());
  _exit(7);
}

// Fails if threads that wait for each other hang instead of being told of.
TEST(SimulatedSchedulerDeathTest, ADeadlockIsAFailure) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto deadlock = [] {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      SimulatedScheduler scheduler(ConfigOf(seed), Tell);
      scheduler.Run([] {
        port::Mutex first;
        port::Mutex second;
        port::Thread other([&] {
          const port::MutexLock outer(second);
          const port::MutexLock inner(first);
        });
        {
          const port::MutexLock outer(first);
          const port::MutexLock inner(second);
        }
        other.join();
      });
    }
  };
  EXPECT_EXIT(deadlock(), testing::ExitedWithCode(7), "nobody can run(.|\n)*waits for a mutex");
}

// Fails if a loop without an end goes on for ever.
TEST(SimulatedSchedulerDeathTest, NoProgressIsAFailure) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto spin = [] {
    SimulatedScheduler::Config config = ConfigOf(1);
    config.steps_max = 1000;
    SimulatedScheduler scheduler(config, Tell);
    scheduler.Run([] {
      for (;;) port::Yield();
    });
  };
  EXPECT_EXIT(spin(), testing::ExitedWithCode(7), "no end after 1001 steps");
}

}  // namespace
}  // namespace dlsm::simulation
