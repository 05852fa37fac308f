// What callers are told for whom the process has no memory.
#pragma once

#include <new>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// `outcome`: what has come of the call. Without any message where there is no memory for that
// either.
inline Status OutOfMemtableMemory(const Slice& outcome) noexcept {
  try {
    return Status::Busy(outcome,
                        "the process can have no more memory for memtables: raise its limit "
                        "(ulimit -v), lower write_buffer_size or max_write_buffer_number, or try "
                        "again when less waits to be flushed");
  } catch (const std::bad_alloc&) {
    return Status::Busy(Slice());
  }
}

}  // namespace dlsm
