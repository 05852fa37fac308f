#include "script/python/values.h"

namespace dlsm::python {

void Bytes::Borrow(nb::handle object) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), PyBUF_SIMPLE) != 0) {
    // numpy raises a ValueError here, and memoryview a BufferError, with words of their own.
    if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_BufferError)) {
      PyErr_Clear();
      PyErr_SetString(PyExc_BufferError,
                      "the bytes of a key or value have to lie in one piece (C-contiguous), which "
                      "bytes(...) or numpy.ascontiguousarray(...) makes of others");
    }
    throw nb::python_error();
  }
  buffer_.reset(buffer.release());
  slice_ = Slice(static_cast<const char*>(buffer_->buf), static_cast<size_t>(buffer_->len));
}

}  // namespace dlsm::python
