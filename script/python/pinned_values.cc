#include "script/python/pinned_values.h"

#include "script/python/fast_calls.h"
#include "script/python/values.h"

namespace dlsm::python {

PythonPinnedValue::PythonPinnedValue(std::shared_ptr<Handle> handle, PinnableSlice value)
    : handle_(std::move(handle)), value_(std::move(value)) {
  handle_->Add(this);
}

void PythonPinnedValue::LetGoOfValue() {
  if (std::exchange(released_, true)) return;
  const WithoutGil released;
  // In a child of fork() the value lets go of nothing by itself.
  static_cast<void>(handle_->Remove(this));
}

const Slice& PythonPinnedValue::slice() const {
  handle_->CheckOpen();
  if (released_) throw Error::Closed("the pinned value is released");
  return value_;
}

bool PythonPinnedValue::IsPinned() const {
  static_cast<void>(slice());
  return value_.IsPinned();
}

void PythonPinnedValue::Release() {
  if (buffers_ != 0) {
    throw nb::buffer_error("the value cannot be released: arrays or memoryviews use its buffer");
  }
  LetGoOfValue();
}

int PythonPinnedValue::GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return Guarded(-1, [&] {
    auto& value = Behind<PythonPinnedValue>(self);
    const Slice& bytes = value.slice();
    // The buffer is read-only: nobody writes through the pointer.
    if (PyBuffer_FillInfo(view, self, const_cast<char*>(bytes.data()),
                          static_cast<Py_ssize_t>(bytes.size()), /*readonly=*/1, flags) != 0) {
      throw nb::python_error();
    }
    value.handle_->AddBuffer();
    ++value.buffers_;
    return 0;
  });
}

void PythonPinnedValue::ReleaseBuffer(PyObject* self, Py_buffer*) {
  auto& value = *nb::inst_ptr<PythonPinnedValue>(self);
  --value.buffers_;
  value.handle_->RemoveBuffer();
}

void AddPinnedValues(nb::module_& module) {
  static PyType_Slot slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(&PythonPinnedValue::GetBuffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(&PythonPinnedValue::ReleaseBuffer)},
      {0, nullptr}};
  nb::class_<PythonPinnedValue>(module, "PinnedValue", nb::type_slots(slots),
                                "A value where the database has it: memoryview(value) and\n"
                                "numpy.frombuffer(value, dtype) read it without a copy.")
      .def("__len__", &PythonPinnedValue::size)
      .def("__bytes__", [](const PythonPinnedValue& self) { return ToPython(self.slice()); })
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](PythonPinnedValue& self, nb::args) { self.Release(); })
      .def_prop_ro(
          "pinned", &PythonPinnedValue::IsPinned,
          "False if the database has made a copy for this object, as of small values that\n"
          "came over a network.")
      .def("release", &PythonPinnedValue::Release,
           "Lets go of the bytes. A BufferError while an array or a memoryview uses them.");
}

}  // namespace dlsm::python
