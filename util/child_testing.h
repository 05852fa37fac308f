// What a child of this process does, as a test sees it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

namespace dlsm {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DLSM_ADDRESS_SANITIZER 1
#endif
#if __has_feature(undefined_behavior_sanitizer)
#define DLSM_UNDEFINED_BEHAVIOR_SANITIZER 1
#endif
#endif

// UBSan opens a pipe to look at an object's type: without a descriptor it reports sound objects.
#ifdef DLSM_UNDEFINED_BEHAVIOR_SANITIZER
inline constexpr bool kWorksWithoutDescriptors = false;
#else
inline constexpr bool kWorksWithoutDescriptors = true;
#endif

// What only a thread of the parent knows of is lost in a child, which LeakSanitizer would report.
inline bool leaks_are_reported = true;

#ifdef DLSM_ADDRESS_SANITIZER
// LeakSanitizer asks this.
extern "C" [[gnu::used]] inline int __lsan_is_turned_off() { return leaks_are_reported ? 0 : 1; }
#endif

// How a child ends that fork() makes and that does nothing but `body`: as waitpid() tells it. One
// that hangs is killed by SIGALRM.
inline int StatusOfChild(const std::function<void()>& body) {
  constexpr unsigned kSecondsMax = 60;
  std::fflush(nullptr);  // Or else the child would print it as well.
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsMax);
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// The test fails if `body` fails in a child, crashes there, or hangs.
inline void InChild(const std::function<void()>& body) {
  const int status = StatusOfChild(body);
  EXPECT_FALSE(WIFSIGNALED(status)) << "the child was ended by signal " << WTERMSIG(status);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child failed, see above";
}

// Likewise, and the child ends by exit(): what is static is destroyed there.
inline void InChildThatExits(const std::function<void()>& body) {
  InChild([&body] {
    leaks_are_reported = false;
    body();
    std::exit(testing::Test::HasFailure() ? 1 : 0);  // NOLINT(concurrency-mt-unsafe)
  });
}

}  // namespace dlsm
