#include "script/python/handle.h"

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <vector>

namespace dlsm::python {
namespace {

constexpr const char* kClosed = "the database is closed";

// All handles; never destroyed, because handles may outlive static objects.
struct Registry {
  std::mutex mutex;
  std::map<Handle*, std::weak_ptr<Handle>> handles;
};

Registry& AllHandles() {
  static auto* const registry = new Registry;
  return *registry;
}

}  // namespace

void Check(const Status& status) {
  if (!status.ok()) throw Error(status);
}

Handle::Handle(std::unique_ptr<DB> db, std::shared_ptr<const Comparator> comparator)
    : process_(getpid()), comparator_(std::move(comparator)), db_(std::move(db)) {}

std::shared_ptr<Handle> Handle::Make(std::unique_ptr<DB> db,
                                     std::shared_ptr<const Comparator> comparator) {
  const auto destroy = [](Handle* last) {
    std::optional<nanobind::gil_scoped_release> released;
    if (PyGILState_Check() != 0) released.emplace();
    delete last;
  };
  std::shared_ptr<Handle> handle(new Handle(std::move(db), std::move(comparator)), destroy);
  Registry& registry = AllHandles();
  const std::lock_guard lock(registry.mutex);
  registry.handles.insert_or_assign(handle.get(), handle);
  return handle;
}

Handle::~Handle() {
  // A thread of the parent may have had locks when the child was made.
  if (IsOfParent()) {
    static_cast<void>(db_.release());
    return;
  }
  {
    Registry& registry = AllHandles();
    const std::lock_guard lock(registry.mutex);
    registry.handles.erase(this);
  }
  Close().PermitUncheckedError();
}

bool Handle::IsOfParent() const { return getpid() != process_; }

Handle::Call::Call(Handle* handle) {
  handle->CheckOpen();
  lock_ = std::shared_lock(handle->mutex_);
  db_ = handle->db_.get();
  if (db_ == nullptr) throw Error::Closed(kClosed);
}

void Handle::CheckOpen() const {
  if (closed()) throw Error::Closed(kClosed);
}

void Handle::BeginClose() {
  if (buffers_ != 0 && !closed()) {
    const std::string error = "the database cannot be closed: arrays or memoryviews use " +
                              std::to_string(buffers_) +
                              " buffer(s) of its pinned values; drop or copy them first";
    throw nanobind::buffer_error(error.c_str());
  }
  closing_ = true;
}

const Comparator& Handle::order() const {
  return comparator_ == nullptr ? *BytewiseComparator() : *comparator_;
}

void Handle::AddBuffer() {
  CheckOpen();
  ++buffers_;
}

Status Handle::Close() {
  if (IsOfParent()) {
    closing_ = true;
    return Status::OK();
  }
  // From here on no call begins, so that the lock is had as soon as those under way have ended.
  closing_ = true;
  const std::lock_guard lock(mutex_);
  if (db_ == nullptr) return Status::OK();
  for (Dependent* dependent : dependents_) dependent->LetGo(db_.get());
  dependents_.clear();
  Status status = db_->Close();
  db_.reset();
  return status;
}

void Handle::Add(Dependent* dependent) {
  const std::lock_guard lock(dependents_mutex_);
  dependents_.insert(dependent);
}

bool Handle::Remove(Dependent* dependent) {
  if (IsOfParent()) return false;
  const std::shared_lock lock(mutex_);
  bool known;
  {
    const std::lock_guard dependents_lock(dependents_mutex_);
    known = dependents_.erase(dependent) != 0;
  }
  if (known) dependent->LetGo(db_.get());
  return true;
}

void Handle::CloseAll() {
  std::vector<std::shared_ptr<Handle>> open;
  {
    Registry& registry = AllHandles();
    // In a child of fork() another thread of the parent may have it for ever.
    const std::unique_lock lock(registry.mutex, std::try_to_lock);
    if (!lock.owns_lock()) return;
    for (const auto& [handle, weak] : registry.handles) {
      if (std::shared_ptr<Handle> strong = weak.lock()) open.push_back(std::move(strong));
    }
  }
  for (const auto& handle : open) handle->Close().PermitUncheckedError();
}

SnapshotHolder::SnapshotHolder(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {
  const Handle::Call db(handle_.get());
  snapshot_ = db->GetSnapshot();
  handle_->Add(this);
}

SnapshotHolder::~SnapshotHolder() { handle_->Remove(this); }

void SnapshotHolder::LetGo(DB* db) {
  db->ReleaseSnapshot(snapshot_);
  snapshot_ = nullptr;
}

}  // namespace dlsm::python
