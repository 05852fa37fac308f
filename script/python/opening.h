// How databases are opened and destroyed.
#pragma once

#include <nanobind/nanobind.h>

namespace dlsm::python {

// Adds the functions that dlsm/__init__.py has faces for.
void AddOpening(nanobind::module_& module);

}  // namespace dlsm::python
