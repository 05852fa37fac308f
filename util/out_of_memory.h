// What callers are told for whom the process has no memory.
#pragma once

#include <new>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// Without any message where there is no memory for that either.

// `outcome`: what has come of the call.
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

// Not Busy, which would be a memory node's that has no room.
inline Status OutOfIndexMemory() noexcept {
  try {
    return Status::IOError("a table cannot be opened",
                           "the process can have no more memory for its index and filter: raise "
                           "its limit (ulimit -v), or set memory_budget, so that fewer of them are "
                           "kept");
  } catch (const std::bad_alloc&) {
    return Status::IOError(Slice());
  }
}

// Of a read or a write of a memory node's memory.
inline Status OutOfTransferMemory() noexcept {
  try {
    return Status::IOError("a transfer cannot be made",
                           "the process can have no more memory for it: raise its limit "
                           "(ulimit -v), or have fewer of them under way");
  } catch (const std::bad_alloc&) {
    return Status::IOError(Slice());
  }
}

}  // namespace dlsm
