// Values without a copy, as Python has them: objects with a read-only buffer, for memoryview() and
// numpy.frombuffer(). The bytes stay where the database has them as long as the object or a buffer
// over it lives.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "dLSM/db.h"
#include "dLSM/pinnable_slice.h"
#include "script/python/handle.h"

namespace dlsm::python {

namespace nb = nanobind;

class PythonPinnedValue : public Dependent {
 public:
  // During a Call of the handle.
  PythonPinnedValue(std::shared_ptr<Handle> handle, PinnableSlice value);
  ~PythonPinnedValue() override { LetGoOfValue(); }

  void LetGo(DB*) override { value_.Reset(); }

  // With the GIL. Throws after a release, and after close().
  const Slice& slice() const;
  bool IsPinned() const;
  size_t size() const { return slice().size(); }
  // Throws while there are buffers.
  void Release();

  // As Python's buffer protocol has them.
  static int GetBuffer(PyObject* self, Py_buffer* view, int flags);
  static void ReleaseBuffer(PyObject* self, Py_buffer* view);

 private:
  void LetGoOfValue();

  const std::shared_ptr<Handle> handle_;
  PinnableSlice value_;
  bool released_ = false;
  size_t buffers_ = 0;  // Guarded by the GIL.
};

// Adds the class PinnedValue.
void AddPinnedValues(nb::module_& module);

}  // namespace dlsm::python
