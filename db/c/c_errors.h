// How the C interface tells errors, and gives what is the caller's to free.
#pragma once

#include <utility>

#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "db/c/c_handles.h"

namespace dlsm::c {

// By malloc(), a 0 behind it; NULL when there is no memory.
char* Copy(const Slice& bytes);

// What dlsm_free() does.
void Free(void* pointer);

// True if `status` is an error, which *errptr then tells, if errptr is not NULL.
bool SaveError(char** errptr, const Status& status);

// Makes the call that `function` is, of which *errptr tells the error. True if there is one.
template <typename Function>
bool Fails(char** errptr, Function function) noexcept {
  return SaveError(errptr, Guarded(std::move(function)));
}

}  // namespace dlsm::c
