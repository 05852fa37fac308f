// Assertions about a Status, for tests.
#pragma once

#include <gtest/gtest.h>

#include "dLSM/status.h"

namespace dlsm {

inline testing::AssertionResult IsOk(const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.ToString();
}

}  // namespace dlsm

#define ASSERT_OK(expression) ASSERT_TRUE(::dlsm::IsOk(expression))
#define EXPECT_OK(expression) EXPECT_TRUE(::dlsm::IsOk(expression))
