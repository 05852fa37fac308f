// Work that is in pieces, done by several threads at once while the caller waits.
#pragma once

#include <cstddef>
#include <functional>

#include "dLSM/status.h"

namespace dlsm {

// Calls job(0) to job(count - 1), and returns the first error in their order. Jobs begin in that
// order, so a job may wait for one before it. They run in up to `threads_max` threads, the caller's
// among them: in fewer where the system makes no more. A job for which there is no memory is Busy
// with `out_of_memory` as its message. After an error the jobs that have not begun are left out.
Status RunJobs(size_t count, size_t threads_max, const char* out_of_memory,
               const std::function<Status(size_t)>& job);

}  // namespace dlsm
