// Iterators, as Python has them.
//
// An iterator is in a gap between two entries. A step forward or backward returns the entry on that
// side and goes into the gap behind it: __next__ and prev(), which turn round in a reverse
// iterator. The iterator reads some entries ahead in the direction of __next__, so that not each of
// them costs a turn with the interpreter's lock:
//
//   entries_   | e0 | e1 | e2 | e3 |        next_ = 2: __next__ returns e2, prev() returns e1
//                        ^ the gap  ^ place_: where the iterator of the database is
#pragma once

#include <nanobind/nanobind.h>

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
#include "script/python/handle.h"

namespace dlsm::python {

namespace nb = nanobind;

// [lower, upper)
struct Bounds {
  std::optional<std::string> lower;
  std::optional<std::string> upper;

  // Keys in [start, stop) that begin with `prefix`. None stands for no bound.
  static Bounds Of(nb::handle start, nb::handle stop, nb::handle prefix);
  // The same of a part of the database: all keys have `part` before them. Bounds are added to where
  // the key `start` is to be left out, or `stop` not.
  static Bounds OfPart(const std::string& part, nb::handle start, nb::handle stop,
                       nb::handle prefix, bool include_start, bool include_stop);
};

struct IteratorForm {
  bool reverse = false;
  bool keys = true;
  bool values = true;
  bool verify_checksums = false;
  bool fill_cache = true;
  std::string part = {};  // What all keys begin with, and is not shown.
  // Seek() goes before the first key at or after its target, whatever the direction.
  bool seek_before = false;
};

class PythonIterator : public Dependent {
 public:
  // Without the GIL. Throws if the database is closed.
  PythonIterator(std::shared_ptr<Handle> handle, std::shared_ptr<SnapshotHolder> snapshot,
                 Bounds bounds, const IteratorForm& form);
  ~PythonIterator() override { Release(); }

  void LetGo(DB*) override { iterator_.reset(); }

  // With the GIL, as what follows. Both return null at the end.
  PyObject* Next();
  PyObject* Prev();
  // Into the gap before the first key at or after `key`; in reverse, __next__ returns the last key
  // at or before it.
  void Seek(nb::handle key);
  // Before the first and after the last key, whatever the direction.
  void SeekToStart() { GoTo(Place::kFirst, std::string()); }
  void SeekToStop() { GoTo(Place::kLast, std::string()); }
  void Close();

 private:
  enum class Place {
    kFirst,    // Before all keys.
    kBefore,   // Before the first key at or after target_.
    kAfter,    // After the last key at or before target_.
    kLast,     // After all keys.
    kOnEntry,  // Where iterator_ is: at the last of entries_.
  };
  struct Entry {  // In bytes_: the key, and behind it the value.
    size_t begin;
    size_t key_bytes;
    size_t value_bytes;
  };

  void CheckUsable() const;
  void GoTo(Place place, std::string target);
  void ReadAhead();
  void ReadBack();
  // Of iterator_, by one entry. Returns false at the end, or with failure_.
  bool Step(bool forward);
  void MoveForward();
  void MoveBackward();
  void Keep();
  PyObject* ToPython(const Entry& entry) const;
  void ThrowFailure();
  void Release();

  const std::shared_ptr<Handle> handle_;
  std::shared_ptr<SnapshotHolder> snapshot_;
  const Bounds bounds_;
  const IteratorForm form_;
  Slice lower_;
  Slice upper_;
  bool empty_ = false;  // The bounds leave nothing.
  std::unique_ptr<Iterator> iterator_;

  bool closed_ = false;
  bool busy_ = false;  // A thread reads without the GIL.
  Place place_;
  std::string target_;
  std::optional<Status> failure_;
  size_t chunk_ = 1;  // How many entries are read ahead the next time.
  std::string bytes_;
  std::vector<Entry> entries_;
  size_t next_ = 0;
};

// Adds the class Iterator.
void AddIterators(nb::module_& module);

}  // namespace dlsm::python
