// The extension module dlsm._dlsm. Its interface is described in dlsm/_dlsm.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <exception>

#include "dLSM/db.h"
#include "script/python/batches.h"
#include "script/python/cursors.h"
#include "script/python/database.h"
#include "script/python/fast_calls.h"
#include "script/python/iterators.h"
#include "script/python/opening.h"
#include "script/python/pinned_values.h"
#include "script/python/snapshots.h"

namespace nb = nanobind;

namespace dlsm::python {
namespace {

void Translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    Raise(error);
  }
}

}  // namespace

NB_MODULE(_dlsm, module) {
  // Objects that are alive at the end of the interpreter are closed by _close_all().
  nb::set_leak_warnings(false);
  nb::register_exception_translator(Translate);

  nb::class_<PythonSnapshot>(module, "Snapshot", "The state of a database at one moment.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](PythonSnapshot& self, nb::args) { self.Close(); })
      .def("close", &PythonSnapshot::Close, "Releases it. Iterators that were given it go on.");
  AddPinnedValues(module);
  AddIterators(module);
  AddCursors(module);
  AddBatches(module);
  AddDatabases(module);
  AddOpening(module);
  module.attr("_library_version") = nb::make_tuple(kMajorVersion, kMinorVersion);
}

}  // namespace dlsm::python
