// How long commands take: from when their requests were received until their answers were ready to
// be sent, with what they changed written. By command, of one event loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "util/latency_counts.h"

namespace dlsm::serve {

struct Command;

class ResponseTimes {
 public:
  ResponseTimes();
  ResponseTimes(const ResponseTimes&) = delete;
  ResponseTimes& operator=(const ResponseTimes&) = delete;
  ~ResponseTimes();

  // By the event loop: `calls` calls of the command took as long. If there is no memory for a
  // command's first, they are not counted.
  void Add(const Command& command, uint64_t nanos, uint64_t calls);
  // By any thread: AllCommands()[number].
  void AddTo(size_t number, LatencySums* sums) const;

 private:
  std::vector<std::atomic<LatencyCounts*>> by_number_;  // Null before the first call.
};

}  // namespace dlsm::serve
