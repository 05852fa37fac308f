// Write batches, as Python has them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "dLSM/db.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"
#include "script/python/handle.h"

namespace dlsm::python {

namespace nb = nanobind;

// The GIL guards it: a thread that writes takes the updates with it.
class PythonBatch {
 public:
  PythonBatch(std::shared_ptr<Handle> handle, bool sync)
      : handle_(std::move(handle)), sync_(sync) {}

  void Put(nb::handle key, nb::handle value);
  void Delete(nb::handle key);
  void DeleteRange(nb::handle begin, nb::handle end);
  // A mapping, or pairs. After an exception the batch has none of them.
  void Update(nb::handle pairs);
  void Append(const PythonBatch& other) { batch_.Append(other.batch_); }
  void Clear() { batch_.Clear(); }
  size_t Count() const { return batch_.Count(); }
  size_t ApproximateSize() const { return batch_.ApproximateSize(); }

  // The batch is empty then, unless `keep` or an error leave it as it is.
  void Commit(bool keep);
  // At the end of a `with`.
  void Exit(nb::handle error);

 private:
  void PutPair(nb::handle pair);

  const std::shared_ptr<Handle> handle_;
  const bool sync_;
  WriteBatch batch_;
};

// Adds the class WriteBatch.
void AddBatches(nb::module_& module);

}  // namespace dlsm::python
