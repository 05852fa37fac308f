#include "script/python/database.h"

#include <nanobind/stl/string.h>

#include <array>
#include <unordered_map>
#include <vector>

#include "dLSM/statistics.h"
#include "script/python/pinned_values.h"
#include "script/python/sorted_pairs.h"

namespace dlsm::python {

template <typename Function>
PyObject* PythonDb::Find(nb::handle key, const Reading& reading, const Function& found) const {
  const Key k(key);
  const SnapshotUse snapshot(reading.snapshot, handle_);
  ReadOptions options = AsOf(snapshot.holder());
  options.verify_checksums = reading.verify_checksums;
  options.fill_cache = reading.fill_cache;
  std::optional<WithoutGil> released(std::in_place);
  const Handle::Call db(handle_.get());
  PinnableSlice value;
  const Status status = db->Get(options, k.slice(), &value);
  released.reset();
  if (status.IsNotFound()) return nullptr;
  Check(status);
  return found(&value);
}

PyObject* PythonDb::Get(nb::handle key, const Reading& reading) const {
  return Find(key, reading, [](PinnableSlice* value) {
    PyObject* const bytes =
        PyBytes_FromStringAndSize(value->data(), static_cast<Py_ssize_t>(value->size()));
    if (bytes == nullptr) throw nb::python_error();
    return bytes;
  });
}

PyObject* PythonDb::GetPinned(nb::handle key, const Reading& reading) const {
  return Find(key, reading, [this](PinnableSlice* value) {
    auto pinned = std::make_unique<PythonPinnedValue>(handle_, std::move(*value));
    return nb::cast(pinned.release(), nb::rv_policy::take_ownership).release().ptr();
  });
}

bool PythonDb::Contains(nb::handle key) const {
  return Find(key, Reading(), [](PinnableSlice*) { return Py_True; }) != nullptr;
}

nb::object PythonDb::MultiGet(nb::handle keys, nb::handle otherwise,
                              const PythonSnapshot* snapshot) const {
  const nb::object list =
      nb::steal(PySequence_Fast(keys.ptr(), "multi_get() takes an iterable of keys"));
  if (!list.is_valid()) throw nb::python_error();
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(list.ptr()));
  std::vector<Key> owned;
  std::vector<Slice> slices;
  owned.reserve(count);
  slices.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    owned.emplace_back(PySequence_Fast_GET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i)));
    slices.push_back(owned.back().slice());
  }
  const SnapshotUse use(snapshot, handle_);
  std::optional<WithoutGil> released(std::in_place);
  const Handle::Call db(handle_.get());
  std::vector<PinnableSlice> values(count);
  std::vector<Status> statuses(count);
  db->MultiGet(AsOf(use.holder()), count, slices.data(), values.data(), statuses.data());
  released.reset();
  for (const Status& status : statuses) {
    if (!status.IsNotFound()) Check(status);
  }
  nb::object results = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!results.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < count; ++i) {
    nb::object value = statuses[i].ok() ? ToPython(values[i]) : nb::borrow(otherwise);
    PyList_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i), value.release().ptr());
  }
  return results;
}

void PythonDb::Put(nb::handle key, nb::handle value, bool sync) const {
  const Key k(key);
  const Bytes v(value);
  Do([&](const Handle::Call& db) { return db->Put(Written(sync), k.slice(), v.slice()); });
}

void PythonDb::Delete(nb::handle key, bool sync) const {
  const Key k(key);
  Do([&](const Handle::Call& db) { return db->Delete(Written(sync), k.slice()); });
}

void PythonDb::DeleteRange(nb::handle begin, nb::handle end, bool sync) const {
  const Key b(begin);
  const Key e(end);
  Do([&](const Handle::Call& db) { return db->DeleteRange(Written(sync), b.slice(), e.slice()); });
}

uint64_t PythonDb::IngestSorted(nb::handle pairs) const {
  SortedPairs source(pairs);
  uint64_t entries = 0;
  Status status;
  {
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    status = db->IngestSorted(&source, &entries);
  }
  source.Rethrow();
  Check(status);
  return entries;
}

PythonBatch* PythonDb::NewBatch(bool sync) const {
  handle_->CheckOpen();
  return new PythonBatch(handle_, sync);
}

PythonSnapshot* PythonDb::NewSnapshot() const {
  std::shared_ptr<SnapshotHolder> holder;
  {
    const WithoutGil released;
    holder = std::make_shared<SnapshotHolder>(handle_);
  }
  return new PythonSnapshot(std::move(holder));
}

PythonIterator* PythonDb::NewIterator(Bounds bounds, const IteratorForm& form,
                                      const PythonSnapshot* snapshot) const {
  std::shared_ptr<SnapshotHolder> holder = HolderFor(snapshot, handle_);
  const WithoutGil released;
  return new PythonIterator(handle_, std::move(holder), std::move(bounds), form);
}

PythonCursor* PythonDb::NewCursor(const ReadOptions& options,
                                  const PythonSnapshot* snapshot) const {
  std::shared_ptr<SnapshotHolder> holder = HolderFor(snapshot, handle_);
  const WithoutGil released;
  return new PythonCursor(handle_, std::move(holder), options);
}

void PythonDb::Flush() const {
  Do([](const Handle::Call& db) { return db->Flush(FlushOptions()); });
}

void PythonDb::CompactRange(nb::handle begin, nb::handle end) const {
  const std::optional<std::string> b = OptionalBytes(begin);
  const std::optional<std::string> e = OptionalBytes(end);
  Do([&](const Handle::Call& db) {
    const Slice from = b.has_value() ? Slice(*b) : Slice();
    const Slice to = e.has_value() ? Slice(*e) : Slice();
    return db->CompactRange(b.has_value() ? &from : nullptr, e.has_value() ? &to : nullptr);
  });
}

void PythonDb::FlushLog(bool sync) const {
  Do([&](const Handle::Call& db) { return db->FlushLog(sync); });
}

void PythonDb::WaitDurable(uint64_t sequence) const {
  Do([&](const Handle::Call& db) { return db->WaitDurable(sequence); });
}

uint64_t PythonDb::LatestSequence() const {
  const WithoutGil released;
  const Handle::Call db(handle_.get());
  return db->LatestSequence();
}

uint64_t PythonDb::DurableSequence() const {
  const WithoutGil released;
  const Handle::Call db(handle_.get());
  return db->DurableSequence();
}

void PythonDb::WaitForBackgroundWork() const {
  Do([](const Handle::Call& db) { return db->WaitForBackgroundWork(); });
}

void PythonDb::TryCatchUp() const {
  Do([](const Handle::Call& db) { return db->TryCatchUp(); });
}

void PythonDb::SetOptions(nb::dict options) const {
  std::unordered_map<std::string, std::string> texts;
  for (const auto& [name, value] : options) {
    texts.insert_or_assign(nb::cast<std::string>(name), nb::str(value).c_str());
  }
  Do([&](const Handle::Call& db) { return db->SetOptions(texts); });
}

nb::object PythonDb::Property(const std::string& name) const {
  std::string value;
  bool found;
  {
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    found = db->GetProperty(name, &value);
  }
  return found ? TextToPython(value) : nb::none();
}

nb::list PythonDb::ApproximateSizes(nb::handle ranges) const {
  std::vector<std::pair<std::string, std::string>> bounds;
  for (nb::handle range : ranges) {
    if (!PyTuple_Check(range.ptr()) || PyTuple_GET_SIZE(range.ptr()) != 2) {
      throw nb::type_error("a range is a pair of keys");
    }
    bounds.emplace_back(Bytes(PyTuple_GET_ITEM(range.ptr(), 0)).ToString(),
                        Bytes(PyTuple_GET_ITEM(range.ptr(), 1)).ToString());
  }
  std::vector<Range> slices;
  for (const auto& [start, stop] : bounds) slices.emplace_back(start, stop);
  std::vector<uint64_t> sizes(slices.size());
  {
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    db->GetApproximateSizes(slices.data(), static_cast<int>(slices.size()), sizes.data());
  }
  nb::list list;
  for (const uint64_t size : sizes) list.append(size);
  return list;
}

nb::dict PythonDb::Statistics() const {
  std::array<uint64_t, static_cast<size_t>(Ticker::kTickerCount)> counts{};
  {
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    const std::shared_ptr<dlsm::Statistics> statistics = db->GetStatistics();
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = statistics->Get(static_cast<Ticker>(i));
  }
  nb::dict dict;
  for (size_t i = 0; i < counts.size(); ++i) {
    dict[TickerName(static_cast<Ticker>(i))] = counts[i];
  }
  return dict;
}

void PythonDb::Close() const {
  handle_->BeginClose();
  Status status;
  {
    const WithoutGil released;
    status = handle_->Close();
  }
  Check(status);
}

}  // namespace dlsm::python
