#include "script/python/iterators.h"

#include <algorithm>

#include "script/python/fast_calls.h"
#include "script/python/snapshots.h"
#include "script/python/values.h"

namespace dlsm::python {
namespace {

constexpr size_t kChunkMax = 128;
constexpr size_t kChunkBytes = size_t{64} << 10;

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

// Marks an iterator while a thread reads without the GIL, under which both ends of its life are.
class Busy {
 public:
  explicit Busy(bool* flag) : flag_(flag) { *flag_ = true; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() { *flag_ = false; }

 private:
  bool* flag_;
};

PyObject* NextOf(PyObject* self) {
  return Guarded<PyObject*>(nullptr, [&] { return Behind<PythonIterator>(self).Next(); });
}

PyObject* SelfOf(PyObject* self) { return Py_NewRef(self); }

}  // namespace

Bounds Bounds::Of(nb::handle start, nb::handle stop, nb::handle prefix) {
  Bounds bounds{OptionalBytes(start), OptionalBytes(stop)};
  if (prefix.is_none()) return bounds;
  const std::string begin = Bytes(prefix).ToString();
  const std::optional<std::string> end = EndOfPrefix(begin);
  if (!bounds.lower.has_value() || *bounds.lower < begin) bounds.lower = begin;
  if (end.has_value() && (!bounds.upper.has_value() || *end < *bounds.upper)) bounds.upper = end;
  return bounds;
}

Bounds Bounds::OfPart(const std::string& part, nb::handle start, nb::handle stop, nb::handle prefix,
                      bool include_start, bool include_stop) {
  if (!prefix.is_none()) {
    const std::string begin = part + Bytes(prefix).ToString();
    return {begin, EndOfPrefix(begin)};
  }
  // The key that comes right after another one, in the order of bytes.
  const auto after = [](std::string key) { return key.append(1, '\0'); };
  Bounds bounds;
  if (std::optional<std::string> first = OptionalBytes(start); first.has_value()) {
    bounds.lower = include_start ? part + *first : after(part + *first);
  } else if (!part.empty()) {
    bounds.lower = part;
  }
  if (std::optional<std::string> last = OptionalBytes(stop); last.has_value()) {
    bounds.upper = include_stop ? after(part + *last) : part + *last;
  } else if (!part.empty()) {
    bounds.upper = EndOfPrefix(part);
  }
  return bounds;
}

PythonIterator::PythonIterator(std::shared_ptr<Handle> handle,
                               std::shared_ptr<SnapshotHolder> snapshot, Bounds bounds,
                               const IteratorForm& form)
    : handle_(std::move(handle)),
      snapshot_(std::move(snapshot)),
      bounds_(std::move(bounds)),
      form_(form),
      place_(form.reverse ? Place::kLast : Place::kFirst) {
  const Handle::Call db(handle_.get());
  ReadOptions options = AsOf(snapshot_);
  options.verify_checksums = form.verify_checksums;
  options.fill_cache = form.fill_cache;
  if (bounds_.lower.has_value()) {
    lower_ = Slice(*bounds_.lower);
    options.iterate_lower_bound = &lower_;
  }
  if (bounds_.upper.has_value()) {
    upper_ = Slice(*bounds_.upper);
    options.iterate_upper_bound = &upper_;
  }
  empty_ = bounds_.lower.has_value() && bounds_.upper.has_value() &&
           handle_->order().Compare(lower_, upper_) >= 0;
  iterator_.reset(db->NewIterator(options));
  handle_->Add(this);
}

PyObject* PythonIterator::Next() {
  CheckUsable();
  if (next_ == entries_.size()) {
    ReadAhead();
    if (entries_.empty()) {
      ThrowFailure();
      return nullptr;
    }
  }
  return ToPython(entries_[next_++]);
}

PyObject* PythonIterator::Prev() {
  CheckUsable();
  if (next_ == 0) {
    ReadBack();
    if (entries_.empty()) {
      ThrowFailure();
      return nullptr;
    }
    next_ = 1;
  }
  return ToPython(entries_[--next_]);
}

void PythonIterator::Seek(nb::handle key) {
  const bool after = form_.reverse && !form_.seek_before;
  GoTo(after ? Place::kAfter : Place::kBefore, form_.part + Bytes(key).ToString());
}

void PythonIterator::Close() {
  if (busy_) CheckUsable();
  Release();
}

void PythonIterator::CheckUsable() const {
  if (busy_) throw Error("another thread is using the iterator");
  handle_->CheckOpen();
  if (closed_) throw Error::Closed("the iterator is closed");
}

void PythonIterator::GoTo(Place place, std::string target) {
  CheckUsable();
  place_ = place;
  target_ = std::move(target);
  failure_.reset();
  entries_.clear();
  next_ = 0;
  chunk_ = 1;
}

// Leaves entries_ empty at the end, and where there is an error before the first entry. An error
// after some entries is kept until these have been returned.
void PythonIterator::ReadAhead() {
  entries_.clear();
  bytes_.clear();
  next_ = 0;
  if (empty_ || failure_.has_value()) return;
  const Busy busy(&busy_);
  const WithoutGil released;
  const Handle::Call db(handle_.get());
  while (entries_.size() < chunk_ && bytes_.size() < kChunkBytes) {
    if (!Step(/*forward=*/!form_.reverse)) return;
    Keep();
  }
  chunk_ = std::min(2 * chunk_, kChunkMax);
}

// The entry before the gap, which is at the begin of entries_, becomes the only one of them.
void PythonIterator::ReadBack() {
  if (entries_.size() > 1) {
    const Entry& first = entries_.front();
    target_ = bytes_.substr(first.begin, first.key_bytes);
    place_ = form_.reverse ? Place::kAfter : Place::kBefore;
  }
  entries_.clear();
  bytes_.clear();
  chunk_ = 1;
  if (empty_) return;
  failure_.reset();
  const Busy busy(&busy_);
  const WithoutGil released;
  const Handle::Call db(handle_.get());
  if (Step(/*forward=*/form_.reverse)) Keep();
}

bool PythonIterator::Step(bool forward) {
  if (forward) {
    if (place_ == Place::kLast) return false;
    MoveForward();
  } else {
    if (place_ == Place::kFirst) return false;
    MoveBackward();
  }
  if (iterator_->Valid()) {
    place_ = Place::kOnEntry;
    return true;
  }
  place_ = forward ? Place::kLast : Place::kFirst;
  if (Status status = iterator_->status(); !status.ok()) failure_ = std::move(status);
  return false;
}

void PythonIterator::MoveForward() {
  if (place_ == Place::kOnEntry) return iterator_->Next();
  const Comparator& order = handle_->order();
  const bool before =
      place_ == Place::kFirst || (bounds_.lower.has_value() && order.Compare(target_, lower_) < 0);
  if (before) return iterator_->SeekToFirst();
  iterator_->Seek(target_);
  if (place_ == Place::kAfter && iterator_->Valid() &&
      order.Compare(iterator_->key(), target_) == 0) {
    iterator_->Next();
  }
}

void PythonIterator::MoveBackward() {
  if (place_ == Place::kOnEntry) return iterator_->Prev();
  const Comparator& order = handle_->order();
  const bool behind =
      place_ == Place::kLast || (bounds_.upper.has_value() && order.Compare(target_, upper_) >= 0);
  if (behind) return iterator_->SeekToLast();
  iterator_->SeekForPrev(target_);
  if (place_ == Place::kBefore && iterator_->Valid() &&
      order.Compare(iterator_->key(), target_) == 0) {
    iterator_->Prev();
  }
}

// Keys are kept in any case: prev() finds its place by them.
void PythonIterator::Keep() {
  const Slice key = iterator_->key();
  const Slice value = form_.values ? iterator_->value() : Slice();
  entries_.push_back({bytes_.size(), key.size(), value.size()});
  bytes_.append(key.data(), key.size());
  bytes_.append(value.data(), value.size());
}

PyObject* PythonIterator::ToPython(const Entry& entry) const {
  const char* const begin = bytes_.data() + entry.begin;
  const size_t skipped = std::min(form_.part.size(), entry.key_bytes);
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  if (form_.keys) {
    key = PyBytes_FromStringAndSize(begin + skipped,
                                    static_cast<Py_ssize_t>(entry.key_bytes - skipped));
    if (key == nullptr) throw nb::python_error();
    if (!form_.values) return key;
  } else if (!form_.values) {
    return None();
  }
  value = PyBytes_FromStringAndSize(begin + entry.key_bytes,
                                    static_cast<Py_ssize_t>(entry.value_bytes));
  if (value == nullptr) {
    Py_XDECREF(key);
    throw nb::python_error();
  }
  if (!form_.keys) return value;
  PyObject* const pair = PyTuple_New(2);
  if (pair == nullptr) {
    Py_DECREF(key);
    Py_DECREF(value);
    throw nb::python_error();
  }
  PyTuple_SET_ITEM(pair, 0, key);
  PyTuple_SET_ITEM(pair, 1, value);
  return pair;
}

void PythonIterator::ThrowFailure() {
  if (failure_.has_value()) throw Error(*std::exchange(failure_, std::nullopt));
}

void PythonIterator::Release() {
  if (std::exchange(closed_, true)) return;
  const WithoutGil released;
  if (!handle_->Remove(this)) static_cast<void>(iterator_.release());
  snapshot_.reset();
}

void AddIterators(nb::module_& module) {
  // As slots, because each entry costs a call.
  static PyType_Slot slots[] = {{Py_tp_iter, reinterpret_cast<void*>(&SelfOf)},
                                {Py_tp_iternext, reinterpret_cast<void*>(&NextOf)},
                                {0, nullptr}};
  nb::class_<PythonIterator>(module, "Iterator", nb::type_slots(slots),
                             "Goes over entries, as of one moment.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](PythonIterator& self, nb::args) { self.Close(); })
      .def(
          "prev",
          [](PythonIterator& self) {
            PyObject* const entry = self.Prev();
            if (entry == nullptr) throw nb::stop_iteration();
            return nb::steal(entry);
          },
          "The entry before the one that __next__ returns, which is that one from then on. At the\n"
          "begin a StopIteration.")
      .def("seek", &PythonIterator::Seek, nb::arg("key"),
           "Goes on at the first key at or after `key`; in reverse at the last at or before it.")
      .def("seek_to_start", &PythonIterator::SeekToStart, "Goes before the first key.")
      .def("seek_to_stop", &PythonIterator::SeekToStop, "Goes behind the last key.")
      .def("close", &PythonIterator::Close, "Lets go of what the iterator holds.");
}

}  // namespace dlsm::python
