// What tests of opening databases share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "db/test/test_database_testing.h"

namespace dlsm {

inline testing::AssertionResult Says(const Status& status, const std::string& text) {
  if (status.ToString().find(text) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << status.ToString() << "\" does not say " << text;
}

// A memory node of each test's own, so that all of its bytes are accounted for.
class OpenTest : public testing::Test {
 protected:
  Options NodeOptions(const std::string& fabric = "shm") {
    return node_.With(TinyOptions(), fabric);
  }
  Status TryOpen(const Options& options, const std::string& name = "db") {
    std::unique_ptr<DB> db;
    return DB::Open(options, name, &db);
  }

  TestNode node_;
};

}  // namespace dlsm
