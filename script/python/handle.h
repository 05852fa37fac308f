// An open database for Python, where any thread may close it at any time: close() waits for the
// calls under way, releases the iterators and snapshots of the database, and then closes it. Later
// calls throw an Error.
//
// The interpreter's lock (GIL): no thread waits for the lock of a Handle while it has the GIL. So a
// thread may take the GIL in a Handle::Call, and a comparator of Python's may do so in close().
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>

#include "dLSM/comparator.h"
#include "dLSM/db.h"
#include "dLSM/status.h"

namespace dlsm::python {

// What becomes an exception of the class in errors.py that the code names; of the base class for
// kOk, or of Closed.
class Error : public std::exception {
 public:
  explicit Error(const Status& status)
      : code_(status.code()), message_(status.message().ToString()) {}
  explicit Error(std::string message) : message_(std::move(message)) {}
  static Error Closed(std::string message) {
    Error error(std::move(message));
    error.closed_ = true;
    return error;
  }

  Status::Code code() const { return code_; }
  bool closed() const { return closed_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Status::Code code_ = Status::Code::kOk;
  bool closed_ = false;
  std::string message_;
};

// Throws if the status is an error.
void Check(const Status& status);

// Something that a database has made, and that is released before the database is closed.
class Dependent {
 public:
  Dependent() = default;
  Dependent(const Dependent&) = delete;
  Dependent& operator=(const Dependent&) = delete;
  virtual ~Dependent() = default;

  // No call of the dependent is under way. Later ones throw before they use it.
  virtual void LetGo(DB* db) = 0;
};

// Thread-safe.
class Handle {
 public:
  // The last owner destroys it without the GIL. The database uses `comparator`, which may be null.
  static std::shared_ptr<Handle> Make(std::unique_ptr<DB> db,
                                      std::shared_ptr<const Comparator> comparator);
  // Closes.
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // The database stays open during the life of a Call. One thread has one Call at a time.
  class Call {
   public:
    // Throws if the database is closed.
    explicit Call(Handle* handle);
    DB* operator->() const { return db_; }

   private:
    std::shared_lock<std::shared_mutex> lock_;
    DB* db_;
  };

  // Nothing happens where the database is closed already, or was opened by the parent of this
  // process.
  Status Close();
  bool closed() const { return closing_.load(std::memory_order_acquire); }
  // With the GIL, before Close(): later calls throw. Throws where Python has buffers of pinned
  // values, whose bytes end with the database.
  void BeginClose();
  void CheckOpen() const;

  // The order of keys.
  const Comparator& order() const;

  // With the GIL: of buffers over pinned values.
  void AddBuffer();
  void RemoveBuffer() { --buffers_; }

  // During a Call.
  void Add(Dependent* dependent);
  // Calls dependent->LetGo() if the database is open. In a child of the process that opened it,
  // nothing happens, and the result is false: the dependent is not to be destroyed there.
  bool Remove(Dependent* dependent);

  // Closes all that are open, at the end of the interpreter.
  static void CloseAll();

 private:
  Handle(std::unique_ptr<DB> db, std::shared_ptr<const Comparator> comparator);
  bool IsOfParent() const;

  const int process_;
  size_t buffers_ = 0;  // Guarded by the GIL.
  const std::shared_ptr<const Comparator> comparator_;
  std::atomic<bool> closing_ = false;
  std::shared_mutex mutex_;  // Shared by calls; exclusive: to close.
  std::unique_ptr<DB> db_;   // Null once it is closed.
  std::mutex dependents_mutex_;
  std::set<Dependent*> dependents_;
};

// A snapshot is released when nobody uses it: neither Python's object, nor an iterator or a call
// that was given it.
class SnapshotHolder : public Dependent {
 public:
  // Throws if the database is closed.
  explicit SnapshotHolder(std::shared_ptr<Handle> handle);
  ~SnapshotHolder() override;

  void LetGo(DB* db) override;
  // During a Call of handle().
  const Snapshot* get() const { return snapshot_; }
  const std::shared_ptr<Handle>& handle() const { return handle_; }

 private:
  const std::shared_ptr<Handle> handle_;
  const Snapshot* snapshot_ = nullptr;
};

}  // namespace dlsm::python
