// The boundary at which a thread that the system will not make becomes a Status.
#pragma once

#include <string>
#include <system_error>
#include <utility>

#include "dLSM/status.h"

namespace dlsm {

// Runs `function`, which makes threads and returns a Status. Where the system makes no more of
// them, what was made so far goes with its owners, and the result is an IOError.
template <typename Function>
Status StartingThreads(Function function) {
  try {
    return std::move(function)();
  } catch (const std::system_error& error) {
    return Status::IOError(std::string("the system makes no more threads: ") + error.what(),
                           "raise the limit of processes (ulimit -u, pids.max of the control "
                           "group), or free memory");
  }
}

}  // namespace dlsm
