// What callers are told for whom the process has no memory, and the boundary at which that becomes
// a Status.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// `outcome`: what has come of the call.
inline Status OutOfMemtableMemory(const Slice& outcome) noexcept {
  return Status::Busy(outcome,
                      "the process can have no more memory for memtables: raise its limit "
                      "(ulimit -v), lower write_buffer_size or max_write_buffer_number, or try "
                      "again when less waits to be flushed");
}

// Neither this nor those below are Busy, which would be a memory node's that has no room.
inline Status OutOfIndexMemory() noexcept {
  return Status::IOError("a table cannot be opened",
                         "the process can have no more memory for its index and filter: raise "
                         "its limit (ulimit -v), or set memory_budget, so that fewer of them are "
                         "kept");
}

// Of a read or a write of a memory node's memory.
inline Status OutOfTransferMemory() noexcept {
  return Status::IOError("a transfer cannot be made",
                         "the process can have no more memory for it: raise its limit "
                         "(ulimit -v), or have fewer of them under way");
}

// Of a call, or of work in the background, which is tried again.
inline Status OutOfWorkMemory() noexcept {
  return Status::IOError("it cannot be done, or not all of it",
                         "the process can have no more memory for it: raise its limit (ulimit -v), "
                         "or have it hold less (memory_budget, write_buffer_size)");
}

// Of a call that a memory node could not answer.
inline Status OutOfNodeMemory() noexcept {
  return Status::IOError("the memory node can have no more memory beside that which it serves",
                         "raise the limit of its process (ulimit -v, the control group), or start "
                         "Server with less to serve or fewer merge_threads");
}

// Runs `function`, which returns a Status. Where there is no memory for what it does, or what it
// was given is longer than any could be, the result is `otherwise()`: what it had begun is for
// destructors to undo, and what it had done is done.
template <typename Function>
Status WithinMemory(Function function, Status (*otherwise)() noexcept = &OutOfWorkMemory) {
  try {
    return std::move(function)();
  } catch (const std::bad_alloc&) {
    return otherwise();
  } catch (const std::length_error&) {
    return otherwise();
  }
}

inline constexpr size_t kSpareBytes = size_t{64} << 10;

// Before something that changes much in many small pieces, and cannot be taken back halfway: throws
// std::bad_alloc unless there is just now memory for all of them, which is far more than they need.
// What changes more than a few dozen pieces says so.
inline void RequireSpareMemory(size_t bytes = kSpareBytes) {
  const auto spare = std::make_unique_for_overwrite<char[]>(bytes);
  *static_cast<volatile char*>(spare.get()) = 0;  // So that it is not optimized away.
}

// Runs what is of use but can be done without: a line in the log, a count.
template <typename Function>
void IfMemoryPermits(Function function) noexcept {
  try {
    std::move(function)();
  } catch (const std::bad_alloc&) {
    // Then not.
  }
}

}  // namespace dlsm
