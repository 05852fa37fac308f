#include "script/python/batches.h"

#include "script/python/fast_calls.h"
#include "script/python/values.h"

namespace dlsm::python {
namespace {

PyObject* PutFast(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  static constexpr Signature<2> kSignature = {"put", {"key", "value"}, 2, 2};
  return Guarded<PyObject*>(nullptr, [&] {
    const auto [key, value] = TakeArguments(kSignature, given, count, names);
    Behind<PythonBatch>(self).Put(key, value);
    return None();
  });
}

PyObject* DeleteFast(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  static constexpr Signature<1> kSignature = {"delete", {"key"}, 1, 1};
  return Guarded<PyObject*>(nullptr, [&] {
    const auto [key] = TakeArguments(kSignature, given, count, names);
    Behind<PythonBatch>(self).Delete(key);
    return None();
  });
}

// batch[key] = value, and del batch[key], of which `value` is null.
int SetItem(PyObject* self, PyObject* key, PyObject* value) {
  return Guarded(-1, [&] {
    auto& batch = Behind<PythonBatch>(self);
    if (value == nullptr) {
      batch.Delete(key);
    } else {
      batch.Put(key, value);
    }
    return 0;
  });
}

}  // namespace

void PythonBatch::Put(nb::handle key, nb::handle value) {
  handle_->CheckOpen();
  const Bytes k(key);
  const Bytes v(value);
  batch_.Put(k.slice(), v.slice());
}

void PythonBatch::Delete(nb::handle key) {
  handle_->CheckOpen();
  const Bytes k(key);
  batch_.Delete(k.slice());
}

void PythonBatch::DeleteRange(nb::handle begin, nb::handle end) {
  handle_->CheckOpen();
  const Bytes b(begin);
  const Bytes e(end);
  batch_.DeleteRange(b.slice(), e.slice());
}

void PythonBatch::PutPair(nb::handle pair) {
  if (PyTuple_CheckExact(pair.ptr()) && PyTuple_GET_SIZE(pair.ptr()) == 2) {
    return Put(PyTuple_GET_ITEM(pair.ptr(), 0), PyTuple_GET_ITEM(pair.ptr(), 1));
  }
  const nb::object items =
      nb::steal(PySequence_Fast(pair.ptr(), "update() takes pairs of a key and a value"));
  if (!items.is_valid()) throw nb::python_error();
  if (PySequence_Fast_GET_SIZE(items.ptr()) != 2) {
    throw nb::value_error("update() takes pairs of a key and a value");
  }
  Put(PySequence_Fast_GET_ITEM(items.ptr(), 0), PySequence_Fast_GET_ITEM(items.ptr(), 1));
}

void PythonBatch::Update(nb::handle pairs) {
  nb::object items = nb::borrow(pairs);
  if (PyMapping_Check(pairs.ptr()) && nb::hasattr(pairs, "items")) items = pairs.attr("items")();
  batch_.SetSavePoint();
  try {
    for (nb::handle pair : items) PutPair(pair);
  } catch (...) {
    batch_.RollbackToSavePoint().PermitUncheckedError();
    throw;
  }
  batch_.PopSavePoint().PermitUncheckedError();
}

void PythonBatch::Commit(bool keep) {
  WriteBatch batch = std::move(batch_);
  batch_.Clear();
  Status status;
  try {
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    status = db->Write(Written(sync_), &batch);
  } catch (...) {
    if (batch_.Count() == 0) batch_ = std::move(batch);
    throw;
  }
  // The caller may try again.
  if ((keep || !status.ok()) && batch_.Count() == 0) batch_ = std::move(batch);
  Check(status);
}

void PythonBatch::Exit(nb::handle error) {
  if (error.is_none()) {
    Commit(/*keep=*/false);
  } else {
    Clear();
  }
}

void AddBatches(nb::module_& module) {
  static PyMethodDef methods[] = {
      Method("put", &PutFast, "put($self, /, key, value)\n--\n\n"),
      Method("delete", &DeleteFast,
             "delete($self, /, key)\n--\n\nDeletes the key. It need not exist."),
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods},
                                {Py_mp_ass_subscript, reinterpret_cast<void*>(&SetItem)},
                                {0, nullptr}};
  nb::class_<PythonBatch>(module, "WriteBatch", nb::type_slots(slots),
                          "Updates that are written at once, or not at all.")
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__",
          [](PythonBatch& self, nb::handle type, nb::handle, nb::handle) { self.Exit(type); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none())
      .def("__len__", &PythonBatch::Count)
      .def("update", &PythonBatch::Update, nb::arg("pairs"),
           "Puts all entries of a mapping, or of an iterable of pairs.")
      .def("delete_range", &PythonBatch::DeleteRange, nb::arg("begin"), nb::arg("end"),
           "Deletes the keys in [begin, end).")
      .def("append", &PythonBatch::Append, nb::arg("other"), "Adds the updates of another batch.")
      .def("approximate_size", &PythonBatch::ApproximateSize,
           "How many bytes of memory the updates take.")
      .def("clear", &PythonBatch::Clear, "Forgets all updates.")
      .def(
          "commit", [](PythonBatch& self) { self.Commit(/*keep=*/false); },
          "Writes the updates. The batch is empty then.")
      .def("_write", [](PythonBatch& self) { self.Commit(/*keep=*/true); });
}

}  // namespace dlsm::python
