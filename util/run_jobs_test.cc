#include "util/run_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "util/status_testing.h"

namespace dlsm {
namespace {

// Fails if a job is left out, done twice, or begins before one that it may wait for.
TEST(RunJobsTest, EachJobIsDoneOnce) {
  for (const size_t threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> done(100);
    ASSERT_OK(RunJobs(done.size(), threads, "", [&](size_t i) {
      while (i > 0 && done[i - 1] == 0) std::this_thread::yield();
      ++done[i];
      return Status::OK();
    }));
    for (const auto& times : done) EXPECT_EQ(times, 1) << threads;
  }
  ASSERT_OK(RunJobs(0, 4, "", [](size_t) { return Status::Aborted("there is none"); }));
}

// Fails if an error is lost or another one is told than the first, or if the rest is begun all the
// same.
TEST(RunJobsTest, TheFirstErrorIsTold) {
  for (const size_t threads : {1, 4}) {
    std::atomic<int> begun{0};
    const Status status = RunJobs(1000, threads, "no memory for it", [&](size_t i) {
      ++begun;
      if (i == 10) throw std::bad_alloc();
      return i > 10 ? Status::IOError("a later one") : Status::OK();
    });
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
    EXPECT_THAT(status.ToString(), testing::HasSubstr("no memory for it"));
    EXPECT_LT(begun, 1000);
  }
}

}  // namespace
}  // namespace dlsm
