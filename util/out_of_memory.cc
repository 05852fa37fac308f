#include "util/out_of_memory.h"

#include <cstdlib>

#include "util/stderr_sink.h"

namespace dlsm {

void EndForLackOfMemory() noexcept {
  constexpr char kLine[] =
      "dlsm: out of memory: a small allocation has failed, and the process ends. Raise its limit "
      "(ulimit -v, the control group), or have it hold less (memory_budget, write_buffer_size)\n";
  WriteToStderr(kLine, sizeof(kLine) - 1);
  std::abort();
}

}  // namespace dlsm
