// Looks after a handle's log: posts and persists what nobody waits for, gives it memory ahead of
// the writers, and takes away what all shards have in tables.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "dLSM/status.h"
#include "db/background/fence.h"
#include "db/log/log_layout.h"
#include "db/log/write_log.h"
#include "db/tree/tree.h"
#include "port/clock.h"
#include "util/fabric/remote_address.h"
#include "util/thread_pool.h"

namespace dlsm {

class LogKeeper {
 public:
  // All outlive this.
  struct Parts {
    ThreadPool* pool;
    WriteLog* log;
    std::vector<Tree*> trees;  // In the order of shards.
    Fence* fence;
    // Where the log node has files, writes are in them within this time. 0: only those that
    // somebody waits for.
    std::chrono::milliseconds sync_interval;
    // A segment of so many bytes at the log node.
    std::function<Status(uint64_t bytes, RemoteSpan* span)> allocate;
    // Keeps the record where the next open finds it.
    std::function<Status(const LogRecord& record)> record;
    // Has the shard's memtables flushed, and does not wait for it.
    std::function<void(size_t shard)> flush;
  };
  // Begins at once.
  explicit LogKeeper(Parts parts);
  LogKeeper(const LogKeeper&) = delete;
  LogKeeper& operator=(const LogKeeper&) = delete;

  void Wake() { task_.Wake(); }
  // When it returns, nothing is done any more.
  void Stop() {
    task_.Stop();
    persister_.Stop();
  }

 private:
  using Clock = ThreadPool::Clock;

  Clock::time_point Run();
  Clock::time_point NextLook();
  Clock::time_point PersistWhenDue();
  Clock::time_point RunPersist();
  std::chrono::milliseconds LookInterval() const;
  Status LookAfter();
  Status Truncate();
  Status GiveSegments();
  void FlushWhatIsNeededLongest();

  const Parts parts_;
  // Allocated, and perhaps in a record that was put without an answer.
  std::vector<RemoteSpan> unrecorded_;
  bool failing_ = false;
  LogPosition seen_ = 0;  // The tail at the last look.
  // Since when there is something that is not persisted, as the looks saw it.
  std::optional<Clock::time_point> unpersisted_since_;
  bool persist_failing_ = false;  // Of persister_.
  // By itself, for a disk may be slow, and writers wait for room meanwhile.
  ThreadPool::Task persister_;
  ThreadPool::Task task_;  // Last.
};

}  // namespace dlsm
