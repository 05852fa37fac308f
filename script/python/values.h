// Keys, values and options, as Python has them and as the database takes them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dLSM/options.h"
#include "dLSM/slice.h"

namespace dlsm::python {

namespace nb = nanobind;

using WithoutGil = nb::gil_scoped_release;

// The bytes of an object with a buffer that is in one piece: bytes, bytearray, memoryview, an array
// of numpy. Nothing is copied. The object keeps its buffer until this is destroyed, with the GIL.
// Throws nb::python_error: a TypeError for an object without a buffer, a BufferError for one whose
// buffer is in pieces.
class Bytes {
 public:
  explicit Bytes(nb::handle object) {
    if (PyBytes_CheckExact(object.ptr())) {
      owner_ = nb::borrow(object);
      slice_ = Slice(PyBytes_AS_STRING(object.ptr()),
                     static_cast<size_t>(PyBytes_GET_SIZE(object.ptr())));
      return;
    }
    Borrow(object);
  }
  Bytes(Bytes&& other) noexcept
      : owner_(std::move(other.owner_)), buffer_(std::move(other.buffer_)), slice_(other.slice_) {}
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() = default;

  const Slice& slice() const { return slice_; }
  bool writable() const { return buffer_ != nullptr && buffer_->readonly == 0; }
  std::string ToString() const { return slice_.ToString(); }

 private:
  struct Release {
    void operator()(Py_buffer* buffer) const {
      PyBuffer_Release(buffer);
      delete buffer;
    }
  };
  void Borrow(nb::handle object);

  nb::object owner_;
  std::unique_ptr<Py_buffer, Release> buffer_;
  Slice slice_;
};

// The bytes of a key. They stay as they are during a call, because the database compares them more
// than once: so those of a buffer that others can write to are copied.
class Key {
 public:
  explicit Key(nb::handle object) : bytes_(object) {
    if (bytes_.writable()) copy_ = std::make_unique<std::string>(bytes_.ToString());
  }
  Slice slice() const { return copy_ == nullptr ? bytes_.slice() : Slice(*copy_); }

 private:
  Bytes bytes_;
  std::unique_ptr<std::string> copy_;
};

// None has none.
inline std::optional<std::string> OptionalBytes(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return Bytes(object).ToString();
}

inline nb::object ToPython(const Slice& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

// Bytes that are no UTF-8 are replaced.
inline nb::object TextToPython(const Slice& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

inline WriteOptions Written(bool sync) {
  WriteOptions options;
  options.sync = sync;
  return options;
}

}  // namespace dlsm::python
