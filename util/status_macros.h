#pragma once

#include "dLSM/status.h"

// Passes an error on to the caller.
#define DLSM_RETURN_IF_ERROR(expression)        \
  do {                                          \
    ::dlsm::Status dlsm_status_ = (expression); \
    if (!dlsm_status_.ok()) [[unlikely]]        \
      return dlsm_status_;                      \
  } while (false)
