#include "db/c/c_errors.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "port/allocation_point.h"

namespace dlsm::c {
namespace {

// What is told of an error for whose message there is no memory: NULL would be success. It is not
// from malloc(), so only Free() may be given it.
char* ErrorWithoutMemory() {
  static char message[] =
      "the call has failed, and the process has no memory for what it has to say: raise its limit "
      "(ulimit -v), and try again";
  return message;
}

// By malloc(), or ErrorWithoutMemory().
char* ErrorMessage(const Status& status) {
  char* message = nullptr;
  try {
    port::AllocationPoint();
    message = Copy(status.ToString());
  } catch (const std::bad_alloc&) {
    // As if malloc() had failed.
  }
  return message == nullptr ? ErrorWithoutMemory() : message;
}

}  // namespace

char* Copy(const Slice& bytes) {
  char* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

void Free(void* pointer) {
  if (pointer != ErrorWithoutMemory()) std::free(pointer);
}

bool SaveError(char** errptr, const Status& status) {
  if (status.ok()) return false;
  if (errptr == nullptr) return true;
  Free(*errptr);
  *errptr = ErrorMessage(status);
  return true;
}

}  // namespace dlsm::c
