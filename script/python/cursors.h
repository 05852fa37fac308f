// The iterator of the database as it is, for dlsm.plyvel: at an entry, or invalid.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "script/python/handle.h"
#include "script/python/snapshots.h"
#include "script/python/values.h"

namespace dlsm::python {

class PythonCursor : public Dependent {
 public:
  // Without the GIL. Throws if the database is closed.
  PythonCursor(std::shared_ptr<Handle> handle, std::shared_ptr<SnapshotHolder> snapshot,
               ReadOptions options)
      : handle_(std::move(handle)), snapshot_(std::move(snapshot)) {
    const Handle::Call db(handle_.get());
    options.snapshot = AsOf(snapshot_).snapshot;
    iterator_.reset(db->NewIterator(options));
    handle_->Add(this);
  }
  ~PythonCursor() override { Close(); }

  void LetGo(DB*) override { iterator_.reset(); }

 private:
  // Without the GIL, which guards busy_.
  template <typename Function>
  auto Use(const Function& function) {
    if (busy_) throw Error("another thread is using the iterator");
    if (closed_) throw Error::Closed("the iterator is closed");
    struct Busy {
      explicit Busy(bool* of) : flag(of) { *flag = true; }
      ~Busy() { *flag = false; }
      bool* flag;
    };
    const Busy busy(&busy_);
    const WithoutGil released;
    const Handle::Call db(handle_.get());
    return function(*iterator_);
  }
  template <typename Function>
  void Move(const Function& function) {
    Check(Use([&](Iterator& iterator) {
      function(iterator);
      return iterator.status();
    }));
  }
  bool Step(void (Iterator::*step)()) {
    bool valid = true;
    Move([&](Iterator& iterator) {
      valid = iterator.Valid();
      if (valid) (iterator.*step)();
    });
    return valid;
  }

 public:
  bool Valid() {
    return Use([](Iterator& iterator) { return iterator.Valid(); });
  }
  void SeekToFirst() {
    Move([](Iterator& iterator) { iterator.SeekToFirst(); });
  }
  void SeekToLast() {
    Move([](Iterator& iterator) { iterator.SeekToLast(); });
  }
  void Seek(nb::handle target) {
    const Key key(target);
    Move([&](Iterator& iterator) { iterator.Seek(key.slice()); });
  }
  // These return false, or null, if the cursor is not at an entry.
  bool Next() { return Step(&Iterator::Next); }
  bool Prev() { return Step(&Iterator::Prev); }
  nb::object key() { return Read(&Iterator::key); }
  nb::object value() { return Read(&Iterator::value); }

  void Close() {
    if (std::exchange(closed_, true)) return;
    const WithoutGil released;
    if (!handle_->Remove(this)) static_cast<void>(iterator_.release());
    snapshot_.reset();
  }

 private:
  nb::object Read(Slice (Iterator::*part)() const) {
    return Use([&](Iterator& iterator) -> nb::object {
      const nb::gil_scoped_acquire acquired;
      if (!iterator.Valid()) return nb::none();
      return ToPython((iterator.*part)());
    });
  }

  const std::shared_ptr<Handle> handle_;
  std::shared_ptr<SnapshotHolder> snapshot_;
  std::unique_ptr<Iterator> iterator_;
  bool closed_ = false;
  bool busy_ = false;
};

// Adds the class Cursor.
inline void AddCursors(nb::module_& module) {
  nb::class_<PythonCursor>(module, "Cursor", "The iterator of the database as it is.")
      .def("valid", &PythonCursor::Valid)
      .def("seek_to_first", &PythonCursor::SeekToFirst)
      .def("seek_to_last", &PythonCursor::SeekToLast)
      .def("seek", &PythonCursor::Seek, nb::arg("key"))
      .def("next", &PythonCursor::Next)
      .def("prev", &PythonCursor::Prev)
      .def("key", &PythonCursor::key)
      .def("value", &PythonCursor::value)
      .def("close", &PythonCursor::Close);
}

}  // namespace dlsm::python
