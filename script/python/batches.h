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
#include "script/python/values.h"

namespace dlsm::python {

namespace nb = nanobind;

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

}  // namespace dlsm::python
