// A database, as Python has it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "script/python/batches.h"
#include "script/python/handle.h"
#include "script/python/iterators.h"
#include "script/python/snapshots.h"
#include "script/python/values.h"

namespace dlsm::python {

namespace nb = nanobind;

class PythonDb {
 public:
  explicit PythonDb(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}
  PythonDb(const PythonDb&) = delete;
  PythonDb& operator=(const PythonDb&) = delete;
  ~PythonDb() {
    const WithoutGil released;
    handle_.reset();
  }

  const std::shared_ptr<Handle>& handle() const { return handle_; }

  nb::object Get(nb::handle key, nb::object otherwise, const PythonSnapshot* snapshot) const {
    std::string value;
    return Find(key, snapshot, &value) ? nb::object(ToPython(value)) : otherwise;
  }
  nb::object GetItem(nb::handle key) const {
    std::string value;
    if (Find(key, nullptr, &value)) return ToPython(value);
    PyErr_SetObject(PyExc_KeyError, key.ptr());
    throw nb::python_error();
  }
  bool Contains(nb::handle key) const {
    std::string value;
    return Find(key, nullptr, &value);
  }

  nb::list MultiGet(nb::handle keys, nb::object otherwise, const PythonSnapshot* snapshot) const {
    std::vector<Bytes> owned;
    for (nb::handle key : keys) owned.emplace_back(key);
    std::vector<Slice> slices;
    slices.reserve(owned.size());
    for (const Bytes& key : owned) slices.push_back(key.slice());
    const std::shared_ptr<SnapshotHolder> holder = HolderFor(snapshot, handle_);
    std::vector<std::string> values;
    std::vector<Status> statuses;
    {
      const WithoutGil released;
      const Handle::Call db(handle_.get());
      statuses = db->MultiGet(AsOf(holder), slices, &values);
    }
    for (const Status& status : statuses) {
      if (!status.IsNotFound()) Check(status);
    }
    nb::list results;
    for (size_t i = 0; i < statuses.size(); ++i) {
      results.append(statuses[i].ok() ? nb::object(ToPython(values[i])) : otherwise);
    }
    return results;
  }

  void Put(nb::handle key, nb::handle value, bool sync) const {
    const Bytes k(key);
    const Bytes v(value);
    Do([&](const Handle::Call& db) { return db->Put(Written(sync), k.slice(), v.slice()); });
  }
  void Delete(nb::handle key, bool sync) const {
    const Bytes k(key);
    Do([&](const Handle::Call& db) { return db->Delete(Written(sync), k.slice()); });
  }
  void DeleteRange(nb::handle begin, nb::handle end, bool sync) const {
    const Bytes b(begin);
    const Bytes e(end);
    Do([&](const Handle::Call& db) {
      return db->DeleteRange(Written(sync), b.slice(), e.slice());
    });
  }

  PythonBatch* NewBatch(bool sync) const {
    handle_->CheckOpen();
    return new PythonBatch(handle_, sync);
  }
  PythonSnapshot* NewSnapshot() const {
    std::shared_ptr<SnapshotHolder> holder;
    {
      const WithoutGil released;
      holder = std::make_shared<SnapshotHolder>(handle_);
    }
    return new PythonSnapshot(std::move(holder));
  }
  PythonIterator* NewIterator(nb::handle start, nb::handle stop, nb::handle prefix, bool reverse,
                              bool keys, bool values, const PythonSnapshot* snapshot) const {
    if (!keys && !values) throw nb::value_error("an iterator without keys and without values");
    return new PythonIterator(handle_, HolderFor(snapshot, handle_),
                              Bounds::Of(start, stop, prefix), reverse, keys, values);
  }

  void Flush() const {
    Do([](const Handle::Call& db) { return db->Flush(FlushOptions()); });
  }
  void CompactRange(nb::handle begin, nb::handle end) const {
    const std::optional<Bytes> b = OptionalBytes(begin);
    const std::optional<Bytes> e = OptionalBytes(end);
    Do([&](const Handle::Call& db) {
      return db->CompactRange(b.has_value() ? &b->slice() : nullptr,
                              e.has_value() ? &e->slice() : nullptr);
    });
  }
  nb::object Property(const std::string& name) const {
    std::string value;
    bool found;
    {
      const WithoutGil released;
      const Handle::Call db(handle_.get());
      found = db->GetProperty(name, &value);
    }
    if (!found) return nb::none();
    return nb::steal(
        PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
  }

  void Close() const {
    Status status;
    {
      const WithoutGil released;
      status = handle_->Close();
    }
    Check(status);
  }
  bool Closed() const { return handle_->closed(); }

 private:
  template <typename Function>
  void Do(Function function) const {
    Status status;
    {
      const WithoutGil released;
      const Handle::Call db(handle_.get());
      status = function(db);
    }
    Check(status);
  }

  bool Find(nb::handle key, const PythonSnapshot* snapshot, std::string* value) const {
    const Bytes k(key);
    const std::shared_ptr<SnapshotHolder> holder = HolderFor(snapshot, handle_);
    Status status;
    {
      const WithoutGil released;
      const Handle::Call db(handle_.get());
      status = db->Get(AsOf(holder), k.slice(), value);
    }
    if (status.IsNotFound()) return false;
    Check(status);
    return true;
  }

  std::shared_ptr<Handle> handle_;
};

}  // namespace dlsm::python
