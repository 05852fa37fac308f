// The live snapshots of a database.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/memtable/sequencer.h"
#include "port/mutex.h"

namespace dlsm {

// Of null: false. A snapshot that another handle has made may be of another type.
inline bool IsSnapshotOf(const Snapshot* snapshot, const DB* db) {
  return snapshot != nullptr && snapshot->owner_ == db;
}

// What reads with options that `db` is given return; null is the present.
inline Status CheckSnapshot(const ReadOptions& options, const DB* db) {
  if (options.snapshot == nullptr || IsSnapshotOf(options.snapshot, db)) [[likely]]
    return Status::OK();
  return Status::InvalidArgument("ReadOptions::snapshot is of another DB",
                                 "take one from the DB that is to be read");
}

class SnapshotImpl final : public Snapshot {
 public:
  SnapshotImpl(const DB* owner, SequenceNumber sequence) : Snapshot(owner), sequence_(sequence) {}
  SequenceNumber sequence() const { return sequence_; }

 private:
  friend class SnapshotList;
  const SequenceNumber sequence_;
  std::list<std::unique_ptr<SnapshotImpl>>::iterator position_;
};

// Thread-safe. A snapshot enters the list under the same lock that List() takes, and its number is
// drawn there: so whoever lists snapshots after a memtable was cut sees every snapshot that needs a
// version older than the cut's newest.
class SnapshotList {
 public:
  // `owner` says whose they are; null: of nobody who reads with them.
  explicit SnapshotList(const DB* owner = nullptr) : owner_(owner) {}

  // Settled when this returns.
  const SnapshotImpl* Take(Sequencer* sequencer) LOCKS_EXCLUDED(mutex_) {
    const SnapshotImpl* snapshot;
    {
      port::MutexLock lock(mutex_);
      auto& taken = snapshots_.emplace_back(
          std::make_unique<SnapshotImpl>(owner_, sequencer->Now().next - 1));
      taken->position_ = std::prev(snapshots_.end());
      snapshot = taken.get();
    }
    sequencer->WaitSettled(snapshot->sequence());
    return snapshot;
  }

  void Release(const SnapshotImpl* snapshot) LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    snapshots_.erase(snapshot->position_);
  }

  // Ascending, without duplicates.
  std::vector<SequenceNumber> List() const LOCKS_EXCLUDED(mutex_) {
    port::MutexLock lock(mutex_);
    std::vector<SequenceNumber> sequences;
    for (const auto& snapshot : snapshots_) {
      if (sequences.empty() || sequences.back() != snapshot->sequence()) {
        sequences.push_back(snapshot->sequence());
      }
    }
    return sequences;
  }

 private:
  const DB* const owner_;

  mutable port::Mutex mutex_;
  std::list<std::unique_ptr<SnapshotImpl>> snapshots_ GUARDED_BY(mutex_);  // In order of sequence.
};

}  // namespace dlsm
