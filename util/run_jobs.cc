#include "util/run_jobs.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "port/mutex.h"
#include "port/thread.h"

namespace dlsm {

Status RunJobs(size_t count, size_t threads_max, const char* out_of_memory,
               const std::function<Status(size_t)>& job) {
  port::Mutex mutex;
  Status error;
  size_t failed = count;  // The first one, by number.
  std::atomic<size_t> next{0};
  const auto work = [&] {
    while (true) {
      const size_t number = next.fetch_add(1);
      if (number >= count) return;
      Status status;
      try {
        status = job(number);
      } catch (const std::bad_alloc&) {
        status = Status::Busy(out_of_memory);
      }
      if (status.ok()) continue;
      next.store(count);
      const port::MutexLock lock(mutex);
      if (number >= failed) continue;
      failed = number;
      error = std::move(status);
    }
  };
  std::vector<port::Thread> threads;
  const size_t wanted = std::min(count, threads_max);
  try {
    threads.reserve(wanted);
    while (threads.size() + 1 < wanted) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Those that there are do it all.
  } catch (const std::bad_alloc&) {
  }
  work();
  for (port::Thread& thread : threads) thread.join();
  return error;
}

}  // namespace dlsm
