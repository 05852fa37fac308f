#include "benchmarks/flag_checks.h"

#include <gtest/gtest.h>

#include "dLSM/status.h"

namespace dlsm::bench {
namespace {

// Fails if another error than the first is told, or, where all have to be looked at
// (DLSM_CHECK_STATUSES), if one behind it is not.
TEST(FlagChecksTest, TheFirstErrorIsToldAndAllAreLookedAt) {
  const Status first = FirstError({Status::OK(), Status::InvalidArgument("--a"), Status::OK(),
                                   Status::NotSupported("--b"), Status::OK()});
  EXPECT_TRUE(first.IsInvalidArgument()) << first.ToString();
  EXPECT_EQ(first.message().ToString(), "--a");
  EXPECT_TRUE(FirstError({Status::OK(), Status::OK()}).ok());
}

}  // namespace
}  // namespace dlsm::bench
