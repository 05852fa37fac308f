// Options of dlsm.open(), which have the names of Options' members.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "dLSM/options.h"

namespace dlsm::python {

// The text of a str, bytes or os.PathLike. Throws nanobind::python_error with a TypeError for any
// other object.
std::string TextOf(nanobind::handle value);

// Throws nanobind::type_error if there is no such option, or it does not have such values.
void SetOption(Options* options, const std::string& name, nanobind::handle value);

}  // namespace dlsm::python
