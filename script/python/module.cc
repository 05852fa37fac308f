// The extension module dlsm._dlsm. Its interface is described in dlsm/_dlsm.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/slice.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"
#include "script/python/handle.h"
#include "script/python/open_options.h"

namespace nb = nanobind;

namespace dlsm::python {
namespace {

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
std::optional<Bytes> OptionalBytes(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return Bytes(object);
}

nb::bytes ToPython(const Slice& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

WriteOptions Written(bool sync) {
  WriteOptions options;
  options.sync = sync;
  return options;
}

// Without the GIL, because the release waits for a close().
void Drop(std::shared_ptr<SnapshotHolder> holder) {
  const WithoutGil released;
  holder.reset();
}

class PythonSnapshot {
 public:
  explicit PythonSnapshot(std::shared_ptr<SnapshotHolder> holder) : holder_(std::move(holder)) {}
  PythonSnapshot(const PythonSnapshot&) = delete;
  PythonSnapshot& operator=(const PythonSnapshot&) = delete;
  ~PythonSnapshot() { Close(); }

  void Close() {
    if (holder_ != nullptr) Drop(std::move(holder_));
  }
  // Throws if it is released, or of another database.
  std::shared_ptr<SnapshotHolder> HolderFor(const std::shared_ptr<Handle>& handle) const {
    handle->CheckOpen();
    if (holder_ == nullptr) throw Error("the snapshot is released");
    if (holder_->handle() != handle) {
      throw Error(Status::InvalidArgument("the snapshot is one of another database"));
    }
    return holder_;
  }

 private:
  std::shared_ptr<SnapshotHolder> holder_;
};

std::shared_ptr<SnapshotHolder> HolderFor(const PythonSnapshot* snapshot,
                                          const std::shared_ptr<Handle>& handle) {
  return snapshot == nullptr ? nullptr : snapshot->HolderFor(handle);
}

ReadOptions AsOf(const std::shared_ptr<SnapshotHolder>& snapshot) {
  ReadOptions options;
  if (snapshot != nullptr) options.snapshot = snapshot->get();
  return options;
}

// The first key after all those that begin with `prefix`; none if there is no such key.
std::optional<std::string> EndOfPrefix(std::string prefix) {
  while (!prefix.empty()) {
    if (const auto last = static_cast<unsigned char>(prefix.back()); last != 0xff) {
      prefix.back() = static_cast<char>(last + 1);
      return prefix;
    }
    prefix.pop_back();
  }
  return std::nullopt;
}

struct Bounds {
  std::optional<std::string> lower;
  std::optional<std::string> upper;

  static Bounds Of(nb::handle start, nb::handle stop, nb::handle prefix) {
    Bounds bounds;
    if (!start.is_none()) bounds.lower = Bytes(start).ToString();
    if (!stop.is_none()) bounds.upper = Bytes(stop).ToString();
    if (prefix.is_none()) return bounds;
    const std::string begin = Bytes(prefix).ToString();
    const std::optional<std::string> end = EndOfPrefix(begin);
    if (!bounds.lower.has_value() || *bounds.lower < begin) bounds.lower = begin;
    if (end.has_value() && (!bounds.upper.has_value() || *end < *bounds.upper)) bounds.upper = end;
    return bounds;
  }
};

// It reads some entries ahead, so that not each of them costs a turn with the interpreter's lock.
class PythonIterator : public Dependent {
 public:
  PythonIterator(std::shared_ptr<Handle> handle, std::shared_ptr<SnapshotHolder> snapshot,
                 Bounds bounds, bool reverse, bool keys, bool values)
      : handle_(std::move(handle)),
        snapshot_(std::move(snapshot)),
        bounds_(std::move(bounds)),
        reverse_(reverse),
        keys_(keys),
        values_(values) {
    if (bounds_.lower.has_value()) lower_ = Slice(*bounds_.lower);
    if (bounds_.upper.has_value()) upper_ = Slice(*bounds_.upper);
    empty_ = bounds_.lower.has_value() && bounds_.upper.has_value() && lower_.compare(upper_) >= 0;
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    ReadOptions options = AsOf(snapshot_);
    if (bounds_.lower.has_value()) options.iterate_lower_bound = &lower_;
    if (bounds_.upper.has_value()) options.iterate_upper_bound = &upper_;
    iterator_.reset(db->NewIterator(options));
    handle_->Add(this);
  }
  ~PythonIterator() override { Release(); }

  void LetGo(DB*) override { iterator_.reset(); }

  void Close() {
    CheckIdle();
    Release();
  }

  void Seek(nb::handle key) {
    const Bytes target(key);
    CheckIdle();
    CheckOpen();
    target_ = target.ToString();
    positioned_ = done_ = false;
    failure_.reset();
    count_ = next_ = 0;
    chunk_ = 1;
  }

  nb::object Next() {
    CheckIdle();
    CheckOpen();
    if (next_ == count_) {
      if (done_) throw nb::stop_iteration();
      Fill();
      if (next_ == count_) {
        done_ = true;
        if (failure_.has_value()) throw Error(*std::exchange(failure_, std::nullopt));
        throw nb::stop_iteration();
      }
    }
    const Entry& entry = entries_[next_++];
    if (!values_) return ToPython(entry.key);
    if (!keys_) return ToPython(entry.value);
    return nb::make_tuple(ToPython(entry.key), ToPython(entry.value));
  }

 private:
  static constexpr size_t kChunkMax = 128;
  static constexpr size_t kChunkBytes = size_t{64} << 10;

  struct Entry {
    std::string key;
    std::string value;
  };

  // The GIL guards busy_, which is true while a thread reads ahead without the GIL.
  void CheckIdle() const {
    if (busy_) throw Error("another thread is using the iterator");
  }
  void CheckOpen() const {
    handle_->CheckOpen();
    if (closed_) throw Error("the iterator is closed");
  }

  void Fill() {
    if (empty_ || failure_.has_value()) return;
    struct Busy {
      explicit Busy(bool* of) : busy(of) { *busy = true; }
      ~Busy() { *busy = false; }
      bool* busy;
    };
    const Busy busy(&busy_);
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    count_ = next_ = 0;
    entries_.resize(chunk_);
    for (size_t bytes = 0; count_ < chunk_ && bytes < kChunkBytes; ++count_) {
      Move();
      if (!iterator_->Valid()) {
        if (Status status = iterator_->status(); !status.ok()) failure_ = std::move(status);
        done_ = !failure_.has_value();
        return;
      }
      Entry& entry = entries_[count_];
      const Slice key = iterator_->key();
      entry.key.assign(key.data(), key.size());
      bytes += key.size();
      if (!values_) continue;
      const Slice value = iterator_->value();
      entry.value.assign(value.data(), value.size());
      bytes += value.size();
    }
    chunk_ = std::min(2 * chunk_, kChunkMax);
  }

  void Move() {
    if (std::exchange(positioned_, true)) {
      return reverse_ ? iterator_->Prev() : iterator_->Next();
    }
    if (reverse_) {
      const bool behind =
          bounds_.upper.has_value() && target_.has_value() && *target_ >= upper_.ToStringView();
      return target_.has_value() && !behind ? iterator_->SeekForPrev(*target_)
                                            : iterator_->SeekToLast();
    }
    const bool before =
        bounds_.lower.has_value() && target_.has_value() && *target_ < lower_.ToStringView();
    return target_.has_value() && !before ? iterator_->Seek(*target_) : iterator_->SeekToFirst();
  }

  void Release() {
    if (std::exchange(closed_, true)) return;
    const WithoutGil released;
    if (!handle_->Remove(this)) static_cast<void>(iterator_.release());
    snapshot_.reset();
  }

  const std::shared_ptr<Handle> handle_;
  std::shared_ptr<SnapshotHolder> snapshot_;
  const Bounds bounds_;
  const bool reverse_;
  const bool keys_;
  const bool values_;
  Slice lower_;
  Slice upper_;
  bool empty_ = false;
  std::unique_ptr<Iterator> iterator_;

  bool closed_ = false;
  bool busy_ = false;
  bool positioned_ = false;
  bool done_ = false;  // Nothing comes after entries_.
  std::optional<Status> failure_;
  std::optional<std::string> target_;
  size_t chunk_ = 1;
  std::vector<Entry> entries_;  // Those in [next_, count_) are still to be returned.
  size_t next_ = 0;
  size_t count_ = 0;
};

class PythonBatch {
 public:
  PythonBatch(std::shared_ptr<Handle> handle, bool sync)
      : handle_(std::move(handle)), sync_(sync) {}

  void Put(nb::handle key, nb::handle value) {
    const Bytes k(key);
    const Bytes v(value);
    batch_.Put(k.slice(), v.slice());
  }
  void Delete(nb::handle key) {
    const Bytes k(key);
    batch_.Delete(k.slice());
  }
  void DeleteRange(nb::handle begin, nb::handle end) {
    const Bytes b(begin);
    const Bytes e(end);
    batch_.DeleteRange(b.slice(), e.slice());
  }
  void Clear() { batch_.Clear(); }
  size_t Count() const { return batch_.Count(); }

  void Commit() {
    WriteBatch batch = std::move(batch_);
    batch_.Clear();
    Status status;
    {
      const WithoutGil released;
      const Handle::Call db(handle_.get());
      status = db->Write(Written(sync_), &batch);
    }
    // The caller may try again.
    if (!status.ok() && batch_.Count() == 0) batch_ = std::move(batch);
    Check(status);
  }

  void Exit(nb::handle error) {
    if (error.is_none()) {
      Commit();
    } else {
      Clear();
    }
  }

 private:
  const std::shared_ptr<Handle> handle_;
  const bool sync_;
  WriteBatch batch_;
};

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
