// How a Status is passed on to callers, and which one of several.
#pragma once

#include <utility>

#include "dLSM/status.h"

// Passes an error on to the caller.
#define DLSM_RETURN_IF_ERROR(expression)        \
  do {                                          \
    ::dlsm::Status dlsm_status_ = (expression); \
    if (!dlsm_status_.ok()) [[unlikely]]        \
      return dlsm_status_;                      \
  } while (false)

namespace dlsm {

// *first stays the first error of several; later ones are most often its consequences.
inline void KeepFirstError(Status next, Status* first) {
  if (first->ok()) {
    *first = std::move(next);
  } else {
    next.PermitUncheckedError();
  }
}

}  // namespace dlsm
