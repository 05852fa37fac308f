// The class DB: how Python calls what database.h has.
#include <nanobind/stl/string.h>

#include "script/python/database.h"
#include "script/python/fast_calls.h"

namespace dlsm::python {
namespace {

// Null for None, and for an argument that was not given. Throws nb::python_error.
const PythonSnapshot* SnapshotOf(PyObject* argument) {
  if (argument == nullptr || argument == Py_None) return nullptr;
  if (!nb::isinstance<PythonSnapshot>(argument)) {
    PyErr_SetString(PyExc_TypeError, "`snapshot` is not a Snapshot of the database");
    throw nb::python_error();
  }
  return &Behind<PythonSnapshot>(argument);
}

using Read = PyObject* (PythonDb::*)(nb::handle, const Reading&) const;

template <Read read>
PyObject* GetFast(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  static constexpr Signature<5> kSignature = {
      "get", {"key", "default", "snapshot", "verify_checksums", "fill_cache"}, 3, 1};
  return Guarded<PyObject*>(nullptr, [&] {
    const auto [key, otherwise, snapshot, verify, fill] =
        TakeArguments(kSignature, given, count, names);
    Reading reading;
    reading.snapshot = SnapshotOf(snapshot);
    reading.verify_checksums = IsTrue(verify);
    reading.fill_cache = fill == nullptr || IsTrue(fill);
    if (PyObject* const value = (Behind<PythonDb>(self).*read)(key, reading)) return value;
    return Py_NewRef(otherwise == nullptr ? Py_None : otherwise);
  });
}

PyObject* MultiGetFast(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  static constexpr Signature<3> kSignature = {"multi_get", {"keys", "default", "snapshot"}, 3, 1};
  return Guarded<PyObject*>(nullptr, [&] {
    const auto [keys, otherwise, snapshot] = TakeArguments(kSignature, given, count, names);
    return Behind<PythonDb>(self)
        .MultiGet(keys, otherwise == nullptr ? Py_None : otherwise, SnapshotOf(snapshot))
        .release()
        .ptr();
  });
}

PyObject* PutFast(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  static constexpr Signature<3> kSignature = {"put", {"key", "value", "sync"}, 2, 2};
  return Guarded<PyObject*>(nullptr, [&] {
    const auto [key, value, sync] = TakeArguments(kSignature, given, count, names);
    Behind<PythonDb>(self).Put(key, value, IsTrue(sync));
    return None();
  });
}

PyObject* DeleteFast(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  static constexpr Signature<2> kSignature = {"delete", {"key", "sync"}, 1, 1};
  return Guarded<PyObject*>(nullptr, [&] {
    const auto [key, sync] = TakeArguments(kSignature, given, count, names);
    Behind<PythonDb>(self).Delete(key, IsTrue(sync));
    return None();
  });
}

PyObject* GetItem(PyObject* self, PyObject* key) {
  return Guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (PyObject* const value = Behind<PythonDb>(self).Get(key, Reading())) return value;
    PyErr_SetObject(PyExc_KeyError, key);
    return nullptr;
  });
}

// db[key] = value, and del db[key], of which `value` is null.
int SetItem(PyObject* self, PyObject* key, PyObject* value) {
  return Guarded(-1, [&] {
    const auto& db = Behind<PythonDb>(self);
    if (value == nullptr) {
      db.Delete(key, /*sync=*/false);
    } else {
      db.Put(key, value, /*sync=*/false);
    }
    return 0;
  });
}

int ContainsItem(PyObject* self, PyObject* key) {
  return Guarded(-1, [&] { return Behind<PythonDb>(self).Contains(key) ? 1 : 0; });
}

PythonIterator* KeysOf(const PythonDb& db) {
  IteratorForm form;
  form.values = false;
  return db.NewIterator(Bounds(), form, nullptr);
}

PythonIterator* IteratorOf(const PythonDb& db, nb::handle start, nb::handle stop, nb::handle prefix,
                           bool reverse, bool keys, bool values, const PythonSnapshot* snapshot) {
  if (!keys && !values) throw nb::value_error("an iterator without keys and without values");
  IteratorForm form;
  form.reverse = reverse;
  form.keys = keys;
  form.values = values;
  return db.NewIterator(Bounds::Of(start, stop, prefix), form, snapshot);
}

// Of dlsm.plyvel.
PythonIterator* PartIteratorOf(const PythonDb& db, const nb::bytes& part, nb::handle start,
                               nb::handle stop, nb::handle prefix, bool include_start,
                               bool include_stop, bool reverse, bool keys, bool values,
                               bool verify_checksums, bool fill_cache,
                               const PythonSnapshot* snapshot) {
  const std::string before(part.c_str(), part.size());
  const IteratorForm form{.reverse = reverse,
                          .keys = keys,
                          .values = values,
                          .verify_checksums = verify_checksums,
                          .fill_cache = fill_cache,
                          .part = before,
                          .seek_before = true};
  return db.NewIterator(Bounds::OfPart(before, start, stop, prefix, include_start, include_stop),
                        form, snapshot);
}

PythonCursor* CursorOf(const PythonDb& db, bool verify_checksums, bool fill_cache,
                       const PythonSnapshot* snapshot) {
  ReadOptions options;
  options.verify_checksums = verify_checksums;
  options.fill_cache = fill_cache;
  return db.NewCursor(options, snapshot);
}

PyMethodDef methods[] = {
    Method("get", &GetFast<&PythonDb::Get>,
           "get($self, /, key, default=None, snapshot=None, *, verify_checksums=False, "
           "fill_cache=True)\n--\n\nThe value of the key, or `default` without one."),
    Method("get_pinned", &GetFast<&PythonDb::GetPinned>,
           "get_pinned($self, /, key, default=None, snapshot=None, *, verify_checksums=False, "
           "fill_cache=True)\n--\n\nThe same as a PinnedValue, without a copy where the database "
           "is on this machine."),
    Method("multi_get", &MultiGetFast,
           "multi_get($self, /, keys, default=None, snapshot=None)\n--\n\nThe values of several "
           "keys, as of one moment; the reads are on the wire together."),
    Method("put", &PutFast, "put($self, /, key, value, *, sync=False)\n--\n\n"),
    Method("delete", &DeleteFast,
           "delete($self, /, key, *, sync=False)\n--\n\nDeletes the key. It need not exist."),
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_methods, methods},
                       {Py_mp_subscript, reinterpret_cast<void*>(&GetItem)},
                       {Py_mp_ass_subscript, reinterpret_cast<void*>(&SetItem)},
                       {Py_sq_contains, reinterpret_cast<void*>(&ContainsItem)},
                       {0, nullptr}};

void AddReads(nb::class_<PythonDb>* type) {
  type->def("__iter__", &KeysOf, nb::rv_policy::take_ownership)
      .def("snapshot", &PythonDb::NewSnapshot, nb::rv_policy::take_ownership,
           "The database as of now, for get(), multi_get() and iterator().")
      .def("iterator", &IteratorOf, nb::arg("start") = nb::none(), nb::arg("stop") = nb::none(),
           nb::arg("prefix") = nb::none(), nb::kw_only(), nb::arg("reverse") = false,
           nb::arg("include_key") = true, nb::arg("include_value") = true,
           nb::arg("snapshot") = nb::none(), nb::rv_policy::take_ownership,
           "Goes over the entries with keys in [start, stop) that begin with `prefix`: pairs, or\n"
           "keys or values alone. In reverse it begins with the last of them.")
      .def("_iterator", &PartIteratorOf, nb::arg("part"), nb::arg("start").none(),
           nb::arg("stop").none(), nb::arg("prefix").none(), nb::arg("include_start"),
           nb::arg("include_stop"), nb::arg("reverse"), nb::arg("keys"), nb::arg("values"),
           nb::arg("verify_checksums"), nb::arg("fill_cache"), nb::arg("snapshot").none(),
           nb::rv_policy::take_ownership)
      .def("_cursor", &CursorOf, nb::arg("verify_checksums"), nb::arg("fill_cache"),
           nb::arg("snapshot").none(), nb::rv_policy::take_ownership)
      .def("approximate_sizes", &PythonDb::ApproximateSizes, nb::arg("ranges"),
           "About how many bytes of tables the keys of each (start, stop) take.")
      .def("property", &PythonDb::Property, nb::arg("name"),
           "The property of this name, such as \"dlsm.stats\"; None if there is none.")
      .def("statistics", &PythonDb::Statistics, "The counters by name, since the open.");
}

void AddWrites(nb::class_<PythonDb>* type) {
  type->def("delete_range", &PythonDb::DeleteRange, nb::arg("begin"), nb::arg("end"), nb::kw_only(),
            nb::arg("sync") = false, "Deletes the keys in [begin, end), at the price of one write.")
      .def("ingest_sorted", &PythonDb::IngestSorted, nb::arg("pairs"),
           "Loads an iterable of (key, value) in the order of keys, each key once: it becomes\n"
           "tables without passing memtables and log. Returns how many there were. Nothing of it "
           "is\n"
           "visible before all of it is.")
      .def("write_batch", &PythonDb::NewBatch, nb::kw_only(), nb::arg("sync") = false,
           nb::rv_policy::take_ownership,
           "Updates that become visible at once at the end of a `with`; none if it is left by an\n"
           "exception.")
      .def("flush", &PythonDb::Flush, "Writes the memtables out to tables.")
      .def("compact_range", &PythonDb::CompactRange, nb::arg("begin") = nb::none(),
           nb::arg("end") = nb::none(), "Merges the tables of these keys; None has no bound.")
      .def("flush_log", &PythonDb::FlushLog, nb::arg("sync") = false,
           "Has all that was written outlive this process; with `sync` it waits until that is as\n"
           "safe as a synced write.")
      .def("latest_sequence", &PythonDb::LatestSequence, "The number of the last write.")
      .def("durable_sequence", &PythonDb::DurableSequence,
           "All writes with numbers up to this one are known to be as safe as a synced write.")
      .def("wait_durable", &PythonDb::WaitDurable, nb::arg("sequence"),
           "Waits until all writes with numbers up to this one are as safe as a synced write.")
      .def("wait_for_background_work", &PythonDb::WaitForBackgroundWork,
           "Returns when no flush and no merge is running or due.")
      .def("try_catch_up", &PythonDb::TryCatchUp,
           "Of a follower: goes on to the newest publication of the owner.")
      .def("set_options", &PythonDb::SetOptions, nb::arg("options"),
           "Changes options while the database is open: names and values, as DB::SetOptions has\n"
           "them.");
}

}  // namespace

void AddDatabases(nb::module_& module) {
  nb::class_<PythonDb> type(module, "DB", nb::is_weak_referenceable(), nb::type_slots(slots),
                            "An open database: an ordered map from bytes to bytes. Thread-safe.");
  AddReads(&type);
  AddWrites(&type);
  type.def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](const PythonDb& self, nb::args) { self.Close(); })
      .def("close", &PythonDb::Close,
           "Waits for the calls of other threads, and closes. Later calls raise Closed.")
      .def_prop_ro("closed", &PythonDb::Closed);
}

}  // namespace dlsm::python
