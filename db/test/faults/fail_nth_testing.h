// An operation with its Nth transfer, call, connection, queue pair or buffer failing, for N from 1
// until it is through untouched. Each time: the error is a Status that says so, nothing that was
// acknowledged is lost, nothing leaks, and the database works again once the fault is gone.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <vector>

#include "db/test/faults/fault_world_testing.h"
#include "util/fabric/decorators/fault_injector.h"

namespace dlsm {

// How the database is made that an operation is tried on.
struct FaultShape {
  const char* name;
  const char* fabric;
  size_t nodes;
  int shards;
  CompactionPlace place;
  uint64_t stride;  // Of N: where there are many points, some of them.
};
inline void PrintTo(const FaultShape& shape, std::ostream* out) { *out << shape.name; }

class FailNthTest : public testing::TestWithParam<FaultShape> {
 protected:
  using Step = std::function<Status(FaultWorld*)>;
  struct Operation {
    // Without faults.
    Step prepare = [](FaultWorld*) { return Status::OK(); };
    // What is tried, and tried again once the fault is gone.
    Step attempt;
    // Why the database is not expected to be whole afterwards.
    bool destroys = false;
    std::function<void(Options*)> change = [](Options*) {};
  };

  static inline const std::vector<FaultKind> kWriteFaults = {
      FaultKind::kFail, FaultKind::kHalfWrite, FaultKind::kDisconnect};

  FailNthTest();

  void FailEach(const Operation& operation,
                const std::vector<FaultKind>& kinds = {FaultKind::kFail, FaultKind::kDisconnect});

  // Of a database as the test's parameter says.
  Options ShapedOptions() const;
  // DLSM_FAULT_STRIDE=1 is all of them; sanitizers take their time.
  static uint64_t Stride();

  // An open database with tables, a few of each key's versions, and something in its memtables.
  static Status Fill(FaultWorld* world);
  static Status FillAndFlush(FaultWorld* world);
  static Status FillAndClose(FaultWorld* world);

  TestNodes nodes_;

 private:
  // Returns whether the fault was met.
  bool FailOne(const Operation& operation, uint64_t n, FaultKind kind);

  uint64_t databases_ = 0;
};

}  // namespace dlsm
