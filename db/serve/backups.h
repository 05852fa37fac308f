// The backups that clients ask for: one file in one directory, written by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "dLSM/db.h"
#include "dLSM/status.h"
#include "port/mutex.h"
#include "port/thread.h"

namespace dlsm::serve {

// Thread-safe.
class Backups {
 public:
  static constexpr const char* kFileName = "dump.backup";

  // With an empty directory there are none. `db` outlives the object. `now`: seconds since 1970,
  // which count as the last backup until there is one.
  Backups(DB* db, std::string directory, int64_t now)
      : db_(*db),
        path_(directory.empty() ? std::string() : directory + "/" + kFileName),
        ended_(mutex_),
        last_(now) {}
  Backups(const Backups&) = delete;
  Backups& operator=(const Backups&) = delete;
  // Waits for the one that is under way.
  ~Backups();

  // Writes one, as of the call. Busy while another one is under way.
  Status Write() LOCKS_EXCLUDED(mutex_);
  // Begins one, as of the call, which a thread of its own writes.
  Status Begin() LOCKS_EXCLUDED(mutex_);

  struct Progress {
    bool running = false;
    int64_t last = 0;  // Seconds since 1970.
    Status last_status;
  };
  Progress progress() const LOCKS_EXCLUDED(mutex_);

 private:
  // Makes this call the one that writes.
  Status Claim() LOCKS_EXCLUDED(mutex_);
  Status WriteAndTell(const Snapshot* snapshot) LOCKS_EXCLUDED(mutex_);

  DB& db_;
  const std::string path_;

  mutable port::Mutex mutex_;  // Protects what follows.
  port::CondVar ended_;
  bool running_ GUARDED_BY(mutex_) = false;
  int64_t last_ GUARDED_BY(mutex_);
  Status last_status_ GUARDED_BY(mutex_);
  port::Thread writer_ GUARDED_BY(mutex_);  // Of the last Begin().
};

}  // namespace dlsm::serve
