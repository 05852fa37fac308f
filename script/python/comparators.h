// Orders of keys that are functions of Python.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "dLSM/comparator.h"

namespace dlsm::python {

// An order by function(a, b), which gets two bytes and returns a number below, equal to or above 0.
// The database calls it in any thread, and each call takes the GIL. What the function raises is
// printed, as of an exception that nobody can catch, and the keys are then compared as bytes.
std::shared_ptr<const Comparator> NewPythonComparator(std::string name,
                                                      nanobind::callable function);

}  // namespace dlsm::python
