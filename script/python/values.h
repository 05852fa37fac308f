// Keys, values and options, as Python has them and as the database takes them.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "dLSM/options.h"
#include "dLSM/slice.h"

namespace dlsm::python {

namespace nb = nanobind;

using WithoutGil = nb::gil_scoped_release;

// The bytes of a bytes-like object. Those of a `bytes` are not copied. Others may change while the
// database reads them, so they are.
class Bytes {
 public:
  explicit Bytes(nb::handle object) {
    if (PyBytes_Check(object.ptr())) {
      owner_ = nb::borrow(object);
      slice_ = Slice(PyBytes_AS_STRING(object.ptr()),
                     static_cast<size_t>(PyBytes_GET_SIZE(object.ptr())));
      return;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
    const char* const begin = static_cast<const char*>(buffer.buf);
    const size_t size = static_cast<size_t>(buffer.len);
    copy_ = std::make_unique<char[]>(std::max<size_t>(size, 1));
    std::copy(begin, begin + size, copy_.get());
    PyBuffer_Release(&buffer);
    slice_ = Slice(copy_.get(), size);
  }

  const Slice& slice() const { return slice_; }
  std::string ToString() const { return slice_.ToString(); }

 private:
  nb::object owner_;
  std::unique_ptr<char[]> copy_;
  Slice slice_;
};

// None has none.
inline std::optional<Bytes> OptionalBytes(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return Bytes(object);
}

inline nb::bytes ToPython(const Slice& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

inline WriteOptions Written(bool sync) {
  WriteOptions options;
  options.sync = sync;
  return options;
}

}  // namespace dlsm::python
