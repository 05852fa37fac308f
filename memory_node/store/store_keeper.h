// Writes a memory node's accounts to its files, behind the calls that change them.
//
// 1. A call changes the accounts in memory, under their locks, and notes that (NoteChange).
// 2. Its answer waits until all that was noted before is stored (WhenStored).
// 3. The keeper's thread takes a snapshot of all rows, and writes those that differ from the
// file's.
//    Calls that wait share a transaction, and no lock is held over it.
//
// A change is persisted, which costs two syncs, when an answer has to wait for that, when it has a
// manifest, or kPersistWithin later:
//
//   1. the snapshot is taken: bytes of tables that its manifests name were stored before
//   2. the region's file is synchronised
//   3. the rows are written, and synchronised
//   4. the source is told: bytes that the snapshot calls free may be given to others only now
//
// The first change that is written has the row of the contents with it (BeginContents()). It says
// in which boot of the machine all the others were written, so it must not be there without them: a
// process that dies before must not be taken for one whose clients may go on.
//
// So neither a manifest without its tables, nor a manifest whose tables were given to others, is
// found after a power failure.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "memory_node/store/node_files.h"
#include "memory_node/store/stored_state.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "port/thread.h"
#include "util/fabric/remote_address.h"

namespace dlsm {

// What the rows are of.
class StoredSource {
 public:
  virtual ~StoredSource() = default;

  // All rows as they are now. A manifest whose database is in `manifests` with the version that it
  // has is left out.
  virtual void TakeSnapshot(const std::map<uint64_t, uint64_t>& manifests, StoredRows* rows,
                            uint64_t* change) = 0;
  // All changes up to this one are persisted.
  virtual void NotePersisted(uint64_t change) = 0;
};

// Thread-safe.
class StoreKeeper {
 public:
  // A change that nobody waits for is persisted after so long.
  static constexpr auto kPersistWithin = std::chrono::milliseconds(100);

  struct Counts {
    uint64_t commits = 0;
    uint64_t persisted_commits = 0;
    uint64_t persist_calls = 0;   // Persist(), by callers
    uint64_t persist_groups = 0;  // and as they were carried out.
  };

  explicit StoreKeeper(std::unique_ptr<NodeFiles> files) : files_(std::move(files)) {}
  ~StoreKeeper();

  // `rows`: those that the files have. `contents`: the row of the contents as it is to be, which is
  // written together with the first rows of this process; empty if nobody cares. `source` outlives
  // Stop().
  void Start(StoredRows rows, std::string contents, StoredSource* source);
  // Everything is persisted, as far as that goes, and all that waits is answered. Nothing is noted
  // any more.
  void Stop() LOCKS_EXCLUDED(mutex_);

  NodeFiles& files() { return *files_; }
  const NodeFiles& files() const { return *files_; }

  // Something has changed. To be called under the lock that a snapshot takes as well. Returns the
  // number of the change.
  uint64_t NoteChange() noexcept { return changes_.fetch_add(1, std::memory_order_acq_rel) + 1; }

  // The last one.
  uint64_t change() const noexcept { return changes_.load(std::memory_order_acquire); }

  // Calls `done` when all that was noted so far is stored, or persisted: at once, if it is. With an
  // error if the files have failed: then nothing is, any more.
  void WhenStored(bool persisted, std::function<void(const Status&)> done) LOCKS_EXCLUDED(mutex_);
  // Calls `done` when what was stored in these spans before the call is persisted. Callers that
  // come while one synchronises share the next.
  void Persist(std::vector<RemoteSpan> spans, std::function<void(const Status&)> done)
      LOCKS_EXCLUDED(mutex_);
  // Somebody waits for memory that is free when its release is persisted.
  void PersistSoon() LOCKS_EXCLUDED(mutex_);

  // OK while changes can be stored. Otherwise why they cannot: Busy while the disk is full, and
  // then they will be when it is not; any other error stays.
  Status Check() const LOCKS_EXCLUDED(mutex_);
  Counts counts() const LOCKS_EXCLUDED(mutex_);

 private:
  using Clock = port::Clock;
  using Done = std::function<void(const Status&)>;
  struct Waiter {
    uint64_t change = 0;
    bool persisted = false;
    Done done;
  };
  struct PersistCall {
    std::vector<RemoteSpan> spans;
    Done done;
  };

  void Run() LOCKS_EXCLUDED(mutex_);
  // Returns true if there is something to write now. Otherwise *until is the time of the next look.
  bool IsDueLocked(bool* persist, Clock::time_point* until) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One round of the steps above.
  Status WriteRound(bool persist, uint64_t* change, bool* persisted) LOCKS_EXCLUDED(mutex_);
  void NoteRound(const Status& status, uint64_t change, bool persisted) LOCKS_EXCLUDED(mutex_);
  void RunPersists() LOCKS_EXCLUDED(mutex_);
  Status PersistAll(const std::vector<PersistCall>& calls);
  bool HasFailedLocked() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailLocked(const Status& status) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<NodeFiles> files_;
  StoredSource* source_ = nullptr;
  // The rows that the files have but for manifests, and the versions of these; and the row of the
  // contents, if it is still to be written. Of the keeper's thread.
  std::string contents_;
  StoredRows rows_;
  std::map<uint64_t, uint64_t> manifests_;

  std::atomic<uint64_t> changes_{0};

  mutable port::Mutex mutex_;  // Protects what follows. Not held while anything is written.
  port::CondVar work_{mutex_};
  port::CondVar persist_work_{mutex_};
  bool started_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool persist_soon_ GUARDED_BY(mutex_) = false;
  uint64_t stored_ GUARDED_BY(mutex_) = 0;
  uint64_t persisted_ GUARDED_BY(mutex_) = 0;
  Clock::time_point stored_since_ GUARDED_BY(mutex_);  // Of changes that are not persisted.
  Clock::time_point retry_at_ GUARDED_BY(mutex_);      // After the disk was full.
  Status trouble_ GUARDED_BY(mutex_);                  // Busy, or the error that stays.
  std::vector<Waiter> waiters_ GUARDED_BY(mutex_);
  std::vector<PersistCall> persists_ GUARDED_BY(mutex_);
  Counts counts_ GUARDED_BY(mutex_);
  port::Thread thread_;
  port::Thread persist_thread_;
};

}  // namespace dlsm
