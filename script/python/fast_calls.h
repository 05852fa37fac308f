// Methods that are called often are entries of a PyMethodDef table instead of nanobind's functions:
// that saves about a third of the price of a call. Here is what nanobind does for others: arguments
// by position and name, and exceptions of C++.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include "script/python/handle.h"

namespace dlsm::python {

namespace nb = nanobind;

// Sets the exception of Python that errors.py has for the code of `error`.
void Raise(const Error& error) noexcept;

// Returns what the function returns, or `failed` after an exception, which is set in Python.
template <typename Result, typename Function>
Result Guarded(Result failed, const Function& function) noexcept {
  try {
    return function();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const Error& error) {
    Raise(error);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return failed;
}

// The object behind `self`, which is an instance of the class T or of one derived from it. Throws
// for one that was made without its constructor.
template <typename T>
T& Behind(PyObject* self) {
  if (!nb::inst_ready(self)) throw Error("the object was not made by the package");
  return *nb::inst_ptr<T>(self);
}

// What a method takes: the first `by_position` arguments also by position, the others by name only.
// The first `required` are not optional.
template <size_t count>
struct Signature {
  const char* method;
  std::array<const char*, count> names;
  size_t by_position;
  size_t required;
};

// The index of the argument of that name. Throws nb::python_error without one.
size_t IndexOfArgument(const char* method, const char* const* names, size_t count, PyObject* name);
// Throws nb::python_error.
[[noreturn]] void RefuseArguments(const char* method, const char* problem, const char* argument);

// Arguments that were not given are null. Throws nb::python_error.
template <size_t count>
std::array<PyObject*, count> TakeArguments(const Signature<count>& signature,
                                           PyObject* const* given, Py_ssize_t positional,
                                           PyObject* names) {
  std::array<PyObject*, count> taken{};
  const auto by_position = static_cast<size_t>(positional);
  if (by_position > signature.by_position)
    RefuseArguments(signature.method, "takes fewer arguments by position", "");
  for (size_t i = 0; i < by_position; ++i) taken[i] = given[i];
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const size_t index = IndexOfArgument(signature.method, signature.names.data(), count,
                                         PyTuple_GET_ITEM(names, i));
    if (taken[index] != nullptr)
      RefuseArguments(signature.method, "got twice the argument ", signature.names[index]);
    taken[index] = given[positional + i];
  }
  for (size_t i = 0; i < signature.required; ++i) {
    if (taken[i] == nullptr)
      RefuseArguments(signature.method, "lacks the argument ", signature.names[i]);
  }
  return taken;
}

// False for an argument that was not given. Throws nb::python_error.
inline bool IsTrue(PyObject* argument) {
  if (argument == nullptr || argument == Py_False) return false;
  if (argument == Py_True) return true;
  const int truth = PyObject_IsTrue(argument);
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

inline PyObject* None() { return nb::none().release().ptr(); }

using FastMethod = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

// An entry of a table of methods.
inline PyMethodDef Method(const char* name, FastMethod method, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method)),
          METH_FASTCALL | METH_KEYWORDS, doc};
}

}  // namespace dlsm::python
