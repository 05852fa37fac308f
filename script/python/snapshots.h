// Snapshots, as Python has them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "dLSM/options.h"
#include "script/python/handle.h"
#include "script/python/values.h"

namespace dlsm::python {

namespace nb = nanobind;

// Without the GIL, because the release waits for a close().
inline void Drop(std::shared_ptr<SnapshotHolder> holder) {
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
    if (holder_ == nullptr) throw Error::Closed("the snapshot is released");
    if (holder_->handle() != handle) {
      throw Error(Status::InvalidArgument("the snapshot is one of another database"));
    }
    return holder_;
  }

 private:
  std::shared_ptr<SnapshotHolder> holder_;
};

inline std::shared_ptr<SnapshotHolder> HolderFor(const PythonSnapshot* snapshot,
                                                 const std::shared_ptr<Handle>& handle) {
  return snapshot == nullptr ? nullptr : snapshot->HolderFor(handle);
}

// Keeps a snapshot during a call. It may be the last that does.
class SnapshotUse {
 public:
  SnapshotUse(const PythonSnapshot* snapshot, const std::shared_ptr<Handle>& handle)
      : holder_(HolderFor(snapshot, handle)) {}
  SnapshotUse(const SnapshotUse&) = delete;
  SnapshotUse& operator=(const SnapshotUse&) = delete;
  ~SnapshotUse() {
    if (holder_ != nullptr) Drop(std::move(holder_));
  }
  const std::shared_ptr<SnapshotHolder>& holder() const { return holder_; }

 private:
  std::shared_ptr<SnapshotHolder> holder_;
};

inline ReadOptions AsOf(const std::shared_ptr<SnapshotHolder>& snapshot) {
  ReadOptions options;
  if (snapshot != nullptr) options.snapshot = snapshot->get();
  return options;
}

}  // namespace dlsm::python
