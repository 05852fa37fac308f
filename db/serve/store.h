// The database that all event loops share, and what they share of it besides.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "dLSM/db.h"
#include "dLSM/status.h"
#include "db/serve/key_locks.h"
#include "db/serve/records.h"
#include "db/serve/watches.h"
#include "port/mutex.h"

namespace dlsm::serve {

// Thread-safe.
class Store {
 public:
  // `sync`: each write is on disk before it is answered, where the database has a log there.
  Store(std::unique_ptr<DB> db, bool sync) : db_(std::move(db)), sync_(sync) {}

  // Reads what an earlier process has left.
  Status Open();

  DB& db() { return *db_; }
  KeyLocks& locks() { return locks_; }
  Watches& watches() { return watches_; }

  bool sync() const { return sync_.load(std::memory_order_relaxed); }
  void set_sync(bool sync) { sync_.store(sync, std::memory_order_relaxed); }

  // Whether what was written before is in the memory node's log, and whether that has files.
  bool has_log() const { return has_log_; }
  bool is_on_disk() const { return is_on_disk_; }

  // A number that no collection has had. IOError or Busy if it cannot be recorded.
  Status NewCollection(CollectionId* id);
  // Whether there may be a key that is no string: what is written over may leave elements behind.
  bool has_collections() const { return has_collections_.load(std::memory_order_acquire); }

  // Deletes collections that have expired at `now`, until it has looked at `most`. Sets *deleted to
  // their number, and *more if there may be others. By one thread at a time.
  Status DeleteExpired(int64_t now, size_t most, uint64_t* deleted, bool* more);

  // Deletes elements of collections that nobody can reach, until it has looked at about `most` of
  // them. Sets *more if there may be others. By one thread at a time.
  Status CollectGarbage(size_t most, bool* more);

 private:
  Status DeleteIfExpired(const Slice& expiry_key, int64_t expiry, const Slice& head_key,
                         uint64_t* deleted);

  const std::unique_ptr<DB> db_;
  std::atomic<bool> sync_;
  KeyLocks locks_;
  Watches watches_;
  std::atomic<bool> has_collections_{false};
  bool has_log_ = false;
  bool is_on_disk_ = false;
  port::Mutex mutex_;
  CollectionId next_ GUARDED_BY(mutex_) = 1;
  CollectionId recorded_ GUARDED_BY(mutex_) = 1;  // Those below may be in use.
};

}  // namespace dlsm::serve
