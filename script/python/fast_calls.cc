#include "script/python/fast_calls.h"

namespace dlsm::python {
namespace {

// The name of the class in errors.py.
const char* ClassOf(const Error& error) {
  if (error.closed()) return "Closed";
  switch (error.code()) {
    case Status::Code::kOk:
      return "Error";
    case Status::Code::kNotFound:
      return "NotFound";
    case Status::Code::kCorruption:
      return "Corruption";
    case Status::Code::kNotSupported:
      return "NotSupported";
    case Status::Code::kInvalidArgument:
      return "InvalidArgument";
    case Status::Code::kIOError:
      return "IOError_";
    case Status::Code::kBusy:
      return "Busy";
    case Status::Code::kTimedOut:
      return "TimedOut";
    case Status::Code::kAborted:
      return "Aborted";
    case Status::Code::kIOFenced:
      return "IOFenced";
    case Status::Code::kIncomplete:
      return "Incomplete";
  }
  return "Error";
}

}  // namespace

void Raise(const Error& error) noexcept {
  try {
    const nb::object type = nb::module_::import_("dlsm.errors").attr(ClassOf(error));
    const std::string message = error.what();
    const nb::object text = nb::steal(
        PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
    PyErr_SetObject(type.ptr(), text.ptr());
  } catch (nb::python_error& other) {
    other.restore();
  }
}

size_t IndexOfArgument(const char* method, const char* const* names, size_t count, PyObject* name) {
  for (size_t i = 0; i < count; ++i) {
    if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return i;
  }
  PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", method, name);
  throw nb::python_error();
}

void RefuseArguments(const char* method, const char* problem, const char* argument) {
  PyErr_Format(PyExc_TypeError, "%s() %s%s", method, problem, argument);
  throw nb::python_error();
}

}  // namespace dlsm::python
