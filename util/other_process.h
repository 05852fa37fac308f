// What is told of a handle that another process has opened.
#pragma once

#include <string>

#include "dLSM/status.h"
#include "port/process_mark.h"

namespace dlsm {

[[gnu::cold]] inline Status OpenedByOtherProcess(const port::ProcessMark& opened_by) {
  return Status::InvalidArgument(
      "this handle belongs to process " + std::to_string(opened_by.process()) + ", which opened it",
      "after fork() a child has to open the database itself");
}

}  // namespace dlsm
