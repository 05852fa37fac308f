// A database, as Python has it. All is called with the GIL, and releases it while the database
// works.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/status.h"
#include "script/python/batches.h"
#include "script/python/cursors.h"
#include "script/python/handle.h"
#include "script/python/iterators.h"
#include "script/python/snapshots.h"
#include "script/python/values.h"

namespace dlsm::python {

namespace nb = nanobind;

// How a point read is done.
struct Reading {
  const PythonSnapshot* snapshot = nullptr;
  bool verify_checksums = false;
  bool fill_cache = true;
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

  // A new reference; null without the key.
  PyObject* Get(nb::handle key, const Reading& reading) const;
  PyObject* GetPinned(nb::handle key, const Reading& reading) const;
  bool Contains(nb::handle key) const;
  nb::object MultiGet(nb::handle keys, nb::handle otherwise, const PythonSnapshot* snapshot) const;

  void Put(nb::handle key, nb::handle value, bool sync) const;
  void Delete(nb::handle key, bool sync) const;
  void DeleteRange(nb::handle begin, nb::handle end, bool sync) const;

  // Returns how many there were.
  uint64_t IngestSorted(nb::handle pairs) const;

  PythonBatch* NewBatch(bool sync) const;
  PythonSnapshot* NewSnapshot() const;
  PythonIterator* NewIterator(Bounds bounds, const IteratorForm& form,
                              const PythonSnapshot* snapshot) const;
  PythonCursor* NewCursor(const ReadOptions& options, const PythonSnapshot* snapshot) const;

  void Flush() const;
  void CompactRange(nb::handle begin, nb::handle end) const;
  void FlushLog(bool sync) const;
  void WaitDurable(uint64_t sequence) const;
  uint64_t LatestSequence() const;
  uint64_t DurableSequence() const;
  void WaitForBackgroundWork() const;
  void TryCatchUp() const;
  void SetOptions(nb::dict options) const;
  nb::object Property(const std::string& name) const;
  nb::list ApproximateSizes(nb::handle ranges) const;
  nb::dict Statistics() const;

  void Close() const;
  bool Closed() const { return handle_->closed(); }

 private:
  template <typename Function>
  void Do(const Function& function) const {
    Status status;
    {
      const WithoutGil released;
      const Handle::Call db(handle_.get());
      status = function(db);
    }
    Check(status);
  }
  // Reads the value, and returns found(PinnableSlice*) with the GIL and in the Call; null without
  // the key.
  template <typename Function>
  PyObject* Find(nb::handle key, const Reading& reading, const Function& found) const;

  std::shared_ptr<Handle> handle_;
};

// Adds the class DB.
void AddDatabases(nb::module_& module);

}  // namespace dlsm::python
