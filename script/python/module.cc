// The extension module dlsm._dlsm. Its interface is described in dlsm/_dlsm.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/status.h"
#include "script/python/batches.h"
#include "script/python/database.h"
#include "script/python/handle.h"
#include "script/python/iterators.h"
#include "script/python/open_options.h"
#include "script/python/snapshots.h"
#include "script/python/values.h"

namespace nb = nanobind;

namespace dlsm::python {
namespace {

PythonDb* Open(nb::handle path, const std::string& name, const std::string& memory_nodes,
               bool create_if_missing, const nb::dict& others) {
  Options options;
  options.create_if_missing = create_if_missing;
  options.memory_nodes = memory_nodes;
  if (!path.is_none()) options.embedded_dir = TextOf(path);
  for (const auto& [option, value] : others)
    SetOption(&options, nb::cast<std::string>(option), value);
  std::shared_ptr<Handle> handle;
  {
    const WithoutGil released;
    std::unique_ptr<DB> db;
    Check(DB::Open(options, name, &db));
    handle = Handle::Make(std::move(db));
  }
  return new PythonDb(std::move(handle));
}

// The name of the class in errors.py.
const char* ClassOf(Status::Code code) {
  switch (code) {
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

void Translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    const nb::object type = nb::module_::import_("dlsm.errors").attr(ClassOf(error.code()));
    const std::string message = error.what();
    const nb::object text = nb::steal(
        PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
    PyErr_SetObject(type.ptr(), text.ptr());
  }
}

nb::object Self(nb::object self) { return self; }

}  // namespace

NB_MODULE(_dlsm, module) {
  // Objects that are alive at the end of the interpreter are closed by _close_all().
  nb::set_leak_warnings(false);
  nb::register_exception_translator(Translate);

  nb::class_<PythonSnapshot>(module, "Snapshot", "The state of a database at one moment.")
      .def("__enter__", Self)
      .def("__exit__", [](PythonSnapshot& self, nb::args) { self.Close(); })
      .def("close", &PythonSnapshot::Close, "Releases it. Iterators that were given it go on.");

  nb::class_<PythonIterator>(module, "Iterator", "Goes over entries, as of one moment.")
      .def("__iter__", Self)
      .def("__next__", &PythonIterator::Next)
      .def("__enter__", Self)
      .def("__exit__", [](PythonIterator& self, nb::args) { self.Close(); })
      .def("seek", &PythonIterator::Seek, nb::arg("key"),
           "Goes on at the first key at or after `key`; in reverse at the last at or before it.")
      .def("close", &PythonIterator::Close, "Lets go of what the iterator holds.");

  nb::class_<PythonBatch>(module, "WriteBatch", "Updates that are written at once, or not at all.")
      .def("__enter__", Self)
      .def(
          "__exit__",
          [](PythonBatch& self, nb::handle type, nb::handle, nb::handle) { self.Exit(type); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none())
      .def("__len__", &PythonBatch::Count)
      .def("__setitem__", &PythonBatch::Put)
      .def("__delitem__", &PythonBatch::Delete)
      .def("put", &PythonBatch::Put, nb::arg("key"), nb::arg("value"))
      .def("delete", &PythonBatch::Delete, nb::arg("key"))
      .def("delete_range", &PythonBatch::DeleteRange, nb::arg("begin"), nb::arg("end"),
           "Deletes the keys in [begin, end).")
      .def("clear", &PythonBatch::Clear, "Forgets all updates.")
      .def("commit", &PythonBatch::Commit, "Writes the updates. The batch is empty then.");

  nb::class_<PythonDb>(module, "DB", nb::is_weak_referenceable(),
                       "An open database: an ordered map from bytes to bytes. Thread-safe.")
      .def("__enter__", Self)
      .def("__exit__", [](const PythonDb& self, nb::args) { self.Close(); })
      .def("__getitem__", &PythonDb::GetItem)
      .def("__setitem__", [](const PythonDb& self, nb::handle key,
                             nb::handle value) { self.Put(key, value, /*sync=*/false); })
      .def("__delitem__",
           [](const PythonDb& self, nb::handle key) { self.Delete(key, /*sync=*/false); })
      .def("__contains__", &PythonDb::Contains)
      .def(
          "__iter__",
          [](const PythonDb& self) {
            return self.NewIterator(nb::none(), nb::none(), nb::none(), /*reverse=*/false,
                                    /*keys=*/true, /*values=*/false, nullptr);
          },
          nb::rv_policy::take_ownership)
      .def("get", &PythonDb::Get, nb::arg("key"), nb::arg("default") = nb::none(),
           nb::arg("snapshot") = nb::none(), "The value of the key, or `default` without one.")
      .def("multi_get", &PythonDb::MultiGet, nb::arg("keys"), nb::arg("default") = nb::none(),
           nb::arg("snapshot") = nb::none(),
           "The values of several keys, as of one moment; the reads are on the wire together.")
      .def("put", &PythonDb::Put, nb::arg("key"), nb::arg("value"), nb::kw_only(),
           nb::arg("sync") = false)
      .def("delete", &PythonDb::Delete, nb::arg("key"), nb::kw_only(), nb::arg("sync") = false,
           "Deletes the key. It need not exist.")
      .def("delete_range", &PythonDb::DeleteRange, nb::arg("begin"), nb::arg("end"), nb::kw_only(),
           nb::arg("sync") = false, "Deletes the keys in [begin, end), at the price of one write.")
      .def("write_batch", &PythonDb::NewBatch, nb::kw_only(), nb::arg("sync") = false,
           nb::rv_policy::take_ownership,
           "Updates that become visible at once at the end of a `with`; none if it is left by an\n"
           "exception.")
      .def("snapshot", &PythonDb::NewSnapshot, nb::rv_policy::take_ownership,
           "The database as of now, for get(), multi_get() and iterator().")
      .def("iterator", &PythonDb::NewIterator, nb::arg("start") = nb::none(),
           nb::arg("stop") = nb::none(), nb::arg("prefix") = nb::none(), nb::kw_only(),
           nb::arg("reverse") = false, nb::arg("include_key") = true,
           nb::arg("include_value") = true, nb::arg("snapshot") = nb::none(),
           nb::rv_policy::take_ownership,
           "Goes over the entries with keys in [start, stop) that begin with `prefix`: pairs, or\n"
           "keys or values alone. In reverse it begins with the last of them.")
      .def("flush", &PythonDb::Flush, "Writes the memtables out to tables.")
      .def("compact_range", &PythonDb::CompactRange, nb::arg("begin") = nb::none(),
           nb::arg("end") = nb::none(), "Merges the tables of these keys; None has no bound.")
      .def("property", &PythonDb::Property, nb::arg("name"),
           "The property of this name, such as \"dlsm.stats\"; None if there is none.")
      .def("close", &PythonDb::Close,
           "Waits for the calls of other threads, and closes. Later calls raise an Error.")
      .def_prop_ro("closed", &PythonDb::Closed);

  module.def("_open", &Open, nb::arg("path").none(), nb::arg("name"), nb::arg("memory_nodes"),
             nb::arg("create_if_missing"), nb::arg("options"), nb::rv_policy::take_ownership);
  module.def("_close_all", [] {
    const WithoutGil released;
    Handle::CloseAll();
  });
}

}  // namespace dlsm::python
