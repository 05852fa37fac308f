// How the library acts if the process has no memory.
//
// In an application's handle (db/):
//   1. If a large allocation fails, that is a Status: blocks of memtables, indexes and filters of
//      tables, caches, transfer buffers, manifests, values. WithinMemory() stands right there.
//   2. If a small allocation fails, that ends the process, by EndForLackOfMemory(). The code in
//      between may be half done when std::bad_alloc leaves it, so nothing may go on behind it. So
//      each entry of the library catches it: the public calls, the tasks of the ThreadPool,
//      destructors.
// At a memory node each failure is a Status, or something is left out: its end would be the end of
// all databases there. The same holds for the floors that both share (port/, util/, table/).
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

// Of an open, or of work in the background, which is tried again.
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

// Says in one line on standard error that a small allocation has failed, and ends the process.
// Allocates nothing.
[[noreturn]] void EndForLackOfMemory() noexcept;

// Runs `function`, which no std::bad_alloc may leave; see above. For destructors and callbacks. The
// entries of the library have a `catch` of their own instead.
template <typename Function>
auto OrEndForLackOfMemory(Function function) -> decltype(function()) {
  try {
    return std::move(function)();
  } catch (const std::bad_alloc&) {
    EndForLackOfMemory();
  }
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
