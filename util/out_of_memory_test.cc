#include "util/out_of_memory.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "util/status_testing.h"

namespace dlsm {
namespace {

// Fails if an exception passes that says that there is no memory, or if it looks like success.
TEST(OutOfMemoryTest, WhatThrowsIsAStatus) {
  const Status of_work = WithinMemory([]() -> Status { throw std::bad_alloc(); });
  EXPECT_TRUE(of_work.IsIOError());
  EXPECT_NE(of_work.ToString().find("memory"), std::string::npos) << of_work.ToString();
  const Status too_long = WithinMemory([]() -> Status { throw std::length_error("long"); });
  EXPECT_TRUE(too_long.IsIOError());
  const Status of_node = WithinMemory([]() -> Status { throw std::bad_alloc(); }, &OutOfNodeMemory);
  EXPECT_NE(of_node.ToString().find("memory node"), std::string::npos) << of_node.ToString();
}

// Fails if a result is lost, or an exception of another kind is taken for a want of memory.
TEST(OutOfMemoryTest, WhatElseHappensPasses) {
  EXPECT_OK(WithinMemory([] { return Status::OK(); }));
  EXPECT_TRUE(WithinMemory([] { return Status::Busy("full"); }).IsBusy());
  EXPECT_THROW(
      WithinMemory([]() -> Status { throw std::out_of_range("bug"); }).PermitUncheckedError(),
      std::out_of_range);
}

// Fails if the process goes on, or ends without saying why.
TEST(OutOfMemoryTest, ASmallAllocationThatFailsEndsTheProcess) {
  EXPECT_DEATH(OrEndForLackOfMemory([] { throw std::bad_alloc(); }), "dlsm: out of memory: ");
  EXPECT_EQ(OrEndForLackOfMemory([] { return 1; }), 1);
  EXPECT_THROW(OrEndForLackOfMemory([] { throw std::out_of_range("bug"); }), std::out_of_range);
}

TEST(OutOfMemoryTest, WhatCanBeDoneWithoutIsDoneIfItCan) {
  int done = 0;
  IfMemoryPermits([&done] { ++done; });
  IfMemoryPermits([] { throw std::bad_alloc(); });
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace dlsm
