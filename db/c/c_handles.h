// What the handles of the C interface are, and what all of its functions share.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "dLSM/c.h"
#include "dLSM/cache.h"
#include "dLSM/comparator.h"
#include "dLSM/db.h"
#include "dLSM/filter_policy.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/slice_transform.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"
#include "port/allocation_point.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

// The names are the C interface's.
// NOLINTBEGIN(readability-identifier-naming)

// Counted: the caller may destroy these before the databases that were opened with them.
struct dlsm_comparator_t {
  std::shared_ptr<const dlsm::Comparator> comparator;
};
struct dlsm_filterpolicy_t {
  std::shared_ptr<const dlsm::FilterPolicy> policy;
};
struct dlsm_cache_t {
  std::shared_ptr<dlsm::Cache> cache;
};
struct dlsm_slicetransform_t {
  std::shared_ptr<const dlsm::SliceTransform> transform;
};

namespace dlsm::c {

// What the pointers in an Options are to, which keeps it.
struct Objects {
  std::shared_ptr<const Comparator> comparator;
  std::shared_ptr<const FilterPolicy> filter_policy;
  std::shared_ptr<Cache> cache;
};
// The same, which does not keep it: destructors of the caller's own are called when it destroys an
// object, or when the last database is closed that has it, whatever becomes of options.
struct ObjectsOfOptions {
  std::weak_ptr<const Comparator> comparator;
  std::weak_ptr<const FilterPolicy> filter_policy;
  std::weak_ptr<Cache> cache;
};

}  // namespace dlsm::c

struct dlsm_t {
  dlsm::c::Objects objects;  // They go after the database.
  std::unique_ptr<dlsm::DB> db;
};
// What a call without an errptr could not do is kept as the `failure` of its handle, for the next
// call that can tell it.
struct dlsm_iterator_t {
  // Its own, whatever becomes of the options. They go after the iterator.
  std::string lower_bytes;
  std::string upper_bytes;
  std::unique_ptr<dlsm::Iterator> iterator;
  dlsm::Status failure;  // An error: it is of no more use.
};
struct dlsm_options_t {
  dlsm::c::ObjectsOfOptions objects;
  dlsm::Options options;
  dlsm::Status failure;
};
struct dlsm_readoptions_t {
  dlsm::ReadOptions options;
  dlsm::Status failure;
  std::string lower_bytes;
  std::string upper_bytes;
  dlsm::Slice lower;
  dlsm::Slice upper;
};
struct dlsm_snapshot_t {
  const dlsm::Snapshot* snapshot;
};
struct dlsm_writebatch_t {
  dlsm::WriteBatch batch;
  dlsm::Status failure;
};
struct dlsm_writeoptions_t {
  dlsm::WriteOptions options;
};

// NOLINTEND(readability-identifier-naming)

namespace dlsm::c {

// C has no zero-length objects to point at. A pointer that has bytes is not NULL: see CheckBytes().
inline Slice ToSlice(const char* data, size_t bytes) {
  return bytes == 0 ? Slice() : Slice(data, bytes);
}

// InvalidArgument where the caller has given NULL for what the call needs; `name` is its parameter.
inline Status Check(const void* pointer, const char* name) {
  if (pointer != nullptr) return Status::OK();
  return Status::InvalidArgument(std::string(name) + " is NULL",
                                 "if a call was to make it, that has failed");
}
// Of bytes: NULL has none.
inline Status CheckBytes(const char* data, size_t bytes, const char* name) {
  return bytes == 0 ? Status::OK() : Check(data, name);
}

// The boundary of the C interface: runs `function`, which returns a Status. No exception passes.
template <typename Function>
Status Guarded(Function function) noexcept {
  return WithinMemory([&] {
    port::AllocationPoint("c");
    return function();
  });
}

// The same, of a call that cannot tell an error: the first one stays in *failure.
template <typename Function>
void Keeping(Status* failure, Function function) noexcept {
  KeepFirstError(Guarded(std::move(function)), failure);
  failure->PermitUncheckedError();  // Who goes on with the handle is told.
}

// What `fill`, called with it, makes of a new one; null where there is no memory for that.
template <typename T, typename Fill>
T* NewHandle(Fill fill) noexcept {
  std::unique_ptr<T> made;
  const Status status = Guarded([&made, &fill] {
    made = std::make_unique<T>();
    fill(made.get());
    return Status::OK();
  });
  return status.ok() ? made.release() : nullptr;
}
template <typename T>
T* NewHandle() noexcept {
  return NewHandle<T>([](T*) {});
}

// Sets *objects to what the options name. InvalidArgument if the caller has destroyed some of it.
Status TakeObjects(const dlsm_options_t& options, Objects* objects);

// Takes back what NewHandle() gave.
template <typename T>
void DeleteHandle(T* object) noexcept {
  const std::unique_ptr<T> owned(object);
}

}  // namespace dlsm::c
